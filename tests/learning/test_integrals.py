"""Automatic rates where a machine may lose its integral: units without bounds on both sides."""

import numpy as np
import pytest

from skrbm import RBM
from skrbm.machine import has_integral

RHO, N_COLUMNS = 0.9, 4
GAIN = -0.5 * ((N_COLUMNS - 1) * np.log(1 - RHO) + np.log(1 + (N_COLUMNS - 1) * RHO))


def rows(n=300):
    """Return rows with correlations of RHO, so that normal rows gain GAIN nats by them."""
    rng = np.random.default_rng(0)
    common = rng.standard_normal((n, 1))
    return np.sqrt(RHO) * common + np.sqrt(1 - RHO) * rng.standard_normal((n, N_COLUMNS))


@pytest.mark.parametrize("library", ["numpy", pytest.param("torch", marks=pytest.mark.arrays)])
@pytest.mark.parametrize(
    "hidden, part", [("gaussian", 0.2), ("double_relu", 0.2), ("relu", 0.0)], ids=str
)
def test_learning_without_settings_keeps_an_integral(hidden, part, library):
    """Longer steps lose it, and are taken back; a part of what correlations tell is learnt."""
    xp = pytest.importorskip(library)
    X, score = rows(), []
    for n_iter in (0, 40):
        rbm = RBM(16, visible="gaussian", hidden=hidden, n_iter=n_iter, random_state=0)
        score.append(rbm.fit(xp.asarray(X)).score(xp.asarray(X)))
        assert has_integral(rbm.machine_)
    assert np.isfinite(rbm.history_["learning_rate"]).all()
    assert score[1] > score[0] + part * GAIN - 0.1


@pytest.mark.parametrize("hidden", ["gaussian", "double_relu", "relu"])
def test_learning_begins_at_rectified_units_of_small_precision(hidden):
    """Their tails are nearly exponential, and weights of the usual size have no integral."""
    X, score = np.maximum(np.random.default_rng(0).standard_normal((400, 8)) + 0.3, 0.0), []
    for n_iter in (0, 40):
        rbm = RBM(4, visible="relu", hidden=hidden, n_iter=n_iter, random_state=0).fit(X)
        score.append(rbm.score(X))
        assert has_integral(rbm.machine_)
    assert score[1] > score[0] - 0.1
