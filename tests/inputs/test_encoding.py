"""Encoding of columns of categories, against scikit-learn's encoder, and of tables."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import BaseEstimator
from sklearn.preprocessing import OneHotEncoder

from skrbm.exceptions import DataRangeWarning
from skrbm.inputs import CategoryEncoder, TableEncoder, columns_of, one_hot
from skrbm.units import Binomial

TABLES = {
    "text": np.array([["A", "x"], ["C", "y"], ["A", "z"]]),
    "bytes": np.array([[3, 1], [0, 1], [3, 7]], dtype=np.uint8),
    "bool": np.array([[True, False], [False, False], [True, True]]),
    "float": np.array([[0.5, 1], [-2.0, 1], [0.5, 3]]),
    "objects": np.array([["A", 1], ["C", 0], ["A", 2]], dtype=object),
}


def fitted(X, **params):
    columns = columns_of(BaseEstimator(), X, reset=True)
    return CategoryEncoder(**params).fit(X, columns), columns


def codes_of(encoder, columns):
    pairs = zip(encoder.table, columns, strict=True)
    return np.stack([column.encode(values)[0] for column, values in pairs], axis=1)


@pytest.mark.parametrize("name", TABLES)
def test_columns_are_those_of_scikit_learn(name):
    X = TABLES[name]
    encoder, columns = fitted(X)
    rows = encoder.encode(columns)
    assert rows.format == "csr" and rows.dtype == np.uint8 and rows.has_canonical_format
    other = OneHotEncoder().fit(X)
    assert_array_equal(rows.toarray(), other.transform(X).toarray())
    for mine, theirs in zip(encoder.categories_, other.categories_, strict=True):
        assert_array_equal(mine, theirs)
    back = encoder.decode([rows.toarray().astype(np.float32)])
    assert_array_equal(back, X)
    assert back.dtype == X.dtype


def test_probabilities_are_decoded_as_the_most_probable_values():
    xp = pytest.importorskip("array_api_strict")
    encoder, _ = fitted(TABLES["text"])
    P = np.array([[0.4, 0.6, 0.2, 0.5, 0.3]])
    for rows in (P, xp.asarray(P)):
        assert_array_equal(encoder.decode([rows]), [["C", "y"]])


def test_missing_values_are_nan_in_all_columns_of_a_site():
    codes = np.array([[0, -1], [2, 1], [-1, -1]])
    expected = np.full((3, 5), np.nan)
    expected[0, :3], expected[1] = [1, 0, 0], [0, 0, 1, 0, 1]
    rows = one_hot(codes, (3, 2))
    assert rows.dtype == np.float32 and rows.nnz == 1 + 2 + 2 + 3 + 2
    assert_array_equal(rows.toarray(), expected)


def test_missing_values_of_objects():
    pd = pytest.importorskip("pandas")
    column = np.array(["a", None, np.nan, pd.NA, pd.NaT, "b"], dtype=object)[:, None]
    encoder, columns = fitted(column)
    assert_array_equal(codes_of(encoder, columns)[:, 0], [0, -1, -1, -1, -1, 1])


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_categories_that_a_dtype_declares(library):
    lib, values = pytest.importorskip(library), ["low", "high", "low", None]
    if library == "pandas":
        column = lib.Categorical(values, categories=["low", "middle", "high"])
        frame = lib.DataFrame({"level": column, "n": lib.array([3, None, 1, 3], dtype="Int64")})
    else:
        column = lib.Series(values, dtype=lib.Enum(["low", "middle", "high"]))
        frame = lib.DataFrame({"level": column, "n": [3, None, 1, 3]})
    encoder, columns = fitted(frame)
    assert_array_equal(encoder.categories_[0], ["low", "middle", "high"])
    assert_array_equal(encoder.categories_[1], [1, 3])
    assert encoder.categories_[1].dtype.kind in "iO"
    assert_array_equal(codes_of(encoder, columns), [[0, 1], [2, -1], [0, 0], [-1, 1]])


def test_given_categories_keep_their_order():
    encoder, columns = fitted(np.array([["b"], ["a"]]), categories=[["c", "b", "a"]])
    assert_array_equal(codes_of(encoder, columns), [[1], [2]])
    encoder, columns = fitted(np.array([[5.0], [1.0]]), categories=[[5, 7, 1]])
    assert_array_equal(codes_of(encoder, columns), [[0], [2]])


@pytest.mark.parametrize("new", ["Q", 1.5])
def test_unknown_values(new):
    X = TABLES["text" if new == "Q" else "bytes"]
    row = [np.array([new]), X[:1, 1]]
    with pytest.raises(ValueError, match=r"unknown categories .* in column 0"):
        fitted(X, handle_unknown="error")[0].encode(row)
    with pytest.warns(DataRangeWarning, match="column 0 of X"):
        found = fitted(X)[0].encode(row).toarray()
    assert_array_equal(np.isnan(found[0]), np.arange(found.shape[1]) < 2)
    assert_array_equal(fitted(X, handle_unknown="ignore")[0].encode(row).toarray(), found)


@pytest.mark.parametrize(
    "X, categories",
    [
        ([["a", 1], [None, 2]], [["a"]]),
        ([["a"], ["b"]], [["a", "a"]]),
        ([["a"], ["b"]], [["a", None]]),
        ([["a"], ["b"]], [["a", np.inf]]),
        ([["a"], ["b"]], [[]]),
        ([[None], [np.nan]], "auto"),
        ([["a"], [1]], "auto"),
        ([[1.0], [np.inf]], "auto"),
        (np.array([["2020-01-01"]], "M8[D]"), "auto"),
    ],
)
def test_columns_that_cannot_be_encoded(X, categories):
    with pytest.raises((TypeError, ValueError), match=r"categories|column|Input X"):
        X = X if isinstance(X, np.ndarray) else np.array(X, object)
        fitted(X, categories=categories)


# ------------------------------------------------------------------------------- tables


def table(*columns, **params):
    columns = [np.asarray(column) for column in columns]
    return TableEncoder(**params).fit(None, columns), columns


def test_columns_of_equal_units_make_one_part():
    stars, points = np.array([1, 2, 3, 4, 5, 1]), np.array([0, 7, 3, 2, 1, 5])
    found, columns = table(stars, points, stars[::-1])
    assert found.unit.units == (Binomial(4), Binomial(7))
    X = found.encode(columns)
    assert_array_equal(X, np.stack([stars - 1, stars[::-1] - 1, points], axis=1))
    assert_array_equal(found.decode([X]), np.stack(columns, axis=1))


def test_columns_of_one_value():
    found, columns = table([True, True, True], [0.5, 1.5, 2.5], ["a", "a", "a"])
    assert [column.kind for column in found.table] == ["binary", "real", "categorical"]
    X = found.encode(columns).toarray()
    X[:, 0] = [0, 1, 1]  # the unit has two values
    assert list(found.decode([X])[:, 0]) == [True] * 3
    assert table([3, 3, 3], kinds={0: "rating"})[0].unit.units == (Binomial(1),)
