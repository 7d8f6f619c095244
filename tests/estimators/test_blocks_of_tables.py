"""Tables whose encoded columns are too many to be dense in all rows at once."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from skrbm import CategoricalRBM, TabularRBM
from skrbm.sequences import design

N_ROWS, N_SITES, N_LETTERS = 12_000, 60, 21
DENSE = 4 * N_ROWS * N_SITES * N_LETTERS  # bytes of all columns in float32


@pytest.fixture(scope="module")
def X():
    codes = np.random.default_rng(0).integers(0, N_LETTERS, (N_ROWS, N_SITES))
    return codes.astype(np.int8)


@pytest.fixture(scope="module")
def holes(X):
    return np.where(np.random.default_rng(1).random(X.shape) < 0.02, np.nan, X).astype(np.float32)


@pytest.fixture(scope="module")
def rbm(X):
    return machine(X)


def machine(X, **params):
    categories = [range(N_LETTERS)] * N_SITES
    return CategoricalRBM(4, n_iter=1, categories=categories, random_state=0, **params).fit(X[:500])


CALLS = {
    "predict": lambda rbm, X, holes: rbm.predict(X),
    "impute": lambda rbm, X, holes: rbm.impute(holes, n_steps=1),
    "sample": lambda rbm, X, holes: rbm.sample(N_ROWS, n_steps=1, init=X),
    "sample given": lambda rbm, X, holes: rbm.sample(given=holes, n_steps=1),
    "denoise": lambda rbm, X, holes: rbm.denoise(X, substitution_probability=0.1, n_steps=1),
    "design": lambda rbm, X, holes: design(rbm, N_ROWS, n_steps=1),
}


@pytest.mark.law
@pytest.mark.parametrize("name", CALLS)
def test_columns_of_all_rows_are_never_dense_together(rbm, X, holes, name):
    rbm.log_partition()  # which is kept
    tracemalloc.start()
    try:
        CALLS[name](rbm, X, holes)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < DENSE


@pytest.mark.law
def test_results_do_not_depend_on_the_block_of_a_row(rbm, X, holes):
    """Where nothing is drawn: the last rows are in another block among all rows than alone."""
    few = slice(N_ROWS - 50, None)
    assert_array_equal(rbm.predict(X)[few], rbm.predict(X[few]))
    assert_array_equal(rbm.sample(N_ROWS, n_steps=0, init=X), X)
    for found in (rbm.impute(holes, n_steps=1), rbm.sample(given=holes, n_steps=1)):
        known = ~np.isnan(holes)
        assert_array_equal(found[known], X[known])
        assert set(found[~known].tolist()) <= set(range(N_LETTERS))


def blocks_of_table():
    """Yield three blocks of a table, each with values that the others do not have."""
    for k in range(3):
        rng, n = np.random.default_rng(k), 60
        yield pd.DataFrame(
            {
                "stars": rng.integers(5 * k, 5 * k + 5, n),
                "town": rng.choice([f"t{3 * k + i}" for i in range(3)], n),
                "x": rng.normal(size=n) + k,
                "two": rng.integers(k, k + 2, n),
                "one": np.full(n, 4 - k),
            }
        )


def test_values_of_columns_are_those_of_all_blocks():
    whole = pd.concat(list(blocks_of_table()), ignore_index=True)
    rbm = TabularRBM(2, n_iter=1, random_state=0)
    in_blocks, at_once = (rbm.fit(X)._encoder.table for X in (blocks_of_table, whole))
    kinds = ["rating", "categorical", "real", "rating", "discrete"]
    assert [column.kind for column in in_blocks] == kinds
    for one, other in zip(in_blocks, at_once, strict=True):
        assert one.kind == other.kind
        if one.is_named:
            assert one.values.tolist() == other.values.tolist()
        else:
            assert (one.lower, one.upper) == (other.lower, other.upper)
