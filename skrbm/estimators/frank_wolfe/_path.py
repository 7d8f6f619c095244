"""The machines of a growth, when it stops, and which machine is kept."""

from typing import NamedTuple

from ...learning import Monitor

STOPS = {
    "max_components": "max_components units",
    "no unit": "no unit found gains more than tol",
    "refused": "patience insertions in a row did not raise the penalised likelihood",
    "duality gap": "the duality gap fell below tol",
    "validation": "the validation score has not improved for patience steps",
    "max_steps": "the number of steps has reached its limit",
    "callback": "a callback stopped it",
}

_COLUMNS = (
    *("n_components", "reason", "alpha", "radius", "temperature", "slope", "duality_gap"),
    *("multiplicity", "gain", "score", "validation_score", "free_energy_gap", "time"),
)


class Path(NamedTuple):
    """The steps of a growth and its machines.

    Parameters
    ----------
    rows : list of dict
        One for each step.
    machines : list of Mixture
        The first machine, and the one after each step.
    """

    rows: list
    machines: list

    def until(self, n_steps=None):
        """Return a copy of the path of the first steps, by default all."""
        n_steps = len(self.rows) if n_steps is None else n_steps
        return Path(self.rows[:n_steps], self.machines[: n_steps + 1])

    def steps_to(self, n_units):
        """Return the number of steps to the last machine of a size; ValueError without one."""
        sizes = [len(mixture.units) for mixture in self.machines]
        if n_units not in sizes:
            raise ValueError(
                f"no machine on the path has {n_units} units; its sizes are {sorted(set(sizes))}"
            )
        return len(sizes) - 1 - sizes[::-1].index(n_units)

    def columns(self):
        """Return a list for each quantity, with an entry for each step."""
        return {name: [row[name] for row in self.rows] for name in _COLUMNS}


class GrowthMonitor(Monitor):
    """When growth stops, and whether the last machine is kept.

    Parameters
    ----------
    criterion : bool or "free_energy_gap"
        Quantity to monitor: the validation score or the free-energy gap. False keeps each machine.
    scores : dict
        Of the first machine.
    max_units : int
        Number of units at which to stop.
    patience : int
        Bad steps, or refused insertions, in a row after which to stop.
    margin : float
        Smallest improvement on the best value, in nats; it may be negative.
    gap_tol : float
        Duality gap at which to stop.
    """

    def __init__(self, criterion, scores, max_units, patience, margin, gap_tol):
        super().__init__(patience)
        self.criterion, self.max_units = criterion, max_units
        self.margin, self.gap_tol = margin, gap_tol
        self.best, self.reason = self._value(scores), None
        self.n_steps = self.n_refused = 0

    def get_state(self):
        return super().get_state() | {"n_steps": self.n_steps, "n_refused": self.n_refused}

    def _value(self, row):
        if not self.criterion:
            return float("inf")  # each machine is as good as those before
        by_gap = self.criterion == "free_energy_gap"
        return -row["free_energy_gap"] if by_gap else row["validation_score"]

    def limit(self, n_units):
        """Return why to stop at a number of units, or None."""
        if n_units >= self.max_units:
            return "max_components"
        return "max_steps" if self.n_steps >= 4 * self.max_units + 100 else None

    def measure(self, machine, state):
        """Take the row of a step, which is the state."""
        self.row, self.n_steps = state, self.n_steps + 1
        is_refused = state["reason"] == "refused"
        self.n_refused = self.n_refused + 1 if is_refused else 0
        self.value = None if is_refused else self._value(state)
        return {}

    def stop(self):
        ends = {
            "no unit": self.row["reason"] == "no unit",
            "duality gap": self.row["duality_gap"] <= self.gap_tol,
            "refused": self.n_refused >= self.patience,
            "validation": super().stop(),
        }
        reached = [reason for reason, holds in ends.items() if holds]
        self.reason = reached[0] if reached else self.limit(self.row["n_components"])
        return self.reason is not None

    def chosen(self, last, ended):
        """Return the last machine that was better than those before, however growth ends."""
        return self.kept
