"""Measurements after each epoch of a density model, early stopping, and the final warning."""

import math
import warnings
from contextlib import suppress
from dataclasses import replace

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._ranks import ranks
from ..arrays import cast, dense, main_directions, make_rng, namespace, row_sums, to_numpy
from ..evaluation._lengths import length_partitions
from ..evaluation._observed import QUICK
from ..exceptions import DivergenceError
from ..inference import LogPartition, by_site, held
from ..inputs import split_missing
from ._chains import FEW_ROWS, most_rows
from ._loop import Monitor
from ._penalties import share_of_zeros
from ._tracking import PRECISE, LogPartitionTracker

_ROWS = 1000  # training rows whose likelihood is measured
_SHARE = 0.1  # of the cost of learning that estimates of log Z may take,
_SHARE_STOPPING = 0.5  # and with early stopping, which depends on them
_FREE = 2**28  # multiplications that they may take in any fit: about 50 ms
_LAST = 2**34  # multiplications of the estimate at the end of a fit that had none: some seconds
_MOST_UNITS = 2**14  # of a layer whose chains take little memory; ignored with early stopping
_FREE_ENERGY = 0.2  # cost of a row, in units of the cost of learning from it
_SURE = 4.0  # standard errors beyond which a difference is not due to chance
_LOSS = 0.1  # nats of likelihood by which one machine is not yet better than another
_MISMATCH = 0.8  # tolerated distance of means and correlations, in standard deviations
_DIRECTIONS = 8  # directions of largest variance, along which moments are compared
_LEAST_ROWS = 100  # fewest rows for which this comparison is meaningful
_INCOMPLETE_ROWS, _LEAST_INCOMPLETE = 100, 20  # rows with missing values that are annealed,
_ANNEALED = 2**21  # at most so many times the number of weights: about a second
# Chains in each run that estimates log Z of counts, and the approximate number of multiplications
# per weight that this takes, with 64 chains and 100 totals.
_CHAINS_OF_TOTALS, _COST_OF_TOTALS = 8, 2**13


class LikelihoodMonitor(Monitor):
    """Measures the likelihood of training and validation rows.

    Parameters
    ----------
    density : callable
        ``density(machine, state)`` returns the :class:`~skrbm.evaluation.Density` of a machine in
        training.
    phase : ModelPhase
    rows : Rows
    train : ndarray of int
        Training rows.
    validation : ndarray of int or None
        Validation rows.
    stopping : EarlyStopping or None
    batch_size : int
    seed : SeedSequence
        Seed of the estimates of log Z.
    is_density : bool, default=True
        Whether the main aim is the density of rows, which should then be better than that of
        independent units in the end.
    has_rate : bool, default=False
        Whether the user has chosen a numeric learning rate.
    settings : collection of str, default=()
        The parameters of the estimator, which warnings may name.
    every_epoch : bool, default=True
        Whether the likelihood is measured after each epoch; if not, once at the end of a fit.
    keep_runs : callable, optional
        Called at the end of a fit with its density, if log Z was estimated by several runs.
    """

    def __init__(
        self,
        density,
        phase,
        rows,
        train,
        validation,
        *,
        stopping,
        batch_size,
        seed,
        is_density=True,
        has_rate=False,
        settings=(),
        every_epoch=True,
        keep_runs=lambda density: None,
    ):
        super().__init__(1 if stopping is None else stopping.patience)
        self.density, self.phase, self.rows, self.validation = density, phase, rows, validation
        self.margin = 0.0 if stopping is None else stopping.tol
        self.is_density, self.has_rate, self.every_epoch = is_density, has_rate, every_epoch
        self.settings, self.keep_runs = settings, keep_runs
        self.share = _SHARE if stopping is None else _SHARE_STOPPING
        self.n_rows = float(rows.counts[train].sum())  # of this rank
        self.seed, chains = seed, np.random.SeedSequence(seed.generate_state(4).tolist())
        generator = np.random.default_rng(chains)
        self.train, self.weights = train, rows.weights_of(train)
        if len(train) > _ROWS:
            drawn = generator.choice(train, _ROWS, p=self.weights / self.weights.sum())
            self.train, self.weights = np.unique(drawn, return_counts=True)
        if validation is not None and rows.has_missing and len(validation) > _INCOMPLETE_ROWS:
            self.validation = generator.choice(validation, _INCOMPLETE_ROWS, replace=False)
        self._tracker = LogPartitionTracker(self._independent_units, chains, self._some_rows)
        most = most_rows(rows.X.shape[1])
        self.block_rows = min(most, max(batch_size, FEW_ROWS))
        self.budget = None  # cost that log Z may now take, in units of learning from a row
        self.log_z = self.end = None  # of the last epoch, and the machine and state after it

    def get_state(self):
        tracker = {k: v for k, v in vars(self._tracker).items() if k not in ("base", "data")}
        names = "train", "weights", "validation", "budget"
        own = {name: getattr(self, name) for name in names}
        return super().get_state() | own | {"tracker": tracker}

    def set_state(self, state):
        state = dict(state)
        vars(self._tracker).update(state.pop("tracker"))
        super().set_state(state)

    def measure(self, machine, state):
        self.end, self.value = (machine, state), None
        if not self.every_epoch:
            self.budget = (self.budget or 0.0) + self.share * self.n_rows
            return {}
        return self._measured(machine, state)

    def _measured(self, machine, state):
        density = self.density(machine, state)
        self.log_z = log_z = self._log_partition(density)
        measured = self._by_equations(density, state)
        if log_z is None:
            return measured
        measured["log_likelihood_std"] = log_z.std
        if len(machine.units) == 2 and not self.rows.has_missing:
            value = self._mean(self._log_weights(density, self.train)) - log_z.value
            measured["log_likelihood"] = value
        if self.validation is not None:
            scores = self._log_weights(density, self.validation) - log_z.value
            self.score(scores, self.rows.weights_of(self.validation))
            self.noise = math.hypot(self.noise, min(log_z.std, PRECISE))
            measured["score"] = self.value
        return measured

    def _by_equations(self, density, state):
        """Return the log-likelihood with log Z from mean-field equations, a dict; may be empty.

        With one hidden layer, rows with missing values would have to be annealed, which takes
        longer than learning from them.
        """
        is_deep = len(density.machine.weights) > 1
        log_z = None
        if is_deep or not self.rows.has_missing:
            with suppress(DivergenceError):
                log_z = self.phase.log_partition(density.machine, state)
        if log_z is None:
            return {}
        if is_deep:
            values = self._values(density.free_energy, self.train)
        else:
            values = -self._log_weights(density, self.train)
        return {"tap_log_likelihood": -self._mean(values) - log_z}

    def _log_weights(self, density, index):
        """Return log p(x) + log Z of the rows at ``index``, or of their observed values."""
        if not self.rows.has_missing:
            return self._values(density.log_weight_of_full_rows, index)
        return self._values(lambda rows: density.log_weight(rows, self.seed, QUICK), index)

    # ------------------------------------------------------------------------- log Z

    def _log_partition(self, density):
        """Return log Z, a LogPartition; None if it would cost too much, or is not needed."""
        n_units = density.machine.n_units
        if self._is_of_counts(density):
            return None
        if self.validation is None and (
            self.rows.has_missing or len(n_units) > 2 or max(n_units) > _MOST_UNITS
        ):
            return None
        if self.budget is None:
            self.budget = _FREE / _n_weights(density.machine)
        self.budget += self.share * self.n_rows
        rows_cost = _FREE_ENERGY * len(self.train)
        found = None
        if ranks().rank == 0:
            found = self._tracker.estimate(density.machine, self.budget - rows_cost)
        self.budget -= self._tracker.cost + rows_cost * (found is not None)
        found, self.budget = ranks().first((found, self.budget))
        return found

    @staticmethod
    def _is_of_counts(density):
        """Whether rows with different totals have different log Z."""
        return density.machine.units[0].totals(density.starts) is not None

    def _independent_units(self, machine):
        """Return the parameters of independent visible units that are like the data."""
        columns = self.rows.columns_at(self.train[:FEW_ROWS], machine.dtype)
        return machine.units[0].base_theta(machine.thetas[0], columns)

    def _some_rows(self):
        """Return some training rows as visible values."""
        most = most_rows(self.rows.X.shape[1])
        return dense(self.rows.batch(self.train[: min(FEW_ROWS, most)])[0])

    # ------------------------------------------------------------------------- the end of a fit

    def conclude(self, machine, state):
        """Warn once if the machine is worse than independent units, or does not match the data."""
        late, is_last = {}, self.end is not None and machine is self.end[0]
        if self.end is not None and (self.log_z is None or not is_last):
            self.budget = max(self.budget or 0.0, _LAST / _n_weights(machine))
            late = self._measured(machine, state)
            late.pop("tap_log_likelihood", None)
            late = late if is_last else {}  # these numbers belong to the last epoch
        with np.errstate(over="ignore", invalid="ignore"):  # of large parameters
            found = self.warning(machine, state) if ranks().rank == 0 else None
            message, own = ranks().first(found or (None, None))
        if own is not None and (self.rows.has_missing or self.log_z is None):
            late["log_likelihood"] = own
        if message is not None:
            warnings.warn(message, ConvergenceWarning, stacklevel=9)
        runs = ranks().first(self._tracker.runs(machine))
        if runs is not None and len(machine.units) == 2:
            self.keep_runs(replace(self.density(machine, state), runs=runs))
        return self.agreed(machine, late) if late else {}

    def warning(self, machine, state):
        """Return a message about what is wrong after a fit, and the log-likelihood.

        Either may be None.
        """
        if share_of_zeros(machine.weights) == 1:
            return "All weights are 0, so the units are independent; lower alpha.", None
        if not self.is_density or self.end is None or len(machine.units) > 2:
            return None, None
        density = self.density(machine, state)
        (index, log_z), likelihood = self._compared(density), None
        if len(index):
            own = self._log_weights(density, index) - log_z.value
            independent = self._independent(density, index)
            loss, likelihood = independent - own, self._mean(own)
            mean = self._mean(loss)
            variance = self._mean((loss - mean) ** 2) / self.weights[: len(index)].sum()
            error = math.hypot(log_z.std, variance**0.5)
            if mean > max(_SURE * error, _LOSS):
                return (
                    f"The log-likelihood of training rows, {likelihood:.4g}, is below that of "
                    f"independent columns, {self._mean(independent):.4g}; use "
                    f"{self._remedies(machine)}."
                ), likelihood
        found = None if self.has_rate else self._mismatch(machine, state)
        if found is None:
            return None, likelihood
        return (
            "Training has not converged, or the chains have not mixed: moments of the model "
            f"are {found:.2g} standard deviations away from those of the data; use "
            f"{self._remedies(machine)}."
        ), likelihood

    def _remedies(self, machine):
        """Return possible remedies as text, starting with more epochs."""
        others = [text for name, text in self.phase.remedies.items() if name in self.settings]
        if self.has_rate:
            others = ["a lower learning_rate"]
            others += ["scaled columns"] * (machine.units[0].reach == math.inf)
        return " or ".join([", ".join(["more epochs (n_iter)", *others[:-1]]), *others[-1:]])

    def _compared(self, density):
        """Return which rows are compared with independent units, and log Z."""
        machine = density.machine
        if self._is_of_counts(density):
            if math.prod(machine.weights[0].shape) * _COST_OF_TOTALS > _LAST:
                return self.train[:0], None
            index = self.train[:FEW_ROWS]
            totals = self._values(machine.units[0].totals, index)
            rng = make_rng(self.seed, np.empty(0))
            found = length_partitions(machine, rng, totals.max(), _CHAINS_OF_TOTALS)
            value, std = found.at(totals)
            return index, LogPartition(value, float(std.mean()))
        index, log_z = self._rows_compared(density), self.log_z
        if log_z is None and self.rows.has_missing and len(index):
            log_z = self._tracker.estimate(machine, math.inf)
        return index if log_z is not None else index[:0], log_z

    def _rows_compared(self, density):
        """Return rows whose likelihoods can be computed; few or none if values are missing.

        Rows with missing values are annealed, which may take long.
        """
        if not self.rows.has_missing:
            return self.train
        n_rows = _ANNEALED // math.prod(density.machine.weights[0].shape)
        index = self.train[: min(n_rows, _INCOMPLETE_ROWS)]
        return index if len(index) >= _LEAST_INCOMPLETE else index[:0]

    def _independent(self, density, index):
        """Return log-likelihoods of rows by independent units fitted to the data."""
        machine = density.machine
        unit, theta = machine.units[0], self.rows.initial_theta
        theta = theta.map(lambda part: cast(part, machine.dtype))

        def function(given):
            volume = 0.0 if density.volume is None else density.volume(given)
            rows, observed = split_missing(given)
            if unit.is_joint and observed is not None:
                own = held(unit, rows, observed).log_partition(theta)
                return volume + row_sums(own) - unit.total_log_partition(theta)
            log_z = unit.of_rows(rows).log_partition(theta)
            if observed is not None:
                log_z = namespace(rows).where(by_site(unit, observed), log_z, 0 * log_z)
            return volume + unit.log_weight(theta, rows) - row_sums(log_z)

        return self._values(function, index)

    def _mismatch(self, machine, state):
        """Return the distance between moments of model and data; None if insignificant.

        Means and variances along the main directions of the data are compared. The variances are
        sums of pair correlations.
        """
        is_precise = self.log_z is not None and self.log_z.std <= PRECISE
        if (
            not is_precise
            or self.rows.has_missing
            or self.rows.has_fractions
            or not machine.units[0].is_discrete  # short fits of real columns are often far away
            or not self.phase.samples_model
            or len(self.train) < _LEAST_ROWS
            or machine.n_units[0] > _MOST_UNITS
        ):
            return None
        found = self._tracker.sample()
        if found is None:
            return None
        (samples, weights), rows = found, self._values(lambda rows: rows, self.train[:FEW_ROWS])
        return moment_mismatch(rows, self.weights[:FEW_ROWS], samples, weights)

    # ------------------------------------------------------------------------- rows

    def _mean(self, values):
        """Return the weighted mean of the values of the first training rows."""
        return float(np.average(values, weights=self.weights[: len(values)]))

    def _values(self, function, index):
        """Return the values of a function of visible values, computed for blocks of rows."""
        blocks = np.array_split(index, -(-len(index) // self.block_rows))
        return np.concatenate([to_numpy(function(self.rows[block])) for block in blocks])


def moment_mismatch(rows, counts, samples, weights):
    """Return the largest distance between moments of rows and samples; None if insignificant.

    ``counts`` are the multiplicities of the rows, and ``weights`` the importance weights of the
    samples, which sum to 1. The distance is in standard deviations of rows along their main
    directions.
    """
    p = counts / counts.sum()
    centre = p @ rows
    directions, scales = main_directions(np.sqrt(p)[:, None] * (rows - centre), _DIRECTIONS)
    along = [((part - centre) @ directions) / scales for part in (rows, samples)]
    farthest = None
    for power in (1, 2):
        a, b = (part**power for part in along)
        mean, model_mean = p @ a, weights @ b
        variance, model_variance = p @ (a - mean) ** 2, weights @ (b - model_mean) ** 2
        gap = np.abs(mean - model_mean)
        error = np.sqrt(variance / counts.sum() + model_variance * (weights @ weights))
        sure = (gap > _SURE * error) & (gap > _MISMATCH * power)
        if sure.any():
            farthest = max(farthest or 0.0, float(gap[sure].max() / power))
    return farthest


def _n_weights(machine):
    return sum(math.prod(W.shape) for W in machine.weights)
