"""Input that is legal but odd, or far out of range: right results or clear errors."""

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from _estimators import DENSITIES, NUMERIC, RBMS, binary_data, learn, small, with_parameters
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_wine
from sklearn.exceptions import ConvergenceWarning

from skrbm import (
    RBM,
    TAPRBM,
    BernoulliRBM,
    ConditionalRBM,
    DeepTAPMachine,
    FrankWolfeRBM,
    GaussianBernoulliRBM,
    units,
)
from skrbm.arrays import Rng
from skrbm.evaluation import diagnose
from skrbm.exceptions import DataRangeWarning
from skrbm.units import Poisson

every = pytest.mark.parametrize("Estimator", NUMERIC)
densities = pytest.mark.parametrize("Estimator", DENSITIES)
pytestmark = pytest.mark.filterwarnings("ignore:the machine has no hidden unit")


# ------------------------------------------------------------------- sparse matrices


def not_canonical(X):
    """The same matrix in CSR with unsorted indices, and each entry as two halves."""
    canonical = sp.csr_array(X)
    rows = np.repeat(np.arange(X.shape[0]), np.diff(canonical.indptr))
    order = np.lexsort((-canonical.indices, rows))
    data = np.repeat(canonical.data[order] / 2, 2)
    indices = np.repeat(canonical.indices[order], 2)
    return sp.csr_array((data, indices, 2 * canonical.indptr), shape=X.shape)


def as_it_is_and_by_a_threshold():
    """Every estimator without options, and those that take a threshold with one."""
    for Estimator in NUMERIC:
        yield pytest.param(Estimator, {}, id=f"{Estimator.__name__}-as it is")
        if "binarize" in Estimator().get_params():
            yield pytest.param(Estimator, {"binarize": 0.6}, id=f"{Estimator.__name__}-binarize")


@pytest.mark.parametrize("Estimator, options", [*as_it_is_and_by_a_threshold()])
def test_a_sparse_matrix_that_is_not_canonical_is_only_read(Estimator, options):
    """Memory that cannot be written, as workers of joblib get it; halves of an entry count as one.

    With a threshold of 0.6 neither half of a 1 is above it, but their sum is.
    """
    dense = binary_data()
    X = not_canonical(dense)
    before = [part.copy() for part in (X.data, X.indices, X.indptr)]
    for part in (X.data, X.indices, X.indptr):
        part.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataRangeWarning)
        found = learn(small(Estimator, **options), X)
        expected = learn(small(Estimator, **options), sp.csr_array(dense))
    assert_array_equal(found.transform(X), expected.transform(dense))
    if hasattr(found, "free_energy"):
        # Next to 0 it is a sum of terms of order 1, in float32 if they are bits.
        assert_allclose(found.free_energy(X), expected.free_energy(dense), rtol=1e-6, atol=1e-6)
    for part, copy in zip((X.data, X.indices, X.indptr), before, strict=True):
        assert_array_equal(part, copy)


@pytest.mark.parametrize("Estimator", with_parameters("binarize"))
def test_duplicates_are_summed_before_the_range_is_checked(Estimator):
    X = binary_data()
    doubled = sp.csr_array(X) + sp.csr_array((X.shape[0], X.shape[1]))
    doubled = sp.csr_array(
        (np.repeat(doubled.data, 2), np.repeat(doubled.indices, 2), 2 * doubled.indptr),
        shape=X.shape,
    )
    with pytest.warns(DataRangeWarning, match="from 0 to 2"):
        found = small(Estimator).fit(doubled)
    assert_array_equal(found.transform(doubled), found.transform(X))


# ------------------------------------------------------------------- range of numbers


@pytest.mark.parametrize("Estimator", [GaussianBernoulliRBM, TAPRBM])
@pytest.mark.parametrize(
    "method", ["transform", "score_samples", "predict", "gibbs", "partial_fit", "impute", "fit"]
)
def test_values_that_overflow_float32(Estimator, method):
    X = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
    params = {"visible": "gaussian"} if Estimator is TAPRBM else {}
    rbm, far = small(Estimator, warm_start=True, **params).fit(X), [[1e39, 0, 0], [0, 0, -1e39]]
    if method == "score_samples":  # in float64
        assert np.isfinite(rbm.score_samples(far)).all()
        return
    with pytest.raises(ValueError, match=r"beyond the range of float32.*Scale X"):
        getattr(rbm, method)(np.array(far))


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_hidden_values_and_features_that_overflow_float32():
    X = binary_data(dtype=np.float32)
    with pytest.raises(ValueError, match="H contains infinity, or values beyond float32"):
        small(BernoulliRBM).fit(X).inverse_transform([[1e39, 0, 0, 0, 0]])
    with pytest.raises(ValueError, match="not finite in float32: scale X"):
        learn(small(ConditionalRBM), X).predict_proba([[1e39] + [0] * 7])


def test_values_beyond_float32_that_are_clipped_are_no_error():
    rbm = small(BernoulliRBM).fit(binary_data(dtype=np.float32))
    X = binary_data()
    assert_array_equal(rbm.transform(1e39 * X), rbm.transform(X))


@pytest.mark.parametrize("visible", ["gaussian", "truncated_gaussian"])
@pytest.mark.parametrize("mean", [1e3, 1e4, 1e6])
def test_scores_of_single_precision_far_from_zero(visible, mean):
    """Columns of N(mean, 1) without couplings, of which each has -1.42 nats with deviation 0.71.

    Of 500 rows of four columns the mean has a standard error of 0.06 and the deviation, 1.41, of
    0.08; at 1e6 a float32 has a spacing of 0.06.
    """
    X = (np.random.default_rng(0).normal(size=(500, 4)) + mean).astype(np.float32)
    rbm = TAPRBM(2, visible=visible, n_iter=0, random_state=0).fit(X)
    scores = rbm.score_samples(X)
    assert_allclose(scores.mean(), -5.68, atol=0.3)
    assert_allclose(scores.std(), 1.41, atol=0.4)


def test_parameters_that_overflow_are_not_published():
    X = np.random.default_rng(0).normal(size=(20, 3))
    with pytest.raises(ValueError, match="first parameters overflow float64; scale X"):
        GaussianBernoulliRBM(2, weight_scale=1e300, n_iter=1).fit(1e20 * X)
    init = np.full((2, 8), 1e300), None, None
    with pytest.raises(ValueError, match="parameters of init overflow float32"):
        small(FrankWolfeRBM, init=init).fit(binary_data(dtype=np.float32))


@pytest.mark.parametrize("scale", [1e160, 1e-300])
def test_bounds_whose_squares_overflow(scale):
    with pytest.raises(ValueError, match=r"lower and upper must lie within .* scale the data"):
        small(TAPRBM, visible="truncated_gaussian").fit(scale * np.eye(3))


# --------------------------------------------------------------------- kinds of columns


@every
def test_columns_that_are_no_numbers_are_named(Estimator):
    frame = pd.DataFrame({"a": [0.0, 1, 1], "b": pd.Categorical(["x", "y", "x"]), "c": list("uvw")})
    frame["d"] = pd.to_datetime(["2020-01-01"] * 3)
    with pytest.raises(
        ValueError, match=r"columns \['b', 'c', 'd'\] of X hold text.*OneHotEncoder"
    ):
        learn(small(Estimator), frame)
    for name in "bcd":
        with pytest.raises(ValueError, match=rf"columns \['{name}'\] of X hold text"):
            learn(small(Estimator), frame[["a", name]])
    with pytest.raises(ValueError, match=r"columns \['c'\] of X hold text"):  # not 'a', twice
        learn(small(Estimator), frame[["a", "a", "c"]])


@every
def test_dates_are_no_numbers(Estimator):
    with pytest.raises(ValueError, match="must have real numbers, got dtype datetime64"):
        learn(small(Estimator), np.full((3, 2), "2020-01-01", "M8[s]"))


@pytest.mark.parametrize("Estimator", [TAPRBM, DeepTAPMachine])
@pytest.mark.parametrize(
    "unit, message",
    [
        (units.Fractional(np.ones(3)), r"{side}=.*cannot learn such units.*'bernoulli'"),
        (units.Categorical(), r"TAP needs units that take a precision.*Categorical"),
    ],
    ids=["Fractional", "Categorical"],
)
@pytest.mark.parametrize("side", ["visible", "hidden"])
def test_units_that_are_not_learnt(Estimator, unit, message, side):
    with pytest.raises(ValueError, match=message.format(side=side)):
        small(Estimator, **{side: unit}).fit(np.eye(3))


def test_multiplicities_may_be_a_list():
    assert_array_equal(units.Fractional([1.5, 2]).multiplicities, [1.5, 2])
    for wrong in (1.5, ["a"], [0.0], [-1.0], [np.inf], [np.nan], [[1.0]]):
        with pytest.raises(ValueError, match="must be an array of positive numbers"):
            units.Fractional(wrong)


@pytest.mark.parametrize("side", ["visible", "hidden"])
@pytest.mark.parametrize("wrong", ["x", None, 3])
def test_units_of_given_parameters_are_checked(side, wrong):
    with pytest.raises(ValueError, match=f"{side}"):
        TAPRBM.from_parameters(np.eye(2), **{side: wrong})


def test_a_machine_is_no_list_of_layers():
    rbm = small(BernoulliRBM).fit(binary_data())
    for wrong in (rbm, 3, None):
        with pytest.raises(ValueError, match="must be a list of arrays"):
            DeepTAPMachine.from_parameters(wrong)


# ------------------------------------------------------------------ machines without units


def test_a_machine_without_hidden_units_answers_or_says_why_not():
    """Its visible units are independent, so that log Z is a sum over them."""
    X = binary_data(30, 3)
    rbm = FrankWolfeRBM(3, alpha=100.0, n_chains=10, random_state=0).fit(X)
    assert rbm.n_components_ == 0
    exact = np.logaddexp(0, rbm.intercept_visible_).sum()
    for method in ("exact", "tap", "tap3", "naive_mean_field", "adaptive_tap", "relaxed_bp"):
        assert rbm.log_partition(method) == pytest.approx(exact, rel=1e-12)
    with pytest.raises(ValueError, match="has none of one kind; log_partition"):
        rbm.log_partition("bethe")


def test_adaptive_tap_without_hidden_units_prints_nothing(capfd):
    rbm = FrankWolfeRBM(3, alpha=100.0, n_chains=10, random_state=0).fit(binary_data(30, 3))
    rbm.log_partition("adaptive_tap")
    assert capfd.readouterr() == ("", "")


# ------------------------------------------------------------------ time, memory, failures


def test_draws_do_not_grow_with_the_temperature(monkeypatch):
    """A unit that counts 100 000 times is drawn in one binomial, not in 100 000 draws."""
    drawn = []

    def counted(draw):
        def wrapper(rng, *args):
            drawn[-1] += 1
            return draw(rng, *args)

        return wrapper

    for name in ("uniform", "signed", "binomial"):
        monkeypatch.setattr(Rng, name, counted(getattr(Rng, name)))
    params = {"n_chains": 2, "n_restarts": 1, "n_gibbs_steps": 2, "early_stopping": False}
    for temperature in (10.0, 1e5):
        drawn.append(0)
        FrankWolfeRBM(1, temperature=temperature, random_state=0, **params).fit(binary_data(30, 3))
    assert 0 < drawn[1] <= 2 * drawn[0]  # 300 times as many, one by one


@pytest.mark.parametrize("RBM", RBMS)
def test_few_rows_need_few_chains_whatever_the_batch_size(RBM):
    X = binary_data(n=30)
    assert small(RBM, batch_size=10**8).partial_fit(X).starts_.shape[0] <= 100
    assert small(RBM, batch_size=10**8).fit(X).starts_.shape[0] == 30
    few = small(RBM, batch_size=10**8).fit(X).partial_fit(X[:5])
    assert few.starts_.shape[0] in (100, 5)  # more rows may come; 5 where each batch has its own
    given = RBM.from_parameters(np.eye(3), batch_size=10**8, random_state=0)
    assert given.starts_.shape[0] <= 1000
    rbm = small(RBM, batch_size=200).partial_fit(X)
    assert rbm.partial_fit(binary_data(n=400)).starts_.shape[0] == 200  # as many as rows ask for


@pytest.mark.parametrize("Estimator", [E for E in DENSITIES if hasattr(E, "log_partition")])
def test_a_failed_fit_leaves_the_seed_of_the_likelihood(Estimator):
    X = binary_data(30, 25)
    sizes = {"n_components": 25} if Estimator in RBMS else {}
    rbm = small(Estimator, random_state=None, **sizes).fit(X)
    before = rbm.log_partition("ais")
    with pytest.raises(ValueError):
        learn(rbm.set_params(verbose="no"), X)
    if "init" in rbm.get_params():
        with pytest.raises(ValueError, match="init has"):
            rbm.set_params(verbose=0, init=(np.ones((3, 3)), None, None)).fit(X)
    assert rbm.log_partition("ais") == before


# ---------------------------------------------------------------------- learning that diverges


def test_a_fit_that_ends_worse_than_independent_units_says_so():
    X = binary_data(n=200)
    for Estimator in (BernoulliRBM, TAPRBM):
        with pytest.warns(ConvergenceWarning, match="lower learning_rate"):
            small(Estimator, learning_rate=1000).fit(X)
    wine = load_wine().data  # columns from 0.13 to 1680 in one interval
    with pytest.warns(ConvergenceWarning, match="below that of independent columns"):
        TAPRBM(5, visible="truncated_gaussian", random_state=0).fit(wine)


@pytest.mark.parametrize("RBM", RBMS)
def test_no_fit_that_learns_is_said_to_diverge(RBM):
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        small(RBM, n_iter=20).fit(binary_data(n=200))
        small(RBM, n_iter=0).fit(binary_data(n=200))


@pytest.mark.parametrize("visible", ["gaussian", "truncated_gaussian"])
def test_units_that_are_compared_with_are_fitted_to_all_rows(visible):
    """Columns that hardly vary, of which the few rows that are shown vary less still."""
    X = (np.random.default_rng(0).random((2000, 30)) < 0.002) * 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        TAPRBM(5, visible=visible, learning_rate=1e-4, n_iter=2, random_state=0).fit(X)


def test_divergence_is_told_with_early_stopping_too():
    with pytest.warns(ConvergenceWarning, match="lower learning_rate"):
        small(BernoulliRBM, learning_rate=1000, early_stopping=True).fit(binary_data(n=200))


def test_deep_machines_of_any_size_can_be_fitted():
    """Two hidden layers, neither of which can be enumerated."""
    DeepTAPMachine((30, 20), n_iter=1, n_iter_pretrain=1, random_state=0).fit(binary_data())


@pytest.mark.parametrize("Estimator", [RBM, TAPRBM])
def test_one_row_does_not_tell_the_scale_of_real_columns(Estimator):
    """Its variance, 0, would give a precision of 1e6; counts and bits have no scale."""
    row = np.array([[5.0, 3.0, 8.0]])
    for method in ("fit", "partial_fit"):
        rbm = Estimator(2, visible="gaussian", random_state=0)
        with pytest.raises(ValueError, match="X has 1 sample, and the scale of real columns"):
            getattr(rbm, method)(row)
        getattr(rbm, method)(np.concatenate([row, row + 1]))
    RBM(2, visible=Poisson(), random_state=0).partial_fit(row)
    several = np.concatenate([row, row + 1])  # whose weights may have a sum of 1
    Estimator(2, visible="gaussian", random_state=0).fit(several, sample_weight=[0.5, 0.5])


def test_init_that_is_no_row_is_told():
    rbm = RBM(2, random_state=0).fit(np.eye(3))
    with pytest.raises(ValueError, match=r"init must be complete rows .* contains NaN"):
        rbm.sample(2, init=np.full((2, 3), np.nan))


@pytest.mark.parametrize("visible", ["bernoulli", "gaussian"])
def test_a_diagnosis_of_constant_columns(visible):
    X = np.zeros((50, 3))
    rbm = RBM(2, visible=visible, random_state=0).fit(X)
    found = diagnose(rbm, X, random_state=0)
    assert "nan" not in str(found)
