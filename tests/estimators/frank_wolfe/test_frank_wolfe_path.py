"""When a growth stops, and which machine is kept: the monitor, on numbers given here."""

import numpy as np

from skrbm.estimators.frank_wolfe._path import GrowthMonitor

NUMBERS = {"duality_gap": 1.0, "score": -5.0, "validation_score": -6.0, "free_energy_gap": 1.0}


def row(reason="inserted", **numbers):
    return {"reason": reason, "n_components": 1, **NUMBERS, **numbers}


def course(monitor, rows):
    """The numbers of the rows whose machines are kept, and why to stop after the last one."""
    kept = []
    for number, numbers in enumerate(rows):
        assert monitor.reason is None
        monitor.kept = None
        monitor.measure(number, numbers)
        assert monitor.stop() is (monitor.reason is not None)
        monitor.keep(number, numbers)
        if monitor.kept is not None:
            kept.append(monitor.kept[0])
    return kept, monitor.reason


def test_held_out_samples_stop_it():
    """A gain below the margin is a bad step; the machines that gained more are kept."""
    monitor = GrowthMonitor(True, row(), 9, 2, margin=0.1, gap_tol=-np.inf)
    rows = [row(validation_score=score) for score in (-5.5, -5.45, -5.0, -5.0, -5.2)]
    assert course(monitor, rows) == ([0, 2], "validation")


def test_the_free_energy_gap_stops_it():
    """With a margin of -1 the gap may widen by one nat."""
    monitor = GrowthMonitor("free_energy_gap", row(), 9, 1, margin=-1.0, gap_tol=-np.inf)
    rows = [row(free_energy_gap=gap) for gap in (1.9, 2.1)]
    assert course(monitor, rows) == ([0], "validation")


def test_without_held_out_samples_all_but_refused_steps_are_kept():
    monitor = GrowthMonitor(False, row(), 9, 2, margin=0.1, gap_tol=0.01)
    rows = [row(reason) for reason in ("inserted", "refused", "shrunk", "refused", "refused")]
    assert course(monitor, rows) == ([0, 2], "refused")


def test_what_else_stops_it():
    def made():
        return GrowthMonitor(False, row(), 2, 5, margin=0.1, gap_tol=0.01)

    assert course(made(), [row(), row(duality_gap=0.01)])[1] == "duality gap"
    assert course(made(), [row(duality_gap=np.nan)])[1] is None
    assert course(made(), [row("no unit")])[1] == "no unit"
    assert course(made(), [row(n_components=2)])[1] == "max_components"
    # 100 steps, and four for each unit that may be
    assert course(made(), [row("shrunk")] * 107)[1] is None
    assert course(made(), [row("shrunk")] * 108)[1] == "max_steps"
    assert (made().limit(1), made().limit(2)) == (None, "max_components")
