"""TAPRBM with every kind of unit on either side.

Random tests use fixed seeds; the probability that a correct program fails is stated in each.
"""

import numpy as np
import pytest
from _estimators import PAPER, binary_data, build
from _exact import Exact
from _machines import enumerable_pairs, random_machine
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from skrbm import RBM, TAPRBM
from skrbm.exceptions import DataRangeWarning, DivergenceError
from skrbm.inference import TAP
from skrbm.units import (
    UNITS,
    Theta,
)

REAL = sorted(kind for kind in UNITS if UNITS[kind].values is None)
BOUNDED = [kind for kind in REAL if kind.startswith("truncated")]
kinds = pytest.mark.parametrize("kind", REAL)
bounded = pytest.mark.parametrize("kind", BOUNDED)
STATISTICS = {
    "double_relu": {"precision", "absolute", "skew"},
    "gaussian": {"precision"},
    "relu": {"precision"},
    "truncated_gaussian": {"precision"},
    "truncated_gauss_bernoulli": {"precision", "spike"},
}


def real_data(kind, n=200, n_features=6, seed=0, dtype=np.float64):
    """Rows of two clusters, in the support of a kind of unit; a third of the values 0 if it may."""
    generator = np.random.default_rng(seed)
    signs = np.where(generator.random(n) < 0.5, 1.0, -1.0)
    X = 0.6 * signs[:, None] + 0.4 * generator.standard_normal((n, n_features))
    if kind in ("gaussian", "double_relu"):
        return X.astype(dtype)
    if kind == "relu":
        return np.abs(1 + X).astype(dtype)
    X = np.clip(X, -2.0, 2.0)
    if kind == "truncated_gauss_bernoulli":
        X[generator.random(X.shape) < 1 / 3] = 0.0
    return X.astype(dtype)


def small(**params):
    defaults = {"n_components": 4, "learning_rate": 0.05, "n_iter": 3, "random_state": 0}
    defaults |= {"batch_size": 20, "schedule": "constant"}
    return build(TAPRBM, **{**defaults, **params})


def fitted_to(machine, **params):
    """An estimator with the parameters of a machine."""
    parts = {}
    for side, theta in zip(("visible", "hidden"), machine.thetas, strict=True):
        parts |= {f"{name}_{side}": getattr(theta, name) for name in Theta._fields[1:]}
    parts = {name: part for name, part in parts.items() if part is not None}
    fields = machine.thetas[1].field, machine.thetas[0].field
    visible, hidden = machine.units
    params = {"visible": visible, "hidden": hidden, "random_state": 0, **parts, **params}
    return TAPRBM.from_parameters(machine.weights[0], *fields, **params)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@kinds
def test_parameters_of_the_units_are_published(kind, dtype):
    rbm = small(visible=kind, hidden=kind).fit(real_data(kind, dtype=dtype))
    shapes = {"visible": (6,), "hidden": (4,)}
    for side, shape in shapes.items():
        for name in Theta._fields[1:]:
            attribute = f"{name}_{side}_"
            assert hasattr(rbm, attribute) == (name in STATISTICS[kind])
            if hasattr(rbm, attribute):
                assert getattr(rbm, attribute).shape == shape
                assert getattr(rbm, attribute).dtype == dtype
    rbm.set_params(visible="bernoulli", hidden="bernoulli").fit(binary_data())
    assert not [name for name in vars(rbm) if name.startswith(Theta._fields[1:])]


@pytest.mark.parametrize(("visible", "hidden"), enumerable_pairs())
def test_impute_is_exact_to_second_order(visible, hidden):
    errors, x = [], np.array([0.0, 1.0, np.nan, np.nan])
    for strength in (0.2, 0.05):
        machine = random_machine((visible, hidden), (4, 2), seed=3, strength=strength)
        filled = fitted_to(machine).impute(x[None])[0]
        truth = Exact(machine, observed=x).mean(0)
        assert_array_equal(filled[:2], x[:2])
        errors.append(np.abs(filled - truth).max())
    # The third order falls to 1/64; the solver stops at a mean square change of 1e-12.
    assert errors[0] < 0.02 and errors[1] < errors[0] / 30 + 1e-6


@bounded
def test_bounds_of_the_data_and_beyond(kind):
    X = real_data(kind)
    rbm = small(visible=kind).fit(X)
    assert rbm.units_[0].bounds == (X.min(), X.max())
    with pytest.warns(DataRangeWarning, match="from -3 to 3.*clips"):
        clipped = rbm.transform(np.array([[-3.0, 3, 0, 0, 0, 0]]))
    assert_array_equal(clipped, rbm.transform(np.array([[X.min(), X.max(), 0, 0, 0, 0]])))
    with pytest.raises(ValueError, match=r"from .* to 9"):
        rbm.partial_fit(np.full((3, 6), 9.0))


def test_negative_precision_names_the_remedy_and_keeps_the_parameters():
    # W * W c grows beyond any precision when steps are long.
    X = 10 * real_data("gaussian")
    schedule = lambda progress: 1e38 if progress >= 0.5 else 1e-4  # noqa: E731
    rbm = small(visible="gaussian", learning_rate=1.0, n_iter=4, **PAPER, schedule=schedule)
    with pytest.raises(DivergenceError):
        rbm.fit(X)
    assert rbm.machine_.is_finite() and rbm.n_iter_ == 2
    W = np.full((2, 3), 3.0)
    strong = TAPRBM.from_parameters(W, visible="gaussian")
    with pytest.raises(DivergenceError, match=r"precision of .*TruncatedGaussian"):
        strong.tap_log_likelihood(np.zeros((1, 3)), starts=np.zeros((1, 3)))


@kinds
def test_history_has_the_tap_log_likelihood_of_the_machine(kind):
    """Steps of next to no length leave the machine where it is, with one solution of weak weights.

    All rows are monitored. Where a free energy counted with the wrong sign, or not at all, the mean
    would be off by nats.
    """
    X = real_data(kind)
    params = {"learning_rate": 1e-12, "inference": TAP(max_iter=500, tol=1e-20)}
    rbm = small(visible=kind, n_iter=2, **params).fit(X)
    assert len(rbm.solutions()) == 1 and abs(rbm.log_partition("tap")) > 1
    expected = rbm.tap_log_likelihood(X).mean()
    assert_allclose(rbm.history_["tap_log_likelihood"], [expected] * 2, rtol=1e-6)


def test_a_column_that_is_constant_in_training_has_the_spread_of_the_others():
    X = np.random.default_rng(0).normal(size=(200, 4)) * [1, 2, 2, 20]
    X[:, 0] = 1.0
    rbm = RBM(2, visible="gaussian", n_iter=2, random_state=0).fit(X)
    moved = X + np.array([1.0, 0, 0, 0])
    lost = (rbm.score_samples(X) - rbm.score_samples(moved)).mean()
    assert 0.05 < lost < 0.3  # 1 / (2 * 4) without couplings
    small = RBM(2, visible="gaussian", n_iter=1, random_state=0).fit(1e-3 * (X - [1, 0, 0, 0]))
    lost = small.score_samples(1e-3 * X[:9]) - small.score_samples(1e-3 * X[:9] + [3, 0, 0, 0])
    assert (lost < 50).all()  # of a constant 0, which tells no scale
    alone = RBM(2, visible="gaussian", n_iter=1, random_state=0).fit(np.full((20, 2), 3.0))
    assert -20 < alone.score(np.full((2, 2), 4.0)) < 0


@pytest.mark.law
def test_steps_towards_negative_precisions_do_not_end_learning():
    """Gaussian hidden units of bits, which learn more than independent columns in the end."""
    X = train_test_split(load_digits().data > 7, random_state=0)[0].astype(np.float32)
    rbm = RBM(32, hidden="gaussian", batch_size=20, n_iter=15, random_state=0).fit(X)
    share = np.clip(X.mean(axis=0), 1e-3, 1 - 1e-3)
    independent = (X * np.log(share) + (1 - X) * np.log(1 - share)).sum(axis=1).mean()
    assert rbm.score(X) > independent + 3
