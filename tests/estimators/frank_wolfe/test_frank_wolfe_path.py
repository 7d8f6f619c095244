"""When a growth stops, and which machine is kept: the monitor, on numbers given here."""

import numpy as np

from skrbm.estimators.frank_wolfe._path import Monitor


def row(reason="inserted", **numbers):
    given = {
        "n_components": 1,
        "duality_gap": 1.0,
        "score": -5.0,
        "validation_score": -6.0,
        "free_energy_gap": 1.0,
    }
    return {"reason": reason, **given, **numbers}


def test_monitor_follows_held_out_samples():
    """A gain below the margin is a bad step; the machines that gained more are kept."""
    monitor = Monitor(True, row(), 9, 2, margin=0.1, gap_tol=-np.inf)
    found = []
    for score in (-5.5, -5.45, -5.0, -5.0, -5.2):
        stop = monitor.stop(row(validation_score=score))
        found.append((stop, monitor.improved))
    assert found == [
        (None, True),
        (None, False),
        (None, True),
        (None, False),
        ("validation", False),
    ]


def test_monitor_follows_the_free_energy_gap():
    """With a margin of -1 the gap may widen by one nat."""
    monitor = Monitor("free_energy_gap", row(), 9, 1, margin=-1.0, gap_tol=-np.inf)
    assert monitor.stop(row(free_energy_gap=1.9)) is None and monitor.improved
    assert monitor.stop(row(free_energy_gap=2.1)) == "validation" and not monitor.improved


def test_monitor_without_held_out_samples_keeps_all_but_refused_steps():
    monitor = Monitor(False, row(), 9, 2, margin=0.1, gap_tol=0.01)
    assert monitor.stop(row(validation_score=np.nan)) is None and monitor.improved
    assert monitor.stop(row("refused")) is None and not monitor.improved
    assert monitor.stop(row()) is None and monitor.improved
    assert [monitor.stop(row("refused")) for _ in range(2)] == [None, "refused"]
    assert monitor.stop(row(duality_gap=0.01)) == "duality gap"
    assert monitor.stop(row("no unit")) == "no unit"
    assert Monitor(False, row(), 9, 2, 0.1, -np.inf).stop(row(duality_gap=np.nan)) is None


def test_monitor_has_limits():
    """Of the units, and of the steps: 100 and four for each unit that may be."""
    monitor = Monitor(False, row(), 2, 5, margin=0.1, gap_tol=0.01)
    assert monitor.limit(1) is None and monitor.limit(2) == "max_components"
    assert monitor.stop(row(n_components=2)) == "max_components"
    stops = [monitor.stop(row("shrunk")) for _ in range(107)]
    assert stops[:-1] == [None] * 106 and stops[-1] == "max_steps"
