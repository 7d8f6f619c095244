"""The machines of a growth, when it ends, and which machine is kept."""

from ._growth import COLUMNS

STOPS = {
    "max_components": "max_components units",
    "no unit": "no start of the subproblem found a unit worth more than insert_tol",
    "refused": "n_iter_no_change insertions in a row promised no rise of the penalised likelihood",
    "duality gap": "the duality gap fell below gap_tol",
    "validation": "the held-out samples have gained nothing by n_iter_no_change steps",
    "max_steps": "away-steps went on without end",
    "callback": "a callback stopped it",
}


class Path:
    """The machines of a growth, and what is known of the steps to them.

    Parameters
    ----------
    rows : list of dict
        One for each step.
    machines : list of Snapshot
        The first machine, and the one after each step.
    """

    def __init__(self, rows, machines):
        self.rows, self.machines = rows, machines

    def until(self, n_steps=None):
        """Return a copy: the path of the first steps, by default all."""
        n_steps = len(self.rows) if n_steps is None else n_steps
        return Path(self.rows[:n_steps], self.machines[: n_steps + 1])

    def record(self, row, machine):
        """Add a step and the machine after it."""
        self.rows.append(row)
        self.machines.append(machine)

    def columns(self):
        """Return a list for each quantity, with an entry for each step."""
        return {name: [row[name] for row in self.rows] for name in COLUMNS}


class Monitor:
    """When growth stops, and whether the last machine is to be kept.

    Parameters
    ----------
    criterion : bool or {"score", "free_energy_gap"}
        What has to rise; True is "score". Every machine is kept if False.
    scores : dict
        Of the machine to begin with.
    max_units : int
        Number of units at which to stop.
    n_iter_no_change : int
        Bad steps, or refused insertions, in a row after which to stop.
    margin : float
        By how much a machine must beat the best one before, in nats; it may be negative.
    gap_tol : float
        Duality gap at which to stop.
    """

    def __init__(self, criterion, scores, max_units, n_iter_no_change, margin, gap_tol):
        self.criterion, self.max_units = criterion, max_units
        self.n_iter_no_change, self.margin, self.gap_tol = n_iter_no_change, margin, gap_tol
        self.best, self.improved = self._value(scores), False
        self.n_steps = self.n_bad = self.n_refused = 0

    def _value(self, row):
        by_gap = self.criterion == "free_energy_gap"
        return -row["free_energy_gap"] if by_gap else row["validation_score"]

    def limit(self, n_units):
        """Return why to stop at a number of units, or None."""
        if n_units >= self.max_units:
            return "max_components"
        return "max_steps" if self.n_steps >= 4 * self.max_units + 100 else None

    def stop(self, row):
        """Look at the row of a step; returns why to stop, or None."""
        reason, self.n_steps = row["reason"], self.n_steps + 1
        is_refused = reason == "refused"
        self.n_refused = self.n_refused + 1 if is_refused else 0
        self.improved = not self.criterion and not is_refused
        if reason == "no unit":
            return reason
        if row["duality_gap"] <= self.gap_tol:
            return "duality gap"
        if self.n_refused >= self.n_iter_no_change:
            return reason
        if self.criterion and not is_refused and self._is_worse(self._value(row)):
            return "validation"
        return self.limit(row["n_components"])

    def _is_worse(self, value):
        """Whether the criterion has been bad for ``n_iter_no_change`` steps."""
        self.improved = value >= self.best + self.margin
        self.n_bad = 0 if self.improved else self.n_bad + 1
        self.best = max(self.best, value)
        return self.n_bad >= self.n_iter_no_change
