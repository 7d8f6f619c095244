"""Estimators of data that are read in blocks, such as files larger than memory."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from _estimators import (
    BINARY,
    DENSITIES,
    RBMS,
    binary_data,
    log_likelihoods,
    read_only,
    small,
)
from _exact import Exact
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import mannwhitneyu
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils import get_tags

from skrbm import (
    RBM,
    TAPRBM,
    ConditionalRBM,
    DeepTAPMachine,
    FrankWolfeRBM,
    GaussianBernoulliRBM,
    TabularRBM,
)
from skrbm.arrays import is_foreign, to_numpy
from skrbm.exceptions import DataRangeWarning
from skrbm.inputs import _block_rows as block_rows
from skrbm.inputs import as_blocks

METHODS = ["transform", "free_energy", "score_samples", "predict"]


def batches(X=None, size=17):
    X = binary_data() if X is None else X
    return lambda: (X[i : i + size] for i in range(0, len(X), size))


class Counted:
    """An iterable of batches that counts how often it is read."""

    n_passes = 0

    def __iter__(self):
        self.n_passes += 1
        return batches()()


# ------------------------------------------------------------------------------ learning


@pytest.mark.parametrize("Estimator", RBMS)
def test_fits_from_files_arrays_and_functions_learn(Estimator, tmp_path):
    X = binary_data()
    np.save(tmp_path / "0.npy", X[:20])
    np.save(tmp_path / "1.npy", X[20:])
    files = [tmp_path / "0.npy", tmp_path / "1.npy"]
    for data in (files, as_blocks(X, 17), batches()):
        rbm = small(Estimator).fit(data)
        assert rbm.n_iter_ == 3 and rbm.n_features_in_ == 8
        assert_allclose(rbm.visible_means_, X.mean(axis=0), rtol=1e-12)
        assert_array_equal(rbm.components_, small(Estimator).fit(data).components_)
        assert rbm.partial_fit(data) is rbm
        assert rbm.set_params(warm_start=True).fit(data).n_iter_ == 3 + 1 + 3


def test_each_pass_is_one_epoch_after_the_first():
    source = Counted()
    RBM(3, n_iter=4, random_state=0).fit(source)
    assert source.n_passes == 1 + 1 + 4  # the first batch, the sums, and the epochs


@pytest.mark.parametrize("Estimator", RBMS)
def test_fits_stop_early(Estimator):
    rbm = small(Estimator, early_stopping=True, validation_fraction=0.25, n_iter=4)
    assert "score" in rbm.fit(batches()).history_


def test_integers_and_single_precision_are_kept():
    X = binary_data()
    for dtype, expected in ((np.uint8, np.float32), (np.float32, np.float32), (float, float)):
        rbm = RBM(3, n_iter=1).fit(batches(X.astype(dtype)))
        assert rbm.components_.dtype == expected


@pytest.mark.parametrize("Estimator", [E for E in RBMS if get_tags(E()).input_tags.sparse])
def test_sparse_batches_are_dense_ones(Estimator, monkeypatch):
    """Bit by bit, with pools of two blocks; of some that are dense too."""
    monkeypatch.setattr(block_rows, "_POOL_BYTES", 1)
    X = binary_data() * (1.0 if Estimator is GaussianBernoulliRBM else 0.5)  # grey levels
    dense = small(Estimator, early_stopping=True).fit(batches(X))
    for some in (1, 2):
        data = lambda n=some: (  # noqa: E731
            sp.csr_array(part) if i % n == 0 else part for i, part in enumerate(batches(X)())
        )
        rbm = small(Estimator, early_stopping=True).fit(data)
        assert_array_equal(rbm.components_, dense.components_)
        assert_array_equal(rbm.transform(data), dense.transform(X))


def test_missing_values_are_learnt_from():
    X = binary_data()
    X[::3, 2] = np.nan
    rbm = small(RBM).fit(batches(X))
    assert_allclose(rbm.visible_means_, np.nanmean(X, axis=0))
    assert_allclose(rbm.score_samples(batches(X)), rbm.score_samples(X))


@pytest.mark.arrays
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("Estimator", RBMS)
def test_batches_of_another_library_stay_there(Estimator, missing):
    xp = pytest.importorskip("array_api_strict", reason="it is the other library")
    X = binary_data()
    X[::3, 2] = np.nan if missing else X[::3, 2]
    rbm = small(Estimator, early_stopping=True).fit(lambda: map(xp.asarray, batches(X)()))
    assert is_foreign(rbm.components_)
    assert is_foreign(rbm.transform(lambda: map(xp.asarray, batches(X)())))
    assert_allclose(to_numpy(rbm.visible_means_), np.nanmean(X, axis=0), rtol=1e-6)


@pytest.mark.parametrize("Estimator", BINARY)
def test_thresholds_are_those_of_data_in_memory(Estimator):
    X = np.random.default_rng(0).random((60, 8))
    rbm = small(Estimator, binarize=0.7)
    if Estimator is not DeepTAPMachine:
        assert_allclose(rbm.fit(batches(X)).visible_means_, (X > 0.7).mean(axis=0))
        with pytest.warns(DataRangeWarning, match="values from 0.0"):
            small(Estimator).fit(batches(3 * X))


@pytest.mark.law
@pytest.mark.parametrize("is_sorted", [False, True])
def test_fits_are_as_good_as_those_in_memory(monkeypatch, is_sorted):
    """Exact log-likelihoods of 16 fits by blocks of 100 rows, of which 5 are shuffled together,
    and of 16 fits in memory. A rank test errs with probability 1e-4; the means have gained 0.2
    nats over independent bits, and a difference of half of that would be found. Batches of sorted
    rows are less alike than batches of all rows, which costs 0.05 nats (standard error 0.007)."""
    X = binary_data(2000)
    X = X[np.lexsort(X.T[::-1])] if is_sorted else X
    monkeypatch.setattr(block_rows, "_POOL_BYTES", X[:500].nbytes)

    def fits(data):
        for seed in range(16):
            rbm = RBM(4, n_iter=8, batch_size=50, random_state=seed).fit(data)
            yield log_likelihoods(rbm, X).mean()

    memory, blocks = (np.array(list(fits(data))) for data in (X, as_blocks(X, 100)))
    assert is_sorted or mannwhitneyu(memory, blocks).pvalue > 1e-4
    assert abs(memory.mean() - blocks.mean()) < 0.1


# ------------------------------------------------------------------- fitted estimators


@pytest.mark.filterwarnings("ignore::skrbm.exceptions.LikelihoodWarning")
@pytest.mark.parametrize("Estimator", DENSITIES)
@pytest.mark.parametrize("method", METHODS)
def test_results_are_those_of_all_rows(Estimator, method):
    estimator, X = read_only(Estimator), binary_data()
    expected = getattr(estimator, method)(X)
    for data in (batches(), batches()(), as_blocks(X, 25)):
        found = getattr(estimator, method)(data)
        assert found.dtype == expected.dtype
        assert_allclose(found, expected, rtol=1e-10, atol=1e-12)
    if method == "score_samples":
        assert_allclose(estimator.score(batches()), expected.mean())
        weights = np.arange(60.0)
        assert_allclose(
            estimator.score(batches(), sample_weight=weights),
            np.average(expected, weights=weights),
        )


def with_holes(X):
    X = X.copy()
    X[np.arange(len(X)), np.arange(len(X)) % X.shape[1]] = np.nan
    return X


@pytest.mark.parametrize("Estimator", [TAPRBM, RBM])
def test_missing_values_are_filled_in_by_blocks(Estimator):
    """By chains with an error of 0.5 / sqrt(1000 / 2) or less, of which 0.2 is nine times as much.

    These go on with other random numbers in each block.
    """
    rbm, X = small(Estimator).fit(binary_data()), with_holes(binary_data(24))
    options = {"n_steps": 2000, "random_state": 0}
    found = rbm.impute(batches(X, 10), **options)
    rows = [Exact(rbm.machine_, observed=row).mean(0) for row in X]
    assert_allclose(found, rows, atol=0.2 if Estimator is RBM else 0.05)
    assert_array_equal(found, rbm.impute(batches(X, 10), **options))
    twice = rbm.impute(batches(np.repeat(X[:1], 2, axis=0), 1), **options | {"n_steps": 50})
    assert (twice[0] == twice[1]).all() == (Estimator is TAPRBM)


@pytest.mark.parametrize("Estimator", [RBM, GaussianBernoulliRBM, TabularRBM])
def test_missing_values_are_drawn_by_blocks(Estimator):
    """Observed values stay; equal rows in two blocks get draws of their own, if these are real."""
    rbm, X = small(Estimator).fit(binary_data()), with_holes(np.repeat(binary_data(24)[:1], 40, 0))
    found = rbm.sample(given=batches(X, 20), n_steps=20, random_state=0)
    assert found.shape == X.shape and not np.isnan(np.asarray(found, float)).any()
    known = ~np.isnan(X)
    assert_allclose(np.asarray(found, float)[known], X[known])
    assert_array_equal(found, rbm.sample(given=batches(X, 20), n_steps=20, random_state=0))
    assert Estimator is not GaussianBernoulliRBM or (found[:20] != found[20:])[~known[:20]].all()


def test_batches_without_rows_are_passed_over():
    X = binary_data()
    data = lambda: [X[:0], X[:30], X[30:30], X[30:]]  # noqa: E731
    rbm = RBM(3, n_iter=1, random_state=0).fit(data)
    assert_allclose(rbm.transform(data), rbm.transform(X))


def test_pipelines_give_arrays_to_the_estimator_as_ever():
    X = binary_data()
    pipeline = make_pipeline(MinMaxScaler(), RBM(3, n_iter=1, random_state=0))
    assert pipeline.fit(X).transform(X).shape == (60, 3)


# ------------------------------------------------------------------------------- errors


@pytest.mark.parametrize("Estimator", RBMS)
def test_errors_of_blocks_say_which(Estimator):
    X = binary_data()
    nan, wide, text = X.copy(), np.hstack([X, X]), X.astype(object)
    nan[40, 1], text[40, 1] = np.inf, "a"
    rbm = small(Estimator)
    with pytest.raises(ValueError, match=r"block 2 of X.*infinity"):
        rbm.fit(batches(nan))
    with pytest.raises(ValueError, match=r"block 1 of X: .* 16 features"):
        rbm.fit(lambda: [X, wide])
    with pytest.raises(ValueError, match="block 2 of X"):
        rbm.fit(batches(text))
    with pytest.raises(ValueError, match=r"block 0 of X.*2D array"):
        rbm.fit(lambda: iter(X))
    with pytest.raises(ValueError, match="no rows"):
        rbm.fit(lambda: [])


def test_a_list_of_arrays_is_one_of_batches():
    X = binary_data(n=60)
    params = {"n_components": 3, "n_iter": 2, "random_state": 0}
    one = RBM(**params).fit([X[:20], X[20:45], X[45:]])
    other = RBM(**params).fit(lambda: iter([X[:20], X[20:45], X[45:]]))
    assert_array_equal(one.components_, other.components_)


def test_functions_without_batches_and_groups_of_datasets_say_what_to_give(tmp_path):
    with pytest.raises(ValueError, match="returns NoneType; it must return an iterator"):
        RBM(3).fit(lambda: None)
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        file["X"] = binary_data(n=20)
        with pytest.raises(ValueError, match="X is a File, which holds datasets by name"):
            RBM(3).fit(file)


def test_iterators_and_weights_are_refused():
    X = binary_data()
    with pytest.raises(TypeError, match="read only once"):
        RBM(3).fit(batches()())
    with pytest.raises(ValueError, match="sample_weight is not for data that are read in blocks"):
        RBM(3).fit(batches(), sample_weight=np.ones(60))
    rbm = RBM(3, n_iter=1, random_state=0).fit(X)
    with pytest.raises(ValueError, match="features"):
        rbm.transform(batches(X[:, 1:]))
    with pytest.raises(ValueError, match="no rows"):
        rbm.transform(lambda: [])


@pytest.mark.parametrize("Estimator", [DeepTAPMachine, FrankWolfeRBM, ConditionalRBM])
def test_estimators_that_need_all_rows_say_so(Estimator):
    y = [np.zeros(60)] if Estimator is ConditionalRBM else []
    with pytest.raises(TypeError, match=f"{Estimator.__name__} needs all rows in one array"):
        small(Estimator).fit(batches(), *y)


def test_a_source_that_gives_fewer_rows_later_keeps_the_last_parameters():
    X, passes = binary_data(), itertools.count()
    rbm = RBM(3, n_iter=9, random_state=0)
    with pytest.raises(ValueError, match="gave 60 rows at first and 30 when it was read again"):
        rbm.fit(lambda: [X] if next(passes) < 4 else [X[:30]])
    assert rbm.n_iter_ == 2 and np.isfinite(rbm.components_).all()
