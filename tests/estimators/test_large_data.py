"""Estimators of data that are read in blocks, such as files larger than memory."""

import numpy as np
import pytest
import scipy.sparse as sp
from _estimators import (
    DENSITIES,
    RBMS,
    binary_data,
    read_only,
    small,
)
from _exact import Exact
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.utils import get_tags

from skrbm import (
    RBM,
    TAPRBM,
    CategoricalRBM,
    GaussianBernoulliRBM,
    RBMImputer,
    RBMOutlierDetector,
    TabularRBM,
)
from skrbm.inputs import _block_rows as block_rows
from skrbm.inputs import as_blocks

METHODS = ["transform", "free_energy", "score_samples", "predict"]


def batches(X=None, size=17):
    X = binary_data() if X is None else X
    return lambda: (X[i : i + size] for i in range(0, len(X), size))


# ------------------------------------------------------------------------------ learning


@pytest.mark.parametrize("Estimator", RBMS)
def test_fits_from_files_arrays_and_functions_learn(Estimator, tmp_path):
    X = binary_data()
    np.save(tmp_path / "0.npy", X)
    for data in (tmp_path / "0.npy", as_blocks(X, 17), batches()):
        rbm = small(Estimator).fit(data)
        assert rbm.n_iter_ == 3 and rbm.n_features_in_ == 8
        assert_allclose(rbm.visible_means_, X.mean(axis=0), rtol=1e-12)
        assert_array_equal(rbm.components_, small(Estimator).fit(data).components_)
        assert rbm.partial_fit(data) is rbm
        assert rbm.set_params(warm_start=True).fit(data).n_iter_ == 3 + 1 + 3


def hdf5(X, folder, chunks):
    h5py = pytest.importorskip("h5py", reason="h5py is optional, and reads these data")
    return h5py.File(folder / "rows.h5", "w").create_dataset("rows", data=X, chunks=chunks)


def zarr_array(X, folder, chunks):
    zarr = pytest.importorskip("zarr", reason="zarr is optional, and reads these data")
    path, options = str(folder / "rows.zarr"), {"shape": X.shape, "dtype": X.dtype}
    array = zarr.open(path, mode="w", chunks=chunks, **options)
    array[:] = X
    return array


@pytest.mark.parametrize(
    "stored, chunks",
    [(hdf5, None), (hdf5, (16, 3)), (zarr_array, (16, 3))],
    ids=["hdf5", "hdf5-chunks", "zarr"],
)
@pytest.mark.parametrize("Estimator", RBMS)
def test_datasets_are_read_in_blocks(Estimator, stored, chunks, tmp_path, monkeypatch):
    X = binary_data().astype(np.uint8)
    data = stored(X, tmp_path, chunks)
    # None of these is called: the dataset is never read as a whole.
    monkeypatch.setattr(type(data), "__array__", None)
    rbm = small(Estimator, early_stopping=True).fit(data)
    assert_allclose(rbm.visible_means_, X.mean(axis=0), rtol=1e-6)
    for method in METHODS:
        assert_allclose(getattr(rbm, method)(data), getattr(rbm, method)(X), rtol=1e-6)
    rbm.partial_fit(data)


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

    Each block has its own random numbers.
    """
    rbm, X = small(Estimator).fit(binary_data()), with_holes(binary_data(24))
    options = {
        "n_steps": 2000,
        "random_state": 0,
        "method": "gibbs" if Estimator is RBM else "auto",
    }
    found = rbm.impute(batches(X, 10), **options)
    rows = [Exact(rbm.machine_, observed=row).mean(0) for row in X]
    assert_allclose(found, rows, atol=0.2 if Estimator is RBM else 0.05)
    assert_array_equal(found, rbm.impute(batches(X, 10), **options))
    twice = rbm.impute(batches(np.repeat(X[:1], 2, axis=0), 1), **options | {"n_steps": 50})
    assert (twice[0] == twice[1]).all() == (Estimator is TAPRBM)


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


@pytest.mark.parametrize("Estimator", [RBM, CategoricalRBM, TabularRBM])
def test_what_needs_all_rows_says_so(Estimator):
    rbm = small(Estimator).fit(binary_data())
    with pytest.raises(TypeError, match="needs all rows in one array"):
        rbm.gibbs(batches())
    for wrapper in (RBMImputer(rbm), RBMOutlierDetector(rbm)):
        with pytest.raises(TypeError, match="needs all rows in one array"):
            wrapper.fit(batches())
