"""Estimators of Dask arrays, whose results are Dask arrays; skipped where Dask is missing."""

import numpy as np
import pytest
from _estimators import DENSITIES, RBMS, binary_data, read_only, small
from numpy.testing import assert_allclose, assert_array_equal

da = pytest.importorskip("dask.array", reason="Dask is optional, and these data are its arrays")


def chunked(X, chunks=((20, 0, 25, 15), (3, 5))):
    return da.from_array(X, chunks=chunks)


@pytest.mark.parametrize("Estimator", RBMS)
def test_dask_arrays_are_read_chunk_by_chunk(Estimator):
    X = binary_data()
    sizes = []

    def seen(block):
        sizes.append(block.shape)
        return block

    data = chunked(X).rechunk({1: -1}).map_blocks(seen, meta=X[:0])
    rbm = small(Estimator).fit(data)
    assert max(sizes) == (25, 8)
    assert_allclose(rbm.visible_means_, X.mean(axis=0))
    rbm.partial_fit(chunked(X))


@pytest.mark.filterwarnings("ignore::skrbm.exceptions.LikelihoodWarning")
@pytest.mark.parametrize("method", ["transform", "score_samples", "free_energy", "predict"])
@pytest.mark.parametrize("Estimator", DENSITIES)
def test_results_are_lazy_dask_arrays(Estimator, method):
    estimator, X = read_only(Estimator), binary_data()
    n_read = []

    def seen(block):
        n_read.append(len(block))
        return block

    data = chunked(X).rechunk({1: -1}).map_blocks(seen, meta=X[:0])
    found = getattr(estimator, method)(data)
    expected = getattr(estimator, method)(X)
    assert not n_read
    assert isinstance(found, da.Array)
    assert found.shape == expected.shape and found.dtype == expected.dtype
    assert found.chunks[0] == data.chunks[0]
    assert_allclose(found.compute(), expected, rtol=1e-10, atol=1e-12)
    assert sum(n_read) == len(X)


@pytest.mark.parametrize("draws", [False, True])
def test_missing_values_are_filled_in_as_those_of_blocks_in_order(draws):
    """With the same random numbers, whichever chunk is computed first."""
    X = binary_data()
    X[::2, 1] = np.nan
    rbm, options = small(RBMS[0]).fit(binary_data()), {"n_steps": 20, "random_state": 0}

    def filled(X):
        return rbm.sample(given=X, **options) if draws else rbm.impute(X, **options)

    data = chunked(X)
    found, ends = filled(data), np.cumsum(data.chunks[0])[:-1]
    assert isinstance(found, da.Array)
    expected = filled(lambda: np.split(X, ends))
    assert set(expected[::2, 1]) == {0, 1} or not draws
    assert_array_equal(found[20:].compute(), expected[20:])
    assert_array_equal(found.compute(), expected)


def test_unknown_numbers_of_rows_are_read():
    X = binary_data()
    data = chunked(X).rechunk({1: -1})
    some = data[data[:, 0] > 0]
    assert np.isnan(some.shape[0])
    kept = X[X[:, 0] > 0]
    rbm = small(RBMS[0]).fit(some)
    assert_allclose(rbm.visible_means_, kept.mean(axis=0))
    assert_allclose(rbm.transform(some).compute(), rbm.transform(kept))
    assert_allclose(rbm.score(some), rbm.score(kept))
