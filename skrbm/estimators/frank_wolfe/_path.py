"""The machines of a growth, when it ends, and which machine is kept."""

from typing import NamedTuple

import numpy as np

from ...learning import Monitor
from ._growth import COLUMNS
from ._mixture import machine_of

STOPS = {
    "max_components": "max_components units",
    "no unit": "no start of the subproblem found a unit worth more than insert_tol",
    "refused": "n_iter_no_change insertions in a row promised no rise of the penalised likelihood",
    "duality gap": "the duality gap fell below gap_tol",
    "validation": "the held-out samples have gained nothing by n_iter_no_change steps",
    "max_steps": "away-steps went on without end",
    "callback": "a callback stopped it",
}


class Path(NamedTuple):
    """The machines of a growth, and what is known of the steps to them.

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
        """Return a copy: the path of the first steps, by default all."""
        n_steps = len(self.rows) if n_steps is None else n_steps
        return Path(self.rows[:n_steps], self.machines[: n_steps + 1])

    def steps_to(self, n_units):
        """Return after how many steps the last machine of this size is reached.

        Raises ValueError if no machine of the path has this size.
        """
        sizes = [len(mixture.units) for mixture in self.machines]
        if n_units not in sizes:
            raise ValueError(
                f"no machine on the path has {n_units} units; its sizes are {sorted(set(sizes))}"
            )
        return len(sizes) - 1 - sizes[::-1].index(n_units)

    def columns(self):
        """Return a list for each quantity, with an entry for each step."""
        return {name: [row[name] for row in self.rows] for name in COLUMNS}


def attributes(kept, like, path):
    """Return the fitted attributes of a machine of a path, in the library of ``like``."""
    machine = machine_of(kept, like)
    return {
        "units_": machine.units,
        "components_": machine.weights[0],
        "intercept_hidden_": machine.thetas[1].field,
        "intercept_visible_": machine.thetas[0].field,
        "multiplicities_": kept.counts.copy(),
        "n_components_": len(kept.units),
        "n_iter_": len(path.rows),
    }


def described(row):
    """Return the row of a step in words: what happened, and the numbers that are known."""
    known = {k: v for k, v in row.items() if isinstance(v, float) and v == v}
    values = ", ".join(f"{name} = {value:.4g}" for name, value in known.items())
    return f"{row['reason']}: {row['n_components']} units, {values}"


class GrowthMonitor(Monitor):
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
        super().__init__(n_iter_no_change)
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
        """Look at the row of a step, which is the state."""
        self.row, self.n_steps = state, self.n_steps + 1
        is_refused = state["reason"] == "refused"
        self.n_refused = self.n_refused + 1 if is_refused else 0
        self.value = None if is_refused else self._value(state)
        return {}

    def stop(self):
        ends = {
            "no unit": self.row["reason"] == "no unit",
            "duality gap": self.row["duality_gap"] <= self.gap_tol,
            "refused": self.n_refused >= self.n_iter_no_change,
            "validation": super().stop(),
        }
        reached = [reason for reason, holds in ends.items() if holds]
        self.reason = reached[0] if reached else self.limit(self.row["n_components"])
        return self.reason is not None

    def chosen(self, last, ended):
        """The last machine that was better than those before, however growth ends."""
        return self.kept


def monitor_of(params, growth, max_units, early_stopping):
    """Return the :class:`GrowthMonitor` of a growth that has begun.

    Parameters
    ----------
    params : FrankWolfeRBM
    growth : Growth
    max_units : int
        Number of units at which to stop.
    early_stopping : bool or {"score", "free_energy_gap"}
        What has to rise, if rows are set aside.
    """
    criterion = early_stopping if growth.held_out else False
    margin = -params.free_energy_gap_tol if criterion == "free_energy_gap" else params.tol
    gap_tol = -np.inf if growth.plan.total is None else params.gap_tol
    limits = max_units, params.n_iter_no_change, margin, gap_tol
    monitor = GrowthMonitor(criterion, growth.scores(), *limits)
    monitor.kept, monitor.reason = (growth.mixture, None), monitor.limit(len(growth.mixture.units))
    return monitor
