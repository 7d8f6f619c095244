"""TAPRBM with every kind of unit on either side.

Random tests use fixed seeds; the probability that a correct program fails is stated in each.
"""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from _estimators import PAPER, binary_data, noisy_patterns
from _exact import Exact, log_likelihood
from _machines import enumerable_pairs, random_machine
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from skrbm import RBM, TAPRBM, TabularRBM
from skrbm.exceptions import DataRangeWarning, DivergenceError
from skrbm.inference import TAP
from skrbm.units import (
    UNITS,
    Gaussian,
    ReLU,
    Theta,
    TruncatedGaussBernoulli,
    TruncatedGaussian,
    log_weight,
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
    defaults["batch_size"] = 20
    return TAPRBM(**{**defaults, "schedule": "constant", **params})


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


@kinds
def test_no_epochs_gives_units_fitted_to_the_data(kind):
    X = real_data(kind)
    rbm = small(visible=kind, n_iter=0).fit(X)
    unit, theta = rbm.units_[0], rbm.machine_.thetas[0]
    further = [unit.further(theta)] if unit.has_further else []
    theta = unit.statistics(*unit.moments(theta), *further)
    assert_allclose(theta.field, X.mean(axis=0), atol=1e-5)
    assert_allclose(-2 * theta.precision, (X**2).mean(axis=0), atol=1e-5)
    if theta.spike is not None:
        assert_allclose(theta.spike, (X != 0).mean(axis=0), atol=1e-5)


@pytest.mark.law
@pytest.mark.parametrize(("visible", "hidden"), enumerable_pairs())
def test_training_raises_the_exact_likelihood(visible, hidden):
    # From start to end by far more than the noise of its steps: clusters need hidden units.
    values = UNITS[visible]().values
    if values is None:
        X = real_data(visible)
    else:
        X = values[0] + (values[-1] - values[0]) * noisy_patterns(300)
    # Faster learning of units without a bound ends in a negative precision, of those of several
    # trials in couplings too strong for TAP. The reaction of TAP on rectified hidden units ends so
    # at any rate that learns in so few epochs.
    rate = 0.02 if hidden in ("gaussian", "relu", "double_relu", "binomial") else 0.1
    inference = "naive_mean_field" if "relu" in hidden else "tap"
    rbm = small(visible=visible, hidden=hidden, learning_rate=rate, inference=inference)
    likelihoods = []
    for n_iter in (0, 60):
        rbm.set_params(n_iter=n_iter).fit(X)
        likelihoods.append(-rbm.free_energy(X).mean() - rbm.log_partition("exact"))
    assert likelihoods[1] > likelihoods[0] + 0.5


@pytest.mark.parametrize(("visible", "hidden"), enumerable_pairs())
def test_likelihood_is_that_of_the_oracle(visible, hidden):
    machine = random_machine((visible, hidden), (3, 2), seed=1)
    rbm = fitted_to(machine)
    X = Exact(machine).sample(np.random.default_rng(0), 5)[0]
    assert_allclose(rbm.log_partition("exact"), Exact(machine).log_z, rtol=1e-9)
    assert_allclose(
        -rbm.free_energy(X) - rbm.log_partition("exact"), log_likelihood(machine, X), rtol=1e-8
    )


@pytest.mark.law
@pytest.mark.parametrize(("visible", "hidden"), enumerable_pairs())
def test_sample_has_the_law_of_the_machine(visible, hidden):
    machine = random_machine((visible, hidden), (3, 2), seed=2)
    exact, n = Exact(machine), 4000
    V = fitted_to(machine).sample(n, n_steps=50, random_state=0)
    # A mean of n independent draws, to six standard errors: 2e-9 for each of three.
    assert_allclose(V.mean(axis=0), exact.mean(0), atol=6 * np.sqrt(exact.variance(0).max() / n))
    low, high = machine.units[0].bounds
    assert V.min() >= low and V.max() <= high


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


@kinds
def test_predict_is_the_mode_given_the_hidden_means(kind):
    machine = random_machine((kind, "bernoulli"), (4, 3), seed=4)
    rbm = fitted_to(machine)
    X = real_data(kind, 5, 4)
    if machine.units[0].bounds[0] == 0.0:
        X = np.abs(X)
    X = np.clip(X, *machine.units[0].bounds)
    grid = np.linspace(*np.clip(machine.units[0].bounds, -30, 30), 20001)
    hidden = rbm.transform(X)
    for row, h in zip(rbm.predict(X), hidden, strict=True):
        for i, value in enumerate(row):
            theta = machine.thetas[0].map(lambda part, i=i: part[i : i + 1])
            field = theta.field + machine.weights[0][:, i] @ h
            density = log_weight(theta._replace(field=field, spike=None), grid[:, None])
            if theta.spike is not None and value == 0.0:
                heights = theta.spike + np.log(np.exp(density).mean() * np.ptp(grid))
                assert heights < 1e-3
            else:
                assert abs(value - grid[density.argmax()]) <= grid[1] - grid[0]


@kinds
def test_parameters_make_the_same_machine(kind):
    rbm = small(visible=kind, hidden=kind).fit(real_data(kind))
    X = real_data(kind, 20)
    twin = TAPRBM.from_parameters(rbm, visible=rbm.units_[0], hidden=rbm.units_[1])
    assert_array_equal(twin.transform(X), rbm.transform(X))
    assert_array_equal(twin.free_energy(X), rbm.free_energy(X))
    started = small(visible=rbm.units_[0], hidden=rbm.units_[1], init=rbm, n_iter=0).fit(X)
    assert_array_equal(started.free_energy(X), rbm.free_energy(X))


def test_parameters_that_the_units_do_not_have():
    with pytest.raises(ValueError, match=r"precision_visible is given, but Bernoulli\(\) has no"):
        TAPRBM.from_parameters(np.ones((2, 3)), precision_visible=np.ones(3))
    with pytest.raises(ValueError, match=r"spike_hidden has shape \(3,\).*needs \(2,\)"):
        TAPRBM.from_parameters(
            np.ones((2, 3)), hidden="truncated_gauss_bernoulli", spike_hidden=np.ones(3)
        )


@kinds
def test_warm_start_and_partial_fit_go_on(kind):
    X = real_data(kind)
    rbm = small(visible=kind, warm_start=True).fit(X)
    before = rbm.machine_.copy()
    rbm.set_params(n_iter=1).fit(X)
    assert rbm.n_iter_ == 4 and rbm.units_ == before.units
    assert 0 < np.abs(rbm.precision_visible_ - before.thetas[0].precision).max() < 1.0
    assert rbm.partial_fit(X[:50]).n_iter_ == 5
    with pytest.raises(ValueError, match=r"Bernoulli\(\) was asked for.*without warm_start"):
        rbm.set_params(visible="bernoulli").fit(binary_data(n_features=6))


def test_spins_are_told_of_bits():
    X = binary_data(n_features=6)
    with pytest.warns(DataRangeWarning, match="2 \\* X - 1"):
        small(visible="spin").fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataRangeWarning)
        small(visible="spin").fit(2 * X - 1)
        small(visible="spin").fit(np.ones_like(X))


@bounded
def test_bounds_of_the_data_and_beyond(kind):
    X = real_data(kind)
    rbm = small(visible=kind).fit(X)
    assert rbm.units_[0].bounds == (X.min(), X.max())
    with pytest.warns(DataRangeWarning, match="from -3 to 3.*are clipped"):
        clipped = rbm.transform(np.array([[-3.0, 3, 0, 0, 0, 0]]))
    assert_array_equal(clipped, rbm.transform(np.array([[X.min(), X.max(), 0, 0, 0, 0]])))
    with pytest.raises(ValueError, match=r"from .* to 9; .*cannot be learnt.*wider bounds"):
        rbm.partial_fit(np.full((3, 6), 9.0))


@bounded
def test_data_outside_of_given_bounds(kind):
    unit = UNITS[kind](-1.0, 1.0)
    with pytest.raises(ValueError, match=rf"outside \[-1, 1\].*give {type(unit).__name__} wider"):
        small(visible=unit).fit(real_data(kind))


@bounded
def test_sparse_data(kind):
    X = np.abs(real_data("truncated_gauss_bernoulli"))
    rbm = small(visible=kind, n_iter=2)
    dense = rbm.fit(X).transform(X)
    assert_allclose(rbm.fit(sp.csr_array(X)).transform(sp.csr_array(X)), dense, rtol=1e-6)
    assert rbm.units_[0].bounds == (0.0, X.max())


@pytest.mark.parametrize("kind", [*REAL, "spin"])
def test_binarize_needs_binary_units(kind):
    X = np.ones((4, 3)) if kind == "spin" else real_data(kind)
    with pytest.raises(ValueError, match=r"binarize=0.5 makes data binary.*set binarize=None"):
        small(visible=kind, binarize=0.5).fit(X)


@pytest.mark.parametrize("side", ["visible", "hidden"])
@pytest.mark.parametrize("kind", REAL)
def test_third_order_needs_binary_units(kind, side):
    X = real_data(kind) if side == "visible" else binary_data()
    with pytest.raises(ValueError, match=r"TAP needs .*binary units.*TAP\(order=2\) for real"):
        small(**{side: kind}, inference="tap3").fit(X)


@pytest.mark.parametrize("kind", ["poisson", 3, Gaussian])
def test_unknown_units(kind):
    with pytest.raises(ValueError, match="The 'visible' parameter of TAPRBM must be"):
        small(visible=kind).fit(binary_data())


def test_negative_precision_names_the_remedy_and_keeps_the_parameters():
    # W * W c grows beyond any precision when steps are long.
    X = 10 * real_data("gaussian")
    rbm = small(visible="gaussian", learning_rate=5.0, n_iter=30, **PAPER)
    with pytest.raises(DivergenceError):
        rbm.fit(X)
    assert rbm.machine_.is_finite() and rbm.n_iter_ < 30
    W = np.full((2, 3), 3.0)
    strong = TAPRBM.from_parameters(W, visible="gaussian")
    with pytest.raises(DivergenceError, match=r"precision of Gaussian units.*TruncatedGaussian"):
        strong.tap_log_likelihood(np.zeros((1, 3)), starts=np.zeros((1, 3)))


@kinds
def test_history_has_a_likelihood(kind):
    rbm = small(visible=kind, n_iter=4).fit(real_data(kind))
    values = rbm.history_["tap_log_likelihood"]
    assert len(values) == 4 and np.isfinite(values).all()
    assert "pseudo_log_likelihood" not in rbm.history_


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


@kinds
def test_number_of_starts_is_free(kind):
    rbm = small(visible=kind, n_starts=7, batch_size=20).fit(real_data(kind))
    assert rbm.starts_.shape == (7, 6)


@kinds
@pytest.mark.parametrize("starts", ["data", "chains", "persistent", "random"])
def test_starts(kind, starts):
    rbm = small(visible=kind, starts=starts).fit(real_data(kind))
    low, high = rbm.units_[0].bounds
    assert rbm.starts_.min() >= low - 1e-6 and rbm.starts_.max() <= high + 1e-6
    assert rbm.machine_.is_finite()


@pytest.mark.law
def test_unit_objects_are_searched_over():
    X, y = load_digits(return_X_y=True)
    X, y = X[:600] / 16, y[:600]
    pipeline = make_pipeline(
        TAPRBM(30, n_iter=10, random_state=0), LogisticRegression(max_iter=1000)
    )
    grid = {"taprbm__visible": [TruncatedGaussian(0, 1), TruncatedGaussBernoulli(0, 1)]}
    search = GridSearchCV(pipeline, grid, cv=2).fit(X, y)
    assert search.best_score_ > 0.4  # chance is 0.1


@bounded
def test_other_bounds_are_no_warm_start(kind):
    X = real_data(kind)
    low, high = float(X.min()), float(X.max())
    rbm = small(visible=kind, warm_start=True).fit(X)
    wider = UNITS[kind](low, high + 1)
    with pytest.raises(ValueError, match=r"was asked for.*without warm_start.*the same bounds"):
        rbm.set_params(visible=wider).fit(X)
    assert rbm.set_params(visible=UNITS[kind](low, high)).fit(X).n_iter_ == 6


@bounded
def test_from_parameters_keeps_the_bounds_of_a_machine(kind):
    X = real_data(kind)
    rbm = small(visible=kind).fit(X)
    copy = TAPRBM.from_parameters(rbm, visible=kind)
    assert copy.units_ == rbm.units_
    assert_array_equal(copy.free_energy(X), rbm.free_energy(X))
    wider = TAPRBM.from_parameters(rbm, visible=UNITS[kind](upper=9))
    assert wider.units_[0].bounds == (rbm.units_[0].bounds[0], 9)
    assert TAPRBM.from_parameters(rbm.components_, visible=kind).units_[0].lower in (-1, 0)


@pytest.mark.parametrize("side", ["visible", "hidden"])
@pytest.mark.parametrize("value", [0.0, -1.0])
def test_from_parameters_refuses_laws_without_an_integral(side, value):
    precision = {f"precision_{side}": np.full(3, value)}
    with pytest.raises(ValueError, match=f"precision_{side} must be positive.*TruncatedGaussian"):
        TAPRBM.from_parameters(np.zeros((3, 3)), **{side: "gaussian"}, **precision)


@pytest.mark.parametrize("value", [0, -1.0, float("nan"), float("inf"), "1"])
def test_a_gaussian_needs_a_positive_least_precision(value):
    with pytest.raises(ValueError, match="min_precision must be a finite number > 0"):
        Gaussian(value)


@pytest.mark.parametrize("hidden, least", [("relu", 1.0), (ReLU(0.5), 0.5), ("double_relu", 1.0)])
def test_rectified_hidden_units_keep_the_scale_that_weights_make_up_for(hidden, least):
    X = np.random.default_rng(0).integers(2, size=(100, 6)).astype(float)
    rbm = RBM(4, hidden=hidden, n_iter=3, learning_rate=0.5, random_state=0).fit(X)
    unit = rbm.units_[1]
    assert unit.min_precision == least
    found = unit.tail_precision(rbm.machine_.thetas[1])  # float32, of two sides a difference
    assert (found >= least * (1 - 1e-6)).all()
    assert RBM(4, visible="relu", n_iter=0).fit(X + 1).units_[0].min_precision is None


@pytest.mark.parametrize("Estimator", [RBM, TabularRBM])
def test_a_column_that_is_constant_in_training_has_the_spread_of_the_others(Estimator):
    X = np.random.default_rng(0).normal(size=(200, 4)) * [1, 2, 2, 20]
    X[:, 0] = 5.0
    visible = {} if Estimator is TabularRBM else {"visible": "gaussian"}
    rbm = Estimator(2, n_iter=2, random_state=0, **visible).fit(X)
    moved = X + np.array([1.0, 0, 0, 0])
    lost = (rbm.score_samples(X) - rbm.score_samples(moved)).mean()
    assert 0.05 < lost < 0.3  # 1 / (2 * 4) without couplings
    alone = Estimator(2, n_iter=1, random_state=0, **visible).fit(np.full((20, 2), 3.0))
    assert -20 < alone.score(np.full((2, 2), 4.0)) < 0
