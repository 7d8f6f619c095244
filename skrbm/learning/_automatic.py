"""Moment matching with a learning rate that is found in training."""

from dataclasses import replace

from .._ranks import ranks
from ..arrays import cast, is_foreign, like, namespace
from ..exceptions import DivergenceError
from ..machine import Machine, has_integral, may_lack_integral
from ._gradient import MomentLearner
from ._optimizers import ArrayGradient
from ._rates import gain_of, rule_for

_SOME = 25  # rows of data, and samples, by which it is found that steps have led too far


class AutomaticLearner(MomentLearner):
    """Learns by steps whose length a rule finds, and takes back steps that went too far.

    The learning rate of the schedule is a factor of that of the rule.

    Parameters
    ----------
    rows, phase, optimizer : as in :class:`MomentLearner`
    rule : AutomaticRate, default=None
        For plain gradient ascent; it is made more cautious for an optimiser that asks for it.
        Default: ``AutomaticRate()``.
    falls : bool, default=True
        Whether the rate falls to a small part in the course of training.
    **options : dict
        As in :class:`MomentLearner`.

    Raises
    ------
    ValueError
        If several ranks take steps alone.
    """

    def __init__(self, rows, phase, optimizer, *, rule=None, falls=True, **options):
        super().__init__(rows, phase, optimizer, **options)
        if ranks().size > 1 and ranks().local_steps > 1:
            raise ValueError(
                f"local_steps={ranks().local_steps} needs a learning_rate that is a number: an "
                "automatic one is found from steps that all ranks take together"
            )
        self.rule = rule_for(
            self.optimizer,
            rule=rule,
            caution=phase.caution,
            centered=self.centered,
            average=self.average,
            falls=falls,
            n_columns=rows.X.shape[1],
        )
        self._factor = None  # the rate of the schedule on a device, where recorded steps read it
        self._begun = None  # where an epoch began, on a device and if integrals may be lost in it

    def epoch(self, training, progress, rate):
        machine = training.machine
        if is_foreign(machine.weights[0]) and may_lack_integral(machine.units):
            self._begun = machine.copy(), training.phase_state
        return super().epoch(training, progress, rate)

    def _recorded(self, training, rate):
        if self._factor is None:
            field = training.machine.thetas[0].field
            xp = namespace(field)
            self._factor = xp.zeros((), **{**like(field), "dtype": xp.float64})
        self._factor[...] = rate  # another one in each epoch
        return rate > 0

    def step(self, training, index, rate):
        try:
            return super().step(training, index, rate)
        except DivergenceError:
            # Equations may have no solution where the machine still has an integral.
            is_stuck = training.saved is None or self.rule.is_stuck(training.rate_state)
            if is_stuck or ranks().size > 1:  # other ranks have gone on
                raise
        self._step_back(training)
        return {"learning_rate": 0.0, **self._phase.report(training.phase_state)}

    def kind_of_step(self, training):
        state = training.rate_state
        if state is None or training.saved is None or not self.rule.is_steady(state):
            return None
        return self.rule.measures(state), self.rule.keeps(state)

    def finish(self, training):
        """Take back the steps after the last measurement if they have gone too far."""
        super().finish(training)
        if training.saved is not None:
            rows, _, some = self._rows_to_measure(training, self.rows.batch(self.index[:_SOME])[0])
            rows = rows[some, :]
            has_run_away = self._has_run_away(
                training, rows, self._phase.free_energy(training.machine, rows)
            )
            training.rate_state = self.rule.read(training.rate_state)
            if has_run_away or not has_integral(training.machine):
                self._step_back(training)
            if self._begun is not None and not has_integral(training.machine):
                machine, training.phase_state = self._begun
                training.machine = machine.copy()

    def _take(self, training, slopes, data, X, rate):
        state = self.rule.init() if training.rate_state is None else training.rate_state
        factor = rate if self._factor is None else self._factor
        length = factor * state.rate
        waits = not is_foreign(X)
        if self.rule.measures(state) and (length if waits else rate) > 0:
            take = self._take_measured if waits else self._take_without_waiting
            length = take(training, slopes, data, X, state, length)
        else:
            self._move(training, slopes, data, _as_factor(length, X))
            training.rate_state = state.counted()
        if waits and training.saved is not None and not training.machine.has_finite_thetas():
            self._step_back(training)
            return 0.0
        return length

    def _take_measured(self, training, slopes, data, X, state, length):
        """Take a step, and find the length of the next ones by it; returns its learning rate."""
        rows, samples, some = self._rows_to_measure(training, X)
        energies = self._phase.free_energy(training.machine, rows)
        if self._has_run_away(training, rows[some, :], energies[some]):
            self._step_back(training)
            return 0.0
        training.saved = self._place(training, state)
        own = rows[samples, :], energies[samples]
        self._move_measured(training, slopes, data, *own, state, length)
        return length

    def _place(self, training, state):
        """Return where learning is, and behind that an earlier place where all was well.

        Places are machines and states of the phase.
        """
        here = training.machine.copy(), training.phase_state
        if training.saved is None:
            return *here, here
        earlier = training.saved[2]
        if self.rule.keeps(state):
            earlier = _one_of(self.rule.is_doubtful(state), earlier, here)
        return *here, earlier

    def _place_to_go_back_to(self, saved, state):
        """Return what is saved with the earlier place first, if steps were just taken back.

        Then the machine of the last measurement has a fault that shorter steps do not mend, such as
        a mode into which its chains have begun to run.
        """
        earlier = saved[2]
        return *_one_of(self.rule.is_doubtful(state), earlier, saved[:2]), earlier

    def _rows_to_measure(self, training, X):
        """Return some rows of data and all samples behind them, and where the samples are.

        The last is where some of both are, by which it is seen whether steps have led too far.
        """
        samples = self._phase.visible(training.phase_state)
        n, m = min(_SOME, X.shape[0]), min(_SOME, samples.shape[0])
        rows = namespace(X).concat([X[:n, :], samples], axis=0)
        return rows, slice(n, rows.shape[0]), slice(0, n + m)

    def _move_measured(self, training, slopes, data, samples, energies, state, length):
        """Move the saved machine, and find the length of the next steps by it."""
        before = self.parameters.of(training.saved[0])
        slopes = ArrayGradient(slopes.arrays(before), slopes.n_penalised, slopes.units)
        after = self._move(training, slopes, data, _as_factor(length, samples))
        change = self._phase.free_energy(training.machine, samples) - energies
        change = _for_equal_totals(training.machine, samples, change)
        gain = gain_of(self.optimizer, slopes, before, after)
        n_visible = training.machine.n_units[0]
        training.rate_state = self.rule.next(state, gain, change, n_visible, length)

    def _take_without_waiting(self, training, slopes, data, X, state, length):
        """Do what ``_take_measured`` does for arrays of a device, which is not asked in between.

        The step is taken in any case, and all that it has changed is chosen after it.
        """
        rows, samples, some = self._rows_to_measure(training, X)
        energies = self._phase.free_energy(training.machine, rows)
        state = self.rule.held(state, energies)
        last = training.saved
        back = self._has_run_away(training, rows[some, :], energies[some])
        training.saved = self._place(training, state)
        if last is not None:
            last = self._place_to_go_back_to(last, state)
            training.saved = _chosen(back, last, training.saved)
        own = rows[samples, :], energies[samples]
        self._move_measured(training, slopes, data, *own, state, length)
        if last is None:
            return length
        self._choose(training, back, self.rule.slower_without_waiting(state))
        return cast(~back, namespace(X).float64) * length

    def _choose(self, training, back, slower):
        """Go back to the saved machine where ``back``, as ``_step_back`` does.

        Only means go on: the offsets, as any finite ones will do, and the average from where it is.
        """
        machine, now = training.saved[0], (training.machine, training.phase_state)
        training.machine, training.phase_state = _chosen(back, training.saved[:2], now)
        rest = self.optimizer.init(self.parameters.of(machine))
        training.optimizer_state = _chosen(back, rest, training.optimizer_state)
        training.rate_state = _chosen(back, slower, training.rate_state)
        if training.average is not None:
            means = _chosen(back, machine, training.average.means)
            training.average = replace(training.average, means=means)
        if training.offsets is not None:
            xp = namespace(back)
            training.offsets = tuple(
                xp.where(xp.isfinite(part), part, xp.zeros_like(part)) for part in training.offsets
            )

    def _has_run_away(self, training, rows, energies):
        """Whether the machine has gone too far since the last measurement.

        Free energies of data tell even where all chains have fallen into one state. A distribution
        without an integral is too far too; on a device it is looked at when an epoch ends.
        """
        if training.saved is None:
            return False
        if not (is_foreign(rows) or has_integral(training.machine)):
            return True
        change = energies - self._phase.free_energy(training.saved[0], rows)
        change = _for_equal_totals(training.machine, rows, change)
        return self.rule.is_too_far(change, training.machine.n_units[0])

    def _step_back(self, training):
        """Go back to the machine and the chains of a measurement, with half the rate."""
        training.saved = self._place_to_go_back_to(training.saved, training.rate_state)
        machine, training.phase_state, _ = training.saved
        training.machine = machine.copy()
        training.optimizer_state = self.optimizer.init(self.parameters.of(training.machine))
        training.average = training.offsets = None  # they have seen what is taken back
        self._slow_down(training, 0.5)

    def _slow_down(self, training, factor):
        if training.rate_state is not None:
            training.rate_state = self.rule.slower(training.rate_state)


def _for_equal_totals(machine, rows, change):
    """Return changes of free energies less what they have in common with the totals of rows.

    Rows of other totals have another log Z, and its change says nothing of their distribution.
    """
    totals = machine.units[0].totals(rows)
    if totals is None:
        return change
    mean = namespace(totals).mean
    apart, change = totals - mean(totals), change - mean(change)
    return change - apart * (mean(apart * change) / (mean(apart * apart) + 1e-12))


def _as_factor(length, X):
    """Return the length of a step in the dtype of X, where it is an array."""
    return cast(length, X.dtype) if is_foreign(length) else length


def _one_of(which, old, new):
    """Return ``old`` if ``which``, else ``new``, or the choice for which nobody waits."""
    if is_foreign(which):
        return _chosen(which, old, new)
    return old if which else new


def _chosen(back, old, new):
    """Return the arrays of ``old`` where ``back`` and those of ``new`` elsewhere.

    What is no array, or has no such array in ``old``, is that of ``new``.
    """
    if isinstance(new, Machine):
        parts = _chosen(back, (old.thetas, old.weights), (new.thetas, new.weights))
        return replace(new, thetas=parts[0], weights=parts[1])
    if isinstance(new, tuple) and isinstance(old, tuple):
        parts = [_chosen(back, *pair) for pair in zip(old, new, strict=True)]
        return type(new)(*parts) if hasattr(new, "_fields") else tuple(parts)
    if is_foreign(new) and is_foreign(old) and new.shape == old.shape:
        return namespace(back).where(back, old, new)
    return new
