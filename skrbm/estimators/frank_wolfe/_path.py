"""How machines that grow are fitted: the path, when it ends, and which machine is kept."""

import copy
import warnings
from numbers import Real

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils.validation import check_is_fitted

from ..._callbacks import HAS_CALLBACKS, with_callbacks
from ..._checks import check_count
from ...arrays import (
    cast,
    dense_rows,
    from_numpy,
    make_rng,
    one_blas_thread,
    parameter_reference,
    seed_sequence,
    take_rows,
    to_numpy,
)
from ...inference import Gibbs, sample
from ...inputs import check_data, check_range, into_support, machine_from
from ...machine import MAX_UNITS
from ...units import Bernoulli
from .._training import keeps_features
from ._growth import COLUMNS, Growth, Plan
from ._mixture import ExactModel, Mixture, SampledModel, machine_of, mixture_of
from ._subproblem import Rows

_START_ROWS = 1000  # of the data, from which random starts are made
_BURN_IN = 100  # sweeps of the chains of a machine that a path is cut to

_STOPS = {
    "max_components": "max_components units",
    "no unit": "no start of the subproblem found a unit worth more than tol",
    "refused": "n_iter_no_change insertions in a row promised no rise of the penalised likelihood",
    "duality gap": "the duality gap fell below tol",
    "validation": "the rows set aside have gained nothing by n_iter_no_change steps",
    "max_steps": "away-steps went on without end",
    "callback": "a callback stopped it",
}


class Path:
    """The machines of a growth, and what is known of the steps to them.

    Parameters
    ----------
    columns : dict of list
        An entry for each step.
    machines : list of (index, counts, bias)
        After each step: indices into the pool of atoms, multiplicities, visible biases.
    pool : list of ndarray of shape (n_visible + 1,)
        All atoms that were ever inserted.
    first : (index, counts, bias)
        The machine that it begins with.
    """

    def __init__(self, columns=None, machines=(), pool=(), first=None):
        self.columns = {name: list((columns or {}).get(name, ())) for name in COLUMNS}
        self.machines, self.pool, self.first = list(machines), list(pool), first

    def until(self, n_steps):
        """Return the path of the first steps."""
        columns = {name: values[:n_steps] for name, values in self.columns.items()}
        return Path(columns, self.machines[:n_steps], self.pool, self.first)

    def record(self, row, machine):
        for name, value in row.items():
            self.columns[name].append(value)
        self.machines.append(machine)

    def mixture(self, machine):
        index, counts, bias = machine
        atoms = np.array([self.pool[i] for i in index]).reshape(len(index), bias.size + 1)
        return Mixture(atoms, counts, bias)


class Monitor:
    """When to stop, and which machine was the best, that of the beginning included."""

    def __init__(self, rbm, criterion, growth):
        self.rbm, self.criterion = rbm, "score" if criterion is True else criterion
        self.n_bad, self.n_refused, self.improved = 0, 0, False
        self.best = self._value(growth.score(), growth.score(held_out=True))

    def _value(self, score, validation_score):
        return validation_score if self.criterion == "score" else validation_score - score

    def stop(self, row, growth):
        """Look at a step; returns why to stop, or None."""
        rbm = self.rbm
        self.improved = not self.criterion and row["reason"] != "refused"
        if row["reason"] == "no unit":
            return row["reason"]
        if growth.plan.temperature is not None and row["duality_gap"] <= rbm.tol:
            return "duality gap"
        if row["reason"] == "refused":
            self.n_refused += 1
            growth.tighten()
            return "refused" if self.n_refused >= rbm.n_iter_no_change else None
        self.n_refused = 0
        return self._validate(row) if self.criterion else None

    def _validate(self, row):
        margin = self.rbm.tol if self.criterion == "score" else -self.rbm.gap_tol
        value = self._value(row["score"], row["validation_score"])
        self.improved = value >= self.best + margin
        self.n_bad = 0 if self.improved else self.n_bad + 1
        self.best = max(self.best, value)
        return "validation" if self.n_bad >= self.rbm.n_iter_no_change else None


class TrainedByGrowth:
    """Binary density models that learn unit by unit; a subclass has FrankWolfeRBM's parameters."""

    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    @keeps_features
    def fit(self, X, y=None):
        """Grow a machine on data, and choose its size.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Values of the visible units.
        y : Ignored

        Returns
        -------
        self : object

        Warns
        -----
        UserWarning
            If no hidden unit is worth inserting: the machine then has none. So it is wherever all
            rows are the same, or have one column, since biases alone say all that there is to say.
        """
        path = self._training if self.warm_start and hasattr(self, "_training") else None
        X = check_data(self, X, reset=path is None)
        n_validation = self._n_validation(X.shape[0])
        self._grow(X, path, n_validation, self.max_components, self.early_stopping)
        if not self.n_components_:
            warnings.warn(
                f"the machine has no hidden unit: {_STOPS[self.stop_reason_]}. Its visible units "
                "are independent. Set another alpha, a lower tol, or give more data; constant or "
                "independent columns need no hidden unit.",
                stacklevel=4 + HAS_CALLBACKS,  # beyond the wrappers of this method
            )
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def grow(self, X, n_units=1):
        """Insert more units into the fitted machine, without stopping early.

        The penalty begins again at ``alpha``, as in each ``fit``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data to learn them from; all rows are used.
        n_units : int, default=1

        Returns
        -------
        self : object

        Warns
        -----
        UserWarning
            If the path ends before there are ``n_units`` more.
        """
        check_is_fitted(self, "path_")
        check_count("n_units", n_units, 1)
        X, most = check_data(self, X), self.n_components_ + n_units
        self._grow(X, self._training, 0, most, False)
        if self.n_components_ < most:
            warnings.warn(
                f"the machine has {self.n_components_} units, {most - self.n_components_} less "
                f"than were asked for: {_STOPS[self.stop_reason_]}. Lower alpha or tol, or raise "
                "n_chains or n_iter_no_change.",
                stacklevel=3,  # beyond scikit-learn's wrapper
            )
        return self

    def _n_validation(self, n):
        if not self.early_stopping:
            return 0
        n_validation = max(1, round(self.validation_fraction * n))
        if n_validation >= n:
            raise ValueError(
                f"validation_fraction={self.validation_fraction} of {n} samples leaves no row for "
                "one of the two parts; give more samples or set early_stopping=False"
            )
        return n_validation

    @one_blas_thread
    def _grow(self, X, path, n_validation, most, early_stopping):
        """Insert units until there are ``most``, or a criterion says that it is enough.

        It goes on from the end of a path, or where there is none begins with ``init``.
        """
        if self.alpha <= 0 and self.radius is None:
            raise ValueError(
                "alpha=0 leaves the weights of a new unit without bound; set alpha > 0, or radius "
                "to the largest norm of a unit's weights"
            )
        if self.temperature == "learn" and self.step == "1/t":
            raise ValueError(
                "temperature='learn' scales units that a line search has found; whole units of "
                "step='1/t' have the temperature 'n_components', or share a number"
            )
        unit = Bernoulli()
        if check_range(X, unit, self.binarize):
            X = into_support(X, unit, self.binarize)
        place = parameter_reference(X) if path is None else self.components_
        seeds = seed_sequence(self.random_state).spawn(3)
        rng, generator = make_rng(seeds[1], place), np.random.default_rng(seeds[2])
        order = generator.permutation(X.shape[0])
        train, held_out = np.sort(order[n_validation:]), order[:n_validation]
        mixture = self._first_mixture(X, train, path)
        if path is None and mixture.counts.size > most:
            raise ValueError(
                f"init has {mixture.counts.size} hidden units, more than max_components={most}; "
                "raise max_components"
            )
        self._check_temperature(mixture)
        with np.errstate(over="ignore"):
            if not machine_of(mixture, place).is_finite():
                raise ValueError(f"parameters of init overflow {place.dtype}, the dtype of X's")
        # What is fitted stays as it is until the end.
        path = Path() if path is None else path.until(len(path.machines))
        model = self._model(mixture.bias.size, place, rng)
        growth = self._growth(X, train, path, mixture, model, generator)
        growth.held_out_with(Rows(take_rows(X, held_out)) if n_validation else None)
        self._evaluation_seed = seeds[0]
        self.visible_means_ = cast(from_numpy(growth.means, place), place.dtype)
        self._run(growth, path, Monitor(self, early_stopping, growth), most, X)

    def _growth(self, X, train, path, mixture, model, generator):
        rows = from_numpy(np.sort(generator.permutation(train)[:_START_ROWS]), X)
        starts = to_numpy(dense_rows(X, rows, model.visible.dtype))
        plan, alpha, data = self._plan(), float(self.alpha), Rows(take_rows(X, train))
        growth = Growth(plan, alpha, data, model, mixture, generator, starts, path.pool)
        path.pool = growth.pool
        if path.first is None:
            path.first = growth.snapshot()
        return growth

    def _plan(self):
        given = isinstance(self.temperature, Real)
        return Plan(
            radius=self.radius,
            line_search=self.step == "line_search",
            temperature=float(self.temperature) if given else None,
            learns_temperature=self.temperature == "learn",
            away_steps=self.away_steps,
            n_restarts=self.n_restarts,
            n_bias_steps=self.n_bias_steps,
            learning_rate=float(self.learning_rate),
            tol=float(self.tol),
        )

    def _first_mixture(self, X, train, path):
        """Return the machine to begin with: the fitted one, independent units, or ``init``."""
        if path is not None:
            return mixture_of(self.machine_)
        n_features = X.shape[1]
        if isinstance(self.init, str):
            bias = to_numpy(Bernoulli().initial_theta(take_rows(X, train)).field).astype(np.float64)
            return Mixture(np.zeros((0, n_features + 1)), np.zeros(0), bias)
        parts = self.init if isinstance(self.init, tuple | list) else (self.init, None, None)
        if len(parts) != 3:
            raise ValueError(
                "init must be 'independent', a fitted estimator or the three arrays (components, "
                f"intercept_hidden, intercept_visible), got {len(parts)} items"
            )
        if hasattr(parts[0], "multiplicities_"):
            machine = parts[0].machine_
        else:
            machine = machine_from(*parts, (Bernoulli(), Bernoulli()))
        if machine.n_units[0] != n_features:
            raise ValueError(
                f"init has {machine.n_units[0]} visible units, but X has {n_features} features"
            )
        return mixture_of(machine)

    def _check_temperature(self, mixture):
        total = mixture.counts.sum()
        if isinstance(self.temperature, Real) and total > self.temperature * (1 + 1e-6):
            raise ValueError(
                f"temperature={self.temperature} bounds the sum of the multiplicities, and that of "
                f"the machine to begin with is {total:.4g} already; set temperature to more, or to "
                "'n_components' or 'learn'"
            )

    def _model(self, n_visible, place, rng):
        """Return what stands for the law of the machines."""
        if self.inference != "exact":
            sampler = Gibbs(self.n_gibbs_steps) if self.inference == "gibbs" else self.inference
            return SampledModel(sampler, self.n_chains, place, rng)
        if n_visible > MAX_UNITS:
            raise ValueError(
                f"inference='exact' sums over all configurations of at most "
                f"{MAX_UNITS} visible units, and X has {n_visible} features; use "
                "inference='gibbs'"
            )
        return ExactModel(n_visible, place)

    def _run(self, growth, path, monitor, most, X):
        """Take steps until one of the criteria is met; whatever ends it, a machine is published."""
        context = self._init_callback_context(max_subtasks=None)
        data = {"estimator": self, "X": X, "y": X}
        kept, reason = growth.snapshot(), "interrupted"

        def attributes():
            return self._attributes(growth, path, kept)

        context.call_on_fit_task_begin(**data, reconstruction_attributes=attributes)
        try:
            n_steps, stop = 0, None
            while stop is None and len(growth.index) < most:
                task = context.subcontext(task_name="unit")
                task.call_on_fit_task_begin(**data)
                row = growth.step()
                n_steps += 1
                path.record(row, growth.snapshot())
                self._report(row)
                stop = monitor.stop(row, growth)
                if monitor.improved:
                    kept = growth.snapshot()
                if task.call_on_fit_task_end(**data, reconstruction_attributes=attributes):
                    stop = "callback"
                elif n_steps >= 4 * most + 100:
                    stop = stop or "max_steps"
            reason = stop or "max_components"
        finally:
            self._publish(growth, path, kept, reason)
        context.call_on_fit_task_end(**data, reconstruction_attributes=dict)

    def _report(self, row):
        if self.verbose:
            shown = {k: v for k, v in row.items() if isinstance(v, float) and v == v}
            values = ", ".join(f"{name} = {value:.4g}" for name, value in shown.items())
            print(f"[{type(self).__name__}] {row['reason']}: {row['n_components']} units, {values}")

    def _attributes(self, growth, path, kept):
        """Return the fitted attributes of a machine on the path."""
        machine = machine_of(path.mixture(kept), growth.model.visible)
        return _machine_attributes(machine, kept[1], len(path.machines))

    def _publish(self, growth, path, kept, reason):
        for name, value in self._attributes(growth, path, kept).items():
            setattr(self, name, value)
        mixture = path.mixture(kept)
        self.starts_ = growth.draws(mixture, self.n_chains)
        self._training, self.path_, self.stop_reason_ = path, path.columns, reason

    @one_blas_thread
    def truncate(self, n_components):
        """Return a smaller machine of the path.

        Parameters
        ----------
        n_components : int
            Number of units; the last machine of this size on ``path_`` is taken. The machine that
            the path begins with is on it.

        Returns
        -------
        estimator : FrankWolfeRBM
            Fitted; this one is left as it is.
        """
        check_is_fitted(self, "path_")
        check_count("n_components", n_components, 0)
        machines = [self._training.first, *self._training.machines]  # after 0, 1, ... steps
        sizes = [len(index) for index, _, _ in machines]
        if n_components not in sizes:
            raise ValueError(
                f"no machine on the path has {n_components} units; its sizes are "
                f"{sorted(set(sizes))}"
            )
        n_steps = len(sizes) - 1 - sizes[::-1].index(n_components)
        other, path = copy.copy(self), self._training.until(n_steps)
        other.__dict__.pop("_log_partitions", None)
        machine = machine_of(path.mixture(machines[n_steps]), self.starts_)
        attributes = _machine_attributes(machine, machines[n_steps][1], n_steps)
        rng = make_rng(self._evaluation_seed, machine.weights[0])
        chains = Gibbs().start(machine, self.starts_, rng)
        other.starts_ = sample(Gibbs(), machine, chains, rng, _BURN_IN).layers[0]
        for name, value in attributes.items():
            setattr(other, name, value)
        other._training, other.path_, other.stop_reason_ = path, path.columns, "truncated"
        return other


def _machine_attributes(machine, counts, n_steps):
    return {
        "units_": machine.units,
        "components_": machine.weights[0],
        "intercept_hidden_": machine.thetas[1].field,
        "intercept_visible_": machine.thetas[0].field,
        "multiplicities_": counts.copy(),
        "n_components_": counts.size,
        "n_iter_": n_steps,
    }
