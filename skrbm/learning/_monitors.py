"""What is measured after each epoch of a density, and when its training stops."""

import math
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .. import evaluation
from .._ranks import ranks
from ..arrays import Columns, cast, from_numpy, make_rng, namespace, row_sums, to_numpy
from ..evaluation._observed import QUICK
from ..evaluation._pseudo_likelihood import observed_pseudo_log_likelihood
from ..exceptions import DivergenceError
from ..inference import by_site, completed, held
from ..inputs import split_missing
from ._failures import (
    DIVERGED,
    WRONG_SHARES,
    first_told,
    main_directions,
    marked,
    told_if_apart,
    told_if_fallen,
    told_if_short,
    told_if_stuck,
)
from ._loop import Monitor
from ._penalties import share_of_zeros
from ._tracking import LogPartitionTracker

_MONITORED_ROWS, _MONITORED_BITS = 256, 16
_PART_BY_BITS, _FEWEST_BY_BITS = 1 / 16, 64  # rows at most, of few rows, and at least
_GAP_ROWS = 1000  # training rows whose free energy is compared with the validation rows'
_BLOCK_ELEMENTS = 2**16  # of rows that are measured together, where batches are small
_COMPLETION = 5  # sweeps that draw what is missing
_SHARE = 0.03  # of the cost of learning that estimates of log Z may have
_ADVANCE = 3.0  # times the credit, of the first estimate: it is best while the machine is simple
_LAST_SHARE = 0.02  # the same, in addition, of an estimate after the last epoch
_LITTLE = 2**30  # products of numbers that this one may always cost: at most about 0.4 s
_FREE_ENERGY = 0.2  # cost of a row, in units of the cost of learning from it
_UNSURE = 3.0  # nats, the largest standard error of log Z that excuses a low likelihood
_SURE, _PRECISE = 3.0, 0.3  # standard errors, and one of log Z by which means are known well
_NO_WEIGHTS = (
    "all weights are 0, so that the units are independent. Unless columns are constant, lower "
    "alpha, or begin with alpha=0 and go on with warm_start=True."
)


class LikelihoodMonitor(Monitor):
    """Measures the likelihood of validation rows, or how it falls behind that of training rows.

    A score is bad unless it beats the best by ``tol``. A gap, which can only grow once learning
    has begun, is bad if it exceeds the smallest by more than ``tol`` and its own standard error.

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
        Rows that are set aside.
    rng : Rng
    criterion : {"score", "free_energy_gap"}
    tol : float
    n_iter_no_change : int
    batch_size : int
    seed : SeedSequence
        Of the estimates of log Z.
    credit : float, default=0.0
        Cost that estimates of log Z may have at first, in units of the cost of learning from a row.
        It grows with each epoch, unless the criterion needs log Z: then there is no limit.
    is_density : bool, default=True
        Whether the density of rows is what is mainly learnt, so that it should be better than that
        of independent units in the end.
    """

    def __init__(
        self,
        density,
        phase,
        rows,
        train,
        validation,
        rng,
        *,
        criterion,
        tol,
        n_iter_no_change,
        batch_size,
        seed,
        credit=0.0,
        is_density=True,
    ):
        super().__init__(n_iter_no_change)
        self.density, self.phase, self.rows, self.validation = density, phase, rows, validation
        self.n_batches = -(-len(train) // max(1, batch_size))  # of an epoch
        self.train = train[rng.order(len(train))[:_GAP_ROWS]]
        self.n_by_bits = max(_FEWEST_BY_BITS, int(_PART_BY_BITS * len(train)))
        self.bits = rng.order(rows.X.shape[1])[:_MONITORED_BITS]
        self.by_score, self.tol, self.seed = criterion == "score", tol, seed
        self.by_score &= validation is not None
        self.is_density, self.credit = is_density, credit
        self.n_rows = float(rows.counts[train].sum())  # of this rank
        chains = np.random.SeedSequence(seed.generate_state(4).tolist())
        generator = np.random.default_rng(chains)
        self.shown = self._some_by_weight(train, generator, _GAP_ROWS)
        self.compared = self._some_by_weight(train, generator, _MONITORED_ROWS)  # by their means
        self._tracker = LogPartitionTracker(self._independent_units, chains, self._some_rows)
        few = _BLOCK_ELEMENTS // max(1, rows.X.shape[1])
        self.block_rows = max(batch_size, 64, min(few, _MONITORED_ROWS))
        self.noise = 0.0  # standard error of the gap
        self.independent = self.reached = None  # (pseudo-)log-likelihoods of training rows
        self.peaks = {}  # the largest value of each so far
        self.n_learnt, self._log_z = 0.0, None  # rows learnt from, and log Z after the last epoch
        self.failure = None  # what the end tells of a failure
        self.end = None  # the machine and the state that learning has ended with
        self.marks = []  # visible values of chains, and how many rows were learnt from until then

    def get_state(self):
        names = ("train", "bits", "credit", "reached", "peaks", "n_learnt", "marks")
        tracker = {k: v for k, v in vars(self._tracker).items() if k not in ("base", "data")}
        state = {name: getattr(self, name) for name in names}
        return super().get_state() | state | {"tracker": tracker}

    def set_state(self, state):
        state = dict(state)
        vars(self._tracker).update(state.pop("tracker"))
        super().set_state(state)

    @property
    def margin(self):
        return self.tol if self.by_score else -self.tol - self.noise

    def measure(self, machine, state):
        density = self.density(machine, state)
        measured, log_z = self._likelihood(density, state), self._log_partition(density)
        self.n_learnt, self._log_z = self.n_learnt + self.n_rows, log_z
        if self.phase.n_sweeps:
            self.marks = marked(self.marks, self.n_learnt, self.phase.visible(state))
        if self.validation is None:
            return measured | self._log_likelihood(density, log_z)
        held_out = self._free_energies(density, self.validation)
        trained = self._free_energies(density, self.train)
        means, errors = zip(
            self._mean(held_out, self.validation), self._mean(trained, self.train), strict=True
        )
        gap = float(means[0] - means[1])
        self.noise = np.hypot(*errors)
        self.value, measured["free_energy_gap"] = -gap, gap
        if self.by_score:
            self.value = -np.inf
        if log_z is None:
            return measured
        measured["score"] = self._score(density, held_out) - log_z.value
        if self.by_score:
            self.value = measured["score"]
        return measured | self._log_likelihood(density, log_z)

    def _score(self, density, free_energies):
        """Return the mean log-weight of validation rows, given their free energies."""
        if not self.rows.has_missing:
            log_weights = self._values(density.log_weight, self.validation)
        elif len(density.machine.units) > 2:

            def given(rows):
                return density.log_weight_given(rows, self.seed, QUICK)

            log_weights = self._values(given, self.validation)
        else:
            log_weights = -free_energies
        return float(self._mean(log_weights, self.validation)[0])

    def _log_likelihood(self, density, log_z):
        """Return the mean log-likelihood of training rows, and the standard error of log Z."""
        if log_z is None:
            return {}
        measured, (index, counts) = {"log_likelihood_std": log_z.std}, self.shown
        if len(density.machine.units) > 2:  # the free energy is an estimate
            return measured
        mean = np.average(self._free_energies(density, index), weights=counts)
        value = float(-mean - log_z.value)
        self._count("log_likelihood", value - _SURE * min(log_z.std, _UNSURE))
        return {"log_likelihood": value} | measured

    def _some_by_weight(self, index, generator, most):
        """Return some rows at most, and how often each counts: on average as in the data."""
        weights = self.rows.weights_of(index)
        if len(index) <= most:
            return index, weights
        drawn = generator.choice(index, most, p=weights / weights.sum())
        return np.unique(drawn, return_counts=True)

    def _likelihood(self, density, state):
        """Return the (pseudo-)log-likelihood of training rows by its name, if there is one."""
        machine, shown = density.machine, self._monitored(density.machine)
        columns = np.arange(self.rows.X.shape[1])
        if self._is_by_bits(machine):
            name, columns = "pseudo_log_likelihood", self.bits
            value = self._pseudo_log_likelihood(machine, shown)
        else:  # a pseudo-likelihood of real values needs an integral for each
            try:
                log_z = self.phase.log_partition(machine, state)
            except DivergenceError:  # of the equations: learning may take back steps
                return {}
            if log_z is None:
                return {}
            name = "tap_log_likelihood"
            values = -self._free_energies(density, shown) - log_z
            value = float(self._mean(values, shown)[0])
        if self.independent is None:
            self.independent = self._independent(machine, columns)
        # The best epoch counts where it is published.
        best = value if self.reached is None or self.validation is None else self.reached[1]
        self.reached = name, max(value, best)
        self._count(name, value)
        return {name: value}

    def _count(self, name, value):
        """Keep the largest value of a (pseudo-)log-likelihood."""
        self.peaks[name] = max(self.peaks.get(name, value), value)

    def _monitored(self, machine):
        """Return the training rows whose likelihood is measured: fewer where it is by bits."""
        most = self.n_by_bits if self._is_by_bits(machine) else _MONITORED_ROWS
        return self.train[: min(most, _MONITORED_ROWS)]

    @staticmethod
    def _is_by_bits(machine):
        """Whether the likelihood shown is that of some bits given the others, scaled up to all."""
        return machine.units[0].is_binary and len(machine.units) == 2

    def _free_energies(self, density, index):
        """Return -log p(x) - log Z of the rows at ``index``, or of what is observed of them."""
        if not self.rows.has_missing:
            return self._values(density.free_energy, index)

        def function(rows):
            return density.free_energy_given(rows, self.seed, QUICK)

        return self._values(function, index)

    def _pseudo_log_likelihood(self, machine, index):
        """Return the mean over rows, estimated on some bits, of which those observed count.

        Missing ones are drawn given the others, in each epoch by the same random numbers.
        """
        if not self.rows.has_missing:
            known = evaluation.Density(machine)  # a device would wait for checks of a machine
            values = self._values(
                lambda rows: evaluation.pseudo_log_likelihood(known, rows, self.bits), index
            )
            return float(self._mean(values, index)[0])
        rng = make_rng(self.seed, machine.weights[0])

        def function(rows):
            rows, observed = split_missing(rows, machine.units[0].mean(machine.thetas[0]))
            if observed is None:
                observed = rows == rows
            rows = completed(machine, rows, observed, rng, _COMPLETION)
            return observed_pseudo_log_likelihood(machine, rows, observed, self.bits)

        return self._mean_by_column(self._values(function, index), index, self.bits)

    def _mean_by_column(self, sums, index, columns):
        """Return what sums over observed columns, some of all, would be over all columns."""
        known = self._values(lambda rows: rows == rows, index)[:, columns].mean(axis=1)
        share = self._mean(known, index)[0]
        scale = self.rows.X.shape[1] / len(columns)
        return float(self._mean(sums, index)[0] * scale / max(share, 1e-12))

    def _independent(self, machine, columns):
        """Return the log-likelihood of the rows shown by independent units fitted to all rows.

        Of some columns it is scaled up to all.
        """
        unit, shown = machine.units[0], self._monitored(machine)
        theta, n_columns = self.rows.initial_theta, len(columns)
        columns = from_numpy(columns, theta.field)
        theta = (
            theta.map(lambda part: cast(part, machine.dtype))
            if unit.is_joint
            else theta.map(
                lambda part: namespace(part).take(cast(part, machine.dtype), columns, axis=0)
            )
        )

        def function(rows):
            rows = namespace(rows).take(rows, columns, axis=1)
            rows, observed = split_missing(rows)
            if unit.is_joint and observed is not None:
                own = held(unit, rows, observed).log_partition(theta)
                return row_sums(own) - unit.total_log_partition(theta)
            log_z = unit.log_partition(theta)
            if observed is not None:
                log_z = namespace(rows).where(by_site(unit, observed), log_z, 0 * log_z)
            return unit.log_weight(theta, rows) - row_sums(log_z)

        values = self._values(function, shown)
        if self.rows.has_missing and self._is_by_bits(machine):
            return self._mean_by_column(values, shown, to_numpy(columns))
        return float(self._mean(values, shown)[0]) * (machine.n_units[0] / n_columns)

    def conclude(self, machine, state):
        """Warn where learning has ended with no weights, and tell of other failures.

        Returns the log-likelihood after the last epoch, if it was not measured before.
        """
        self.end = machine, state
        if share_of_zeros(machine.weights) == 1:
            warnings.warn(_NO_WEIGHTS, ConvergenceWarning, stacklevel=5)
        if self.reached is not None:
            self._tell(told_if_short(*self.reached, self.independent), DIVERGED)
            self._tell(self._told_if_fallen(*self.reached, self.independent))
        if ranks().any(self.failure is not None):  # each rank has measured its own rows
            return {}
        density = self.density(machine, state)
        log_z, measured = self._log_z_at_the_end(density), {}
        if log_z is not None:
            found = self._reached_at_the_end(density, log_z)
            if self.validation is None:
                measured = self._log_likelihood(density, log_z)
            if ranks().rank == 0:
                self._tell(told_if_short("log_likelihood", *found))
                value = measured.get("log_likelihood", math.nan) + _SURE * log_z.std
                self._tell(self._told_if_fallen("log_likelihood", value, found[1]))
        if self.failure is None and self._is_by_persistent_chains and ranks().rank == 0:
            per_row = self.n_batches * self.phase.n_sweeps / self.n_rows
            self._tell(told_if_stuck(self.marks, self.n_learnt, self.phase.visible(state), per_row))
            self._tell(self._told_if_apart(density, log_z))
        return self.agreed(machine, measured) if measured and self._log_z is None else {}

    def _tell(self, told, meaning=WRONG_SHARES):
        """Keep what tells of a failure, None if nothing does, and what it means, if it is first."""
        if told is not None and self.failure is None and self.is_density:
            self.failure = f"{told}: {meaning}"

    def _told_if_fallen(self, name, value, independent):
        if not self._is_by_persistent_chains:
            return None
        return told_if_fallen(name, value, self.peaks.get(name, -math.inf), independent)

    def told(self):
        """Return what the end tells of a failure, the same on all ranks; None if none has one."""
        return first_told(self.failure)

    def estimated(self, shown):
        """Return the log-likelihood of some rows at the end, and the standard error of log Z.

        ``shown`` has indices and counts of the rows.
        """
        density, (index, counts) = self.density(*self.end), shown
        if self.rows.has_missing:  # no chains start at such rows
            self._tracker.data = None
        log_z = self._tracker.estimate(density.machine, math.inf)
        if log_z is None:
            return math.nan, math.inf
        mean = np.average(self._free_energies(density, index), weights=counts)
        return float(-mean - log_z.value), log_z.std

    @property
    def _is_by_persistent_chains(self):
        """Whether groups of rows that such chains do not pass between would spoil the fit."""
        return self.phase.n_sweeps > 0 and self.is_density and self.validation is None

    def _told_if_apart(self, density, log_z):
        """Tell if the machine's means are far from those of data, None if not or unknown."""
        if self.failure is not None or log_z is None or log_z.std > _PRECISE:
            return None
        index, weights = self.compared
        rows = self._values(lambda rows: rows, index)
        if self.rows.has_fractions:  # which are probabilities: the machine's rows vary more
            rows = (np.random.default_rng(0).random(rows.shape) < rows).astype(rows.dtype)
        directions, means = main_directions(rows, weights)
        found = self._tracker.means_along(density.machine, directions)
        return found and told_if_apart(means, *found, weights.sum())

    def _log_z_at_the_end(self, density):
        """Return log Z of the machine that is published, None if unknown or of no use."""
        if self.rows.has_missing or self.n_learnt == 0 or not self._has_log_partition(density):
            return None
        unit, n = density.machine.units[0], density.machine.n_units[0]
        if not unit.is_discrete and unit.standardised(n)[1].any():  # real: short fits are far below
            return None
        log_z = self._log_z
        if log_z is None or self.validation is not None:  # the published machine may be another
            if ranks().rank == 0:
                little = _LITTLE / sum(math.prod(W.shape) for W in density.machine.weights)
                credit = max(self.credit + _LAST_SHARE * self.n_learnt, little)
                log_z = self._tracker.estimate(density.machine, credit)
            log_z = ranks().first(log_z)
        return log_z

    def _reached_at_the_end(self, density, log_z):
        """Return the log-likelihood of some rows, and that by independent units.

        It shows what no pseudo-likelihood does: modes whose weights are wrong.
        """
        columns, shown = np.arange(self.rows.X.shape[1]), self._monitored(density.machine)
        independent = self._independent(density.machine, columns)  # of the rows of all ranks
        # Of a machine that has run away log Z is unknown by as much as it is large.
        values = (
            -self._free_energies(density, shown) - log_z.value + _SURE * min(log_z.std, _UNSURE)
        )
        return float(self._mean(values, shown)[0]), independent

    def _mean(self, values, index):
        """Return the mean of values of the rows at ``index`` by their weights, and its error."""
        weights = self.rows.weights_of(index)
        mean = np.average(values, weights=weights)
        variance = np.average((values - mean) ** 2, weights=weights)
        return mean, np.sqrt(variance / weights.sum())

    def _values(self, function, index):
        """Return the values of a function of visible values, block by block of rows."""
        blocks = np.array_split(index, -(-len(index) // self.block_rows))
        return np.concatenate([to_numpy(function(self.rows[block])) for block in blocks])

    def _log_partition(self, density):
        """Return log Z, a LogPartition; None where it would cost too much, or is of no use."""
        if not self._has_log_partition(density):
            return None
        self.credit += _SHARE * self.n_rows
        rows_cost = _FREE_ENERGY * len(self.shown[0])
        credit = np.inf if self.by_score else self.credit - rows_cost
        if self._tracker.is_new:
            credit *= _ADVANCE
        found = self._tracker.estimate(density.machine, credit) if ranks().rank == 0 else None
        if not self.by_score:
            self.credit -= self._tracker.cost + rows_cost * (found is not None)
        found, self.credit = ranks().first((found, self.credit))
        return found

    def _has_log_partition(self, density):
        """Whether one number, log Z, turns free energies of rows into likelihoods."""
        if density.machine.units[0].totals(density.starts) is not None:  # each total has its own
            return False
        complete = not self.rows.has_missing and len(density.machine.units) == 2
        return complete or self.validation is not None

    def _independent_units(self, machine):
        """Return the parameters of independent visible units that are like the data."""
        rows = cast(self._some_rows(), machine.dtype)
        return machine.units[0].base_theta(machine.thetas[0], Columns(rows))

    def _some_rows(self):
        """Return some training rows as visible values."""
        return self.rows.batch(self.train[:_MONITORED_ROWS])[0]
