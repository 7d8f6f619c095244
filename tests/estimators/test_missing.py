"""Missing values in X: fits, likelihoods, hidden means and draws, against enumeration."""

import warnings

import numpy as np
import pytest
from _estimators import (
    assert_same_state,
    binary_data,
    machine,
    small,
    with_holes,
)
from _exact import Exact
from numpy.testing import assert_allclose, assert_array_equal

from skrbm import (
    RBM,
    TAPRBM,
    BernoulliRBM,
    DeepTAPMachine,
    GaussianBernoulliRBM,
)
from skrbm.units import UNITS, Categorical

BASES = (RBM, TAPRBM, GaussianBernoulliRBM, DeepTAPMachine)
every = pytest.mark.parametrize("Estimator", BASES)
NAN = np.nan
HOLES = np.array([[1, NAN, 0, NAN], [NAN] * 4, [NAN, 0, 1, 1], [0, 1, 1, 0]])
SETTINGS = {
    "real": (RBM, {"visible": "gaussian", "hidden": "gaussian"}),
    "spikes": (RBM, {"visible": "truncated_gauss_bernoulli"}),
    "categories": (RBM, {"visible": Categorical((3, 5))}),
    "cd": (RBM, {"inference": "cd", "early_stopping": True}),
    "tap": (TAPRBM, {"early_stopping": True}),
    "bp": (TAPRBM, {"inference": "bp"}),
    "langevin": (GaussianBernoulliRBM, {}),
    "deep": (DeepTAPMachine, {"early_stopping": True}),
}


def data(name, n=60):
    """Rows with holes, of 8 columns, and their estimator."""
    Estimator, params = SETTINGS[name]
    X = binary_data(n)
    if name == "categories":
        sites = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1]]), np.eye(5)
        picks = X[:, 0] + X[:, 1], X[:, 2] + X[:, 3] + 2 * X[:, 4]
        X = np.hstack([site[pick.astype(int)] for site, pick in zip(sites, picks, strict=True)])
    H = with_holes(X)
    if name == "categories":
        first, last = np.isnan(H[:, :1]), np.isnan(H[:, 7:])
        missing = np.hstack([np.repeat(first, 3, axis=1), np.repeat(last, 5, axis=1)])
        H = np.where(missing, NAN, X)
    return small(Estimator, **params), H


# ------------------------------------------------------------------------------ learning


@pytest.mark.parametrize("name", SETTINGS)
def test_weights_are_repeated_rows(name):
    estimator, H = data(name)
    weights = np.random.default_rng(0).integers(0, 3, len(H))
    expected = data(name)[0].fit(np.repeat(H, weights, axis=0))
    assert_same_state(estimator.fit(H, sample_weight=weights), expected)


@every
def test_methods_take_missing_values(Estimator):
    X = binary_data(dtype=np.float32)
    H, rbm = with_holes(X), small(Estimator)
    rbm.fit(H).partial_fit(H)
    assert rbm.__sklearn_tags__().input_tags.allow_nan
    before = H.copy()
    for result in (rbm.transform(H), rbm.predict(H), rbm.sample(given=H, n_steps=2)):
        assert result.dtype == np.float32 and np.isfinite(result).all()
    for result in (rbm.score_samples(H), rbm.free_energy(H)):
        assert result.dtype == np.float64 and np.isfinite(result).all()
    assert rbm.score(H) == pytest.approx(rbm.score_samples(H).mean())
    assert_array_equal(H, before)
    half = len(X) // 2  # the rows without holes
    for method in ("transform", "predict", "score_samples", "free_energy"):
        found, alone = getattr(rbm, method)(H)[half:], getattr(rbm, method)(X[half:])
        assert_allclose(found, alone, rtol=1e-5, atol=1e-6)


@every
def test_columns_begin_with_what_is_observed_of_them(Estimator):
    X = binary_data(400)
    H = np.where(np.random.default_rng(0).random(X.shape) < 0.3, NAN, X)
    rbm = small(Estimator, n_iter=1).fit(H)
    assert_allclose(rbm.visible_means_, np.nanmean(H, axis=0))
    parts = np.array_split(H, [50, 300])
    parts[1][:, 3] = NAN  # a column may be missing in a later part
    for part in parts:
        rbm = small(Estimator) if part is parts[0] else rbm
        rbm.partial_fit(part)
    assert_allclose(rbm.visible_means_, np.nanmean(np.vstack(parts), axis=0))


# ----------------------------------------------------------------------------- evaluation


def random_rbm(kind, **params):
    """An estimator with 4 visible units of a kind and 3 binary hidden ones."""
    generator = np.random.default_rng(0)
    W, c, b = (generator.standard_normal(shape) for shape in ((3, 4), 3, 4))
    return RBM.from_parameters(W, c, b, visible=kind, random_state=0, **params)


@pytest.mark.parametrize("kind", sorted(UNITS))
def test_likelihoods_and_hidden_means_are_exact(kind):
    rbm = random_rbm(kind)
    rows = [Exact(rbm.machine_, observed=row) for row in HOLES]
    log_z = Exact(rbm.machine_).log_z
    assert_allclose(rbm.free_energy(HOLES), [-row.log_z for row in rows], rtol=1e-9)
    assert_allclose(rbm.score_samples(HOLES), [row.log_z - log_z for row in rows], atol=1e-8)
    assert_allclose(rbm.transform(HOLES), [row.mean(1) for row in rows], rtol=1e-7)
    assert rbm.score_samples(HOLES)[1] == pytest.approx(0, abs=1e-8)  # of nothing observed


def test_rows_of_nothing_observed():
    """Also of another dtype than that in which they are scored."""
    X = np.random.default_rng(0).standard_normal((20, 4), dtype=np.float32)
    rbm = RBM(2, visible="gaussian", n_iter=1, random_state=0).fit(X)
    nothing = np.full((1, 4), np.nan, dtype=np.float32)
    assert rbm.score(nothing) == pytest.approx(0, abs=1e-5)


def many_hidden(Estimator=BernoulliRBM, n=30):
    """A machine too large for sums over its 30 hidden units, and rows of 30 bits."""
    rbm = machine(Estimator, n, n, strength=0.3)
    X = (np.random.default_rng(1).random((6, n)) < 0.5).astype(float)
    X[:3, 2:26] = X[3, 0] = NAN
    return rbm, X


@pytest.mark.parametrize("Estimator", [BernoulliRBM, TAPRBM])
def test_results_of_a_row_do_not_depend_on_the_others(Estimator):
    rbm, X = many_hidden(Estimator)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # log Z of random weights
        for method in (rbm.transform, rbm.score_samples, rbm.predict):
            together = method(X)
            assert_array_equal(method(X), together)
            for i in range(len(X)):
                assert_allclose(method(X[i : i + 1])[0], together[i], rtol=1e-8)


# -------------------------------------------------------------------------------- draws


@pytest.mark.parametrize("kind", sorted(UNITS))
def test_draws_have_their_means_and_variances(kind):
    """By 5 000 chains, five standard errors of a mean, and of the variance of normal numbers."""
    rbm, row, n = random_rbm(kind), HOLES[0], 5000
    exact = Exact(rbm.machine_, observed=row)
    drawn = rbm.sample(given=np.tile(row, (n, 1)), n_steps=30, random_state=1)
    assert_array_equal(drawn[:, [0, 2]], np.tile(row[[0, 2]], (n, 1)))
    spread = exact.variance(0).max()
    assert_allclose(drawn.mean(axis=0), exact.mean(0), atol=5 * np.sqrt(spread / n))
    assert_allclose(drawn.var(axis=0), exact.variance(0), atol=5 * spread * np.sqrt(2 / n))
