"""Learning rates of conditional machines that are found in training."""

from functools import partial

import numpy as np

from ...arrays import from_numpy, namespace, take_rows, to_numpy
from ...exceptions import DivergenceError
from ...inference import chain_ends
from ...learning import ArrayGradient, gain_of, rule_for
from ...machine import free_energy
from .._training import falls, is_automatic, rate_of
from ._decisions import draw
from ._learner import ConditionalLearner
from ._machine import is_one_label

_ROWS = 40  # of which outputs are drawn, others than those of the batch: a step fits these best
_DRAWS = 2  # for each row
_CAUTION = 0.5  # as steps of plain gradients here were shorter than the best fixed ones
_STEPS = 2  # of the chains that make them, from the targets


class AutomaticConditionalLearner(ConditionalLearner):
    """Ascends the likelihood by steps whose length a rule finds, and takes back those too far.

    The divergence of a step is the mean over rows x of that between p(v | x) before and after it:
    half the variance, given x, of the change of the free energy of v. So it is measured by several
    draws of outputs for each row, less the mean change of each row.

    Parameters
    ----------
    rule : AutomaticRate
    *args, **options
        As in :class:`ConditionalLearner`.
    """

    def __init__(self, rule, *args, **options):
        super().__init__(*args, **options)
        self.rule = rule

    def step(self, training, index, rate):
        try:
            return super().step(training, index, rate)
        except (ValueError, DivergenceError):  # fields are not finite, or inference has no solution
            if training.saved is None or self.rule.is_stuck(training.rate_state):
                raise
        self._step_back(training)
        return self.step(training, index, rate)

    def finish(self, training):
        """Take back the steps after the last measurement if they have gone too far."""
        if training.saved is None:
            return
        try:
            astray = self._has_run_away(training, self._draws(training))
        except ValueError:  # fields are not finite
            astray = True
        if astray:
            self._step_back(training)

    def _take(self, training, gradient, V, observed, rate):
        state = self.rule.init() if training.rate_state is None else training.rate_state
        length = rate * state.rate
        if self.rule.measures(state) and length > 0:
            draws = self._draws(training)
            if self._has_run_away(training, draws):
                self._step_back(training)
                return {"learning_rate": 0.0}
            self._take_measured(training, gradient, draws, state, length)
        else:
            super()._take(training, gradient, V, observed, length)
            training.rate_state = state.counted()
        return {"learning_rate": length}

    def _take_measured(self, training, gradient, draws, state, length):
        """Take a step, and find the length of the next ones by it."""
        training.saved = training.machine.copy(), training.phase_state
        before = training.saved[0].values
        slopes = ArrayGradient(gradient.arrays(before), gradient.n_penalised, gradient.units)
        super()._take(training, slopes, None, None, length)
        change, after = draws.change(training.machine), training.machine.values
        gain = float(gain_of(self.optimizer, slopes, before, after))
        n_visible = training.machine.n_units[0]
        training.rate_state = self.rule.next(state, gain, change, n_visible, length)

    def _draws(self, training):
        """Return draws of the machine given the features of some rows."""
        n_rows = min(_ROWS, len(self.index))
        positions = self.index[training.rng.integers(len(self.index), n_rows)]
        rows = self.rows.batch(positions, training.machine.dtype)
        return Draws(training.machine, *rows, training.rng)

    def _has_run_away(self, training, draws):
        """Whether the machine has gone too far since the last measurement."""
        if training.saved is None:
            return False
        change = draws.change(training.saved[0], targets=True)
        return self.rule.is_too_far(change, training.machine.n_units[0])

    def _step_back(self, training):
        """Go back to the machine of the last measurement, with half the rate."""
        training.machine = training.saved[0].copy()
        training.optimizer_state = self.optimizer.init(training.machine.values)
        training.rate_state = self.rule.slower(training.rate_state)


def learner_of(estimator, optimizer, n_iter):
    """Return what makes the learner of a fit of ``n_iter`` passes.

    Raises
    ------
    ValueError
        If the learning rate is automatic, but there is no likelihood to find it by.
    """
    if not is_automatic(estimator):
        return ConditionalLearner
    if not estimator._objective(1).is_likelihood:
        raise ValueError(
            "learning_rate='auto' is found by the change of the likelihood, and so needs "
            f"objective='likelihood'; with objective={estimator.objective!r} set a number, such as "
            "0.05"
        )
    rule = rule_for(optimizer, caution=_CAUTION, falls=falls(rate_of(estimator), n_iter))
    return partial(AutomaticConditionalLearner, rule)


class Draws:
    """Outputs of a machine given the features of some rows, several for each row.

    Those of one label are drawn exactly, and others by chains that start at the targets.

    Parameters
    ----------
    machine : ConditionalMachine
    X : array of shape (n_rows, n_features)
    V : array of shape (n_rows, n_visible)
        The targets.
    observed : array of bool of shape (n_rows, n_visible) or None
        Where they are known.
    rng : Rng
    """

    def __init__(self, machine, X, V, observed, rng):
        given, n_rows = machine.given(X), X.shape[0]
        if observed is not None:
            V = namespace(V).where(observed, V, given.units[0].sample(given.thetas[0], rng))
        self._X, self._places = X, from_numpy(np.tile(np.arange(n_rows), _DRAWS), V)
        many = given.rows(self._places)
        if is_one_label(given) or given.n_units[0] == 1:
            drawn = draw(many, 0, rng)
        else:
            drawn = chain_ends(many, rng, take_rows(V, self._places), _STEPS)
        self._values = namespace(V).concat([drawn, V], axis=0)
        self._energies = self._energies_of(given)

    def _energies_of(self, given):
        """Return free energies, (n_draws + 1, n_rows), those of the targets in the last row."""
        drawn, n = given.rows(self._places), self._places.shape[0]
        parts = free_energy(drawn, self._values[:n, :]), free_energy(given, self._values[n:, :])
        return to_numpy(namespace(parts[0]).concat(parts, axis=0)).reshape(_DRAWS + 1, -1)

    def change(self, machine, targets=False):
        """Return the changes of free energies from the machine to another, less those of their row.

        Their variance is that given the features, without a bias.

        Parameters
        ----------
        machine : ConditionalMachine
            The other one.
        targets : bool, default=False
            Whether targets count as draws. They tell even where all chains are in one state.

        Returns
        -------
        ndarray of float64
        """
        change = self._energies_of(machine.given(self._X)) - self._energies
        change = change if targets else change[:-1]
        apart = change - change.mean(axis=0)
        return apart.ravel() * (len(change) / (len(change) - 1)) ** 0.5
