"""log Z of a machine in training, by chains that follow it from epoch to epoch."""

import math

import numpy as np
from scipy.special import softmax

from ..arrays import cast, is_on_device, log_sum_exp, make_rng, namespace, to_numpy
from ..inference import (
    Gibbs,
    LogPartition,
    SmallSteps,
    anneal,
    independent_log_partition,
    map_rows,
    of_runs,
    resampled_index,
)
from ..machine import free_energy, in_double, log_partition, n_enumerated, turned_over, uncoupled
from ._chains import most_rows

_RUNS, _CHAINS = 16, 8  # number of independent runs, and of chains in each
_SPREAD = 0.1  # nats by which log weights should spread in a step
PRECISE = 0.3  # standard error of log Z above which chains are restarted
_SCOUTS, _FIRST_SWEEPS = 64, 10  # chains from data, and their sweeps when the others restart
_EXACT = 12  # largest number of binary units that are summed over
# Costs, in units of the cost of learning from a row, of a step of a chain, and of its log weight
# under another machine or of a configuration in an exact sum.
_STEP, _WEIGHT = 0.7, 0.4
_ON_DEVICE = 512  # on a device, a step of fewer chains takes as long as one of this many rows


class LogPartitionTracker:
    """Estimates log Z of a machine again and again while it learns.

    Chains are annealed from independent units to the machine, with small steps and resampling, as
    in :class:`~skrbm.inference.SMC`. As long as the machine changes little, they then follow it by
    importance weights and Gibbs sampling (Desjardins et al. 2011; Krause et al. 2020). They take no
    part in learning, since chains of the model phase, on which the parameters depend, would give a
    biased estimate. With up to 12 binary units in a layer, log Z is exact.

    A few other chains start at data. The probabilities of their distinct values, visible or hidden,
    sum to at most 1, which gives a lower bound of log Z. If the bound is above the estimate,
    annealing has missed modes that the data have: then the bound is used instead, and the standard
    error is at least the difference.

    ``base(machine)`` returns the parameters of independent visible units that are like the data,
    where chains start, and ``data()`` returns visible rows of the data, if some are complete.
    ``cost`` is the cost of the last estimate, in units of the cost of learning from a row.
    """

    def __init__(self, base, seed, data=None):
        self.base, self.seed, self.rng, self.cost = base, seed, None, 0.0
        self.data, self._scouts, self._missed = data, None, 0.0
        self._machine = None  # the one that the chains have reached; None to restart them
        self._last = None  # the one whose log Z the chains gave in the last estimate

    def estimate(self, machine, budget):
        """Return log Z, a LogPartition, or None if that would cost more than ``budget``."""
        given, self.cost, self._last, found = machine, 0.0, None, None
        bits = n_enumerated(machine)
        if bits <= _EXACT:
            cost = _WEIGHT * 2**bits
            if cost > budget:
                return None
            self.cost = cost
            double = machine.astype(namespace(machine.weights[0]).float64)
            return LogPartition(float(log_partition(double)))
        machine = in_double(machine)
        if self.rng is None:
            self.rng = make_rng(self.seed, machine.weights[0])
            most = most_rows(max(machine.n_units))
            self._n_chains = int(max(1, min(_CHAINS, most // _RUNS)))  # of each run
            self._n_rows = _RUNS * self._n_chains  # the cost of a step is that of these rows
            if is_on_device(machine.weights[0]):
                self._n_rows = _ON_DEVICE
            self._new_cost = 20 * self._following  # first guess of the cost of a restart
        with np.errstate(over="ignore", invalid="ignore"):
            if self._machine is not None and budget >= self._following + self._scouting(1):
                found = self._checked(machine, self._followed(machine, budget), 1)
            if found is None and budget - self.cost >= self._new_cost:
                found = self._restarted(machine, budget - self.cost)
                found = self._checked(machine, found, _FIRST_SWEEPS)
        if found is not None:
            self._last = given
            if not found.std <= PRECISE:
                self._machine = None
        return found

    def sample(self):
        """Return visible values and weights of samples from the last machine, two ndarrays.

        None if log Z was not estimated by chains.
        """
        if self._last is None:
            return None
        return to_numpy(self._layers[0]), softmax(to_numpy(self._log_weights))

    def runs(self, machine):
        """Return the estimates of log Z of a machine by each run, an ndarray of shape (n_runs,).

        None if the last estimate was for another machine or not by chains, or if the chains should
        restart.
        """
        is_good = self._last is machine and self._machine is not None and self._missed == 0
        return self._log_z_of_runs() if is_good else None

    @property
    def _following(self):
        """The cost of following the machine by a single step."""
        return self._n_rows * _STEP

    def _scouting(self, n_sweeps):
        """Return the cost of sweeps of the chains from data, and of their lower bound."""
        n_rows = self._n_rows * _SCOUTS / (_RUNS * self._n_chains)
        return 0.0 if self.data is None else n_rows * n_sweeps * (_STEP + 2 * _WEIGHT)

    def _checked(self, machine, found, n_sweeps):
        """Return log Z, or its lower bound by chains from data if this is larger."""
        if found is None or self.data is None or len(machine.units) != 2:
            return found
        self.cost += self._scouting(n_sweeps)
        if self._scouts is None:
            rows = cast(self.data(), machine.dtype)
            rows = rows[: min(_SCOUTS, rows.shape[0]), :]
            self._scouts = Gibbs().state_at(machine, rows, self.rng)
        missed = max(0.0, lower_bound(machine, self._swept(machine, n_sweeps)) - found.value)
        self._log_z0, self._missed = self._log_z0 + missed, math.hypot(self._missed, missed)
        std = math.hypot(found.std, self._missed)
        return found._replace(value=found.value + missed, std=std)

    def _swept(self, machine, n_sweeps):
        """Yield the layers of the chains from data after each sweep."""
        for _ in range(n_sweeps):
            self._scouts, _ = Gibbs().step(machine, self._scouts, self.rng)
            yield self._scouts.layers

    def _followed(self, machine, budget):
        """Return log Z by chains that come from an earlier machine; None if that costs too much."""
        most = (budget - self._scouting(1)) / self._following
        if not self._move(machine, SmallSteps(_SPREAD, most)):
            return None
        rows, self._log_weights = resampled_index(self._log_weights, self.rng, 0.5, _RUNS)
        if rows is not None:
            self._layers = map_rows(
                lambda layer: namespace(layer).take(layer, rows, axis=0), self._layers
            )
        return self._result()

    def _restarted(self, machine, budget):
        """Return log Z by chains from independent units; None if that would cost too much."""
        base, n = uncoupled(machine, self.base(machine)), _RUNS * self._n_chains
        self._machine = base
        self._layers = Gibbs().init(base, self.rng, n).layers
        self._log_weights, self._log_z0 = 0.0, independent_log_partition(base)
        self._missed = 0.0
        most = (budget - self._scouting(_FIRST_SWEEPS)) / self._following
        steps = SmallSteps(_SPREAD, most)
        arrived = self._move(machine, steps)
        self._new_cost = self._following * steps.needed + self._scouting(_FIRST_SWEEPS)
        return self._result() if arrived else None

    def _move(self, machine, steps):
        """Move the chains to a machine; returns False if that takes more steps than allowed."""
        options = {"resample": 0.5, "n_groups": _RUNS}
        ends = anneal(machine, self._machine, steps, self._layers, self.rng, **options)
        n_measured = steps.n_measured - steps.n_steps  # steps use the weights of the last one
        self.cost += self._n_rows * (_STEP * steps.n_steps + _WEIGHT * n_measured)
        self._machine = machine if steps.arrived else None
        if steps.arrived:
            self._layers = ends.layers
            self._log_weights = self._log_weights + ends.log_weights
        return steps.arrived

    def _log_z_of_runs(self):
        weights = namespace(self._log_weights).reshape(self._log_weights, (_RUNS, self._n_chains))
        return self._log_z0 + to_numpy(log_sum_exp(weights)) - math.log(self._n_chains)

    def _result(self):
        found = of_runs(self._log_z_of_runs())
        if math.isfinite(found.value):
            return found
        self._machine = None
        return None


def lower_bound(machine, states):
    """Return a lower bound of log Z by the log weights of distinct values of a layer, a float.

    ``states`` are tuples of values of both layers of a machine with one hidden layer. A layer of
    real units gives no bound.
    """
    sides, seen, bound = (machine, turned_over(machine, 1)), ([], []), -math.inf
    for layers in states:
        for side, X, found in zip(sides, layers, seen, strict=True):
            if side.units[0].is_discrete:
                # Bytes take little memory; values that become equal as bytes lower the bound.
                found.append((to_numpy(X).astype(np.int8), to_numpy(-free_energy(side, X))))
    for found in filter(None, seen):
        rows, weights = (np.concatenate(parts) for parts in zip(*found, strict=True))
        distinct = {row.tobytes(): weight for row, weight in zip(rows, weights, strict=True)}
        bound = max(bound, float(log_sum_exp(np.array([[*distinct.values()]]))[0]))
    return bound
