"""Columns of categories: against scikit-learn's encoders, and values that cannot be encoded."""

import warnings
from decimal import Decimal

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import BaseEstimator
from sklearn.preprocessing import OneHotEncoder

from skrbm.exceptions import DataRangeWarning
from skrbm.inputs import CategoryEncoder, columns_of, one_hot

TABLES = {
    "text": np.array([["A", "x"], ["C", "y"], ["A", "z"]]),
    "bytes": np.array([[3, 1], [0, 1], [3, 7]], dtype=np.uint8),
    "negative": np.array([[-3, 1], [0, 1], [-3, 7]]),
    "bool": np.array([[True, False], [False, False], [True, True]]),
    "float": np.array([[0.5, 1], [-2.0, 1], [0.5, 3]]),
    "objects": np.array([["A", 1], ["C", 0], ["A", 2]], dtype=object),
}


def fitted(X, **params):
    columns = columns_of(BaseEstimator(), X, reset=True)
    return CategoryEncoder(**params).fit(X, columns), columns


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
    encoder, _ = fitted(TABLES["text"])
    assert_array_equal(encoder.decode([np.array([[0.4, 0.6, 0.2, 0.5, 0.3]])]), [["C", "y"]])


def test_text_is_decoded_to_numpy_from_rows_of_any_library():
    xp = pytest.importorskip("array_api_strict")
    encoder, columns = fitted(TABLES["text"])
    rows = xp.asarray(encoder.encode(columns).toarray())
    assert_array_equal(encoder.decode([rows]), TABLES["text"])


def test_missing_values_are_nan_in_all_columns_of_a_site():
    codes = np.array([[0, -1], [2, 1], [-1, -1]])
    expected = np.full((3, 5), np.nan)
    expected[0, :3], expected[1] = [1, 0, 0], [0, 0, 1, 0, 1]
    rows = one_hot(codes, (3, 2))
    assert rows.dtype == np.float32 and rows.nnz == 1 + 2 + 2 + 3 + 2
    assert_array_equal(rows.toarray(), expected)


def test_all_marks_of_missing_values_are_known():
    pd = pytest.importorskip("pandas")
    column = np.array(["a", None, np.nan, pd.NA, pd.NaT, "b"], dtype=object)[:, None]
    encoder, columns = fitted(column)
    assert encoder.sizes == (2,)
    assert_array_equal(
        np.isnan(encoder.encode(columns).toarray()[:, 0]), [False, True, True, True, True, False]
    )


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
    assert_array_equal(np.nan_to_num(encoder.encode(columns).toarray(), nan=9)[[0, 3]], [
        [1, 0, 0, 0, 1], [9, 9, 9, 0, 1]
    ])  # fmt: skip


def test_whole_numbers_beside_missing_ones_stay_so():
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame({"a": pd.array([3, None, 1, 3], dtype="Int64"), "b": [0.5, 1.5, None, 0.5]})
    columns = [np.asarray(X["a"].astype(float)), np.asarray(X["b"])]
    encoder = CategoryEncoder().fit(X, columns)
    assert [values.dtype.kind for values in encoder.categories_] == ["i", "f"]
    assert_array_equal(encoder.codes(columns), [[1, 0], [-1, 1], [0, -1], [1, 0]])


def test_given_categories_keep_their_order():
    X = np.array([["b"], ["a"]])
    encoder, columns = fitted(X, categories=[["c", "b", "a"]])
    assert_array_equal(encoder.encode(columns).toarray(), [[0, 1, 0], [0, 0, 1]])
    numbers, columns = fitted(np.array([[5], [1]]), categories=[[5, 7, 1]])
    assert_array_equal(numbers.encode(columns).toarray(), [[1, 0, 0], [0, 0, 1]])


@pytest.mark.parametrize(
    "X, warns",
    [
        (np.array([[-1, 0], [3, 2]]), True),
        (np.array([[0, 0], [3, 2]]), False),
        (np.array([[-2, -1], [3, 2]]), False),
        (np.array([[-1, 0], [1, 1]]), False),  # no, no opinion, yes
        (np.array([["-1", "0"], ["3", "2"]]), False),
    ],
)
def test_codes_with_minus_one(X, warns):
    """It is mostly what marks missing values, and then no category."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        encoder, _ = fitted(X)
    assert [w.category for w in caught] == [DataRangeWarning] * warns
    assert all("categories=[range(4)] * 2" in str(w.message) for w in caught)
    assert encoder.sizes == (2, 2)


@pytest.mark.parametrize("divisor, n, warns", [(7, 30, True), (1, 30, False), (7, 20, False)])
def test_columns_that_look_real(divisor, n, warns):
    """Each number would be a category; few of them may be, and so may whole numbers."""
    X = np.column_stack([np.arange(n) % 2, np.arange(n) / divisor])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        encoder, _ = fitted(X)
    assert [w.category for w in caught] == [DataRangeWarning] * warns
    assert all("columns [1] of X" in str(w.message) for w in caught)
    assert encoder.sizes == (2, n)


def test_categories_say_what_minus_one_is():
    X = np.array([[-1, 0], [3, 2]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        encoder, columns = fitted(X, categories=[range(4)] * 2, handle_unknown="ignore")
        assert_array_equal(encoder.codes(columns), X)
        encoder, columns = fitted(X, categories=[range(-1, 4)] * 2)
        assert_array_equal(encoder.codes(columns), X + 1)


@pytest.mark.parametrize("new", [["Q"], [1.5]], ids=str)
def test_unknown_values(new):
    X = np.array([["A"], ["C"]]) if new == ["Q"] else np.array([[1], [2]])
    error, _ = fitted(X, handle_unknown="error")
    with pytest.raises(ValueError, match=r"unknown categories .* in column 0"):
        error.encode([np.array(new)])
    warns, _ = fitted(X)
    with pytest.warns(DataRangeWarning, match="taken as missing"):
        rows = warns.encode([np.array(new)])
    assert np.isnan(rows.toarray()).all()
    ignores, _ = fitted(X, handle_unknown="ignore")
    assert np.isnan(ignores.encode([np.array(new)]).toarray()).all()


def test_unknown_values_of_all_columns_are_told_at_once():
    encoder, _ = fitted(np.array([["A", "A", "A"], ["C", "C", "C"]]))
    with pytest.warns(DataRangeWarning) as warned:
        rows = encoder.encode([np.array(["A"]), np.array(["Q"]), np.array(["P"])])
    assert len(warned) == 1
    assert "['Q'] in column 1 of X, and others in columns [2]" in str(warned[0].message)
    assert_array_equal(np.isnan(rows.toarray()), [[False, False, True, True, True, True]])


@pytest.mark.parametrize("unit", ["D", "us", "ns"])
def test_times(unit):
    times = np.array(["2021-01-01", "2020-01-01", "NaT"], dtype=f"M8[{unit}]")
    others = np.array(["b", "a", "c"]), np.array([2, 1, 3]), np.array([True, False, True])
    for other in others:
        columns = [times, other]
        encoder = CategoryEncoder().fit(None, columns)
        rows = encoder.encode(columns).toarray()
        back = encoder.decode([rows[:2]])
        assert back.dtype == object and back.tolist() == [
            [times[0], other[0]],
            [times[1], other[1]],
        ]
        assert_array_equal(encoder.encode(list(back.T)).toarray(), rows[:2])
        in_seconds = [times.astype("M8[s]"), other]
        assert_array_equal(encoder.encode(in_seconds).toarray(), rows)
    half_a_day = [times[:1] + np.timedelta64(12, "h"), other[:1]]
    with pytest.warns(DataRangeWarning, match="unknown categories"):
        assert np.isnan(encoder.encode(half_a_day).toarray()[0, 0])


def test_truth_values_stay_so_beside_numbers():
    columns = [np.array([True, False]), np.array([5, 7])]
    encoder = CategoryEncoder().fit(None, columns)
    back = encoder.decode([encoder.encode(columns).toarray()])
    assert back.dtype == object and back[0, 0] is True and back.tolist() == [[True, 5], [False, 7]]


def test_text_is_no_number():
    encoder, _ = fitted(np.array([["1"], ["2"]]), handle_unknown="error")
    with pytest.raises(ValueError, match="unknown categories"):
        encoder.encode([np.array([1, 2])])


@pytest.mark.parametrize(
    "X, params, message",
    [
        ([["a", 1], [None, 2]], {"categories": [["a"]]}, "1 lists, and X 2 columns"),
        ([["a"], ["b"]], {"categories": [["a", "a"]]}, "a value twice"),
        ([["a"], ["b"]], {"categories": [["a", None]]}, "none of them missing"),
        ([["a"], ["b"]], {"categories": [[]]}, "must be values of a column"),
        ([[None], [np.nan]], {}, "no observed value in column 0"),
        ([["a"], [1]], {}, "uniformly strings or numbers"),
        ([[1.0], [np.inf]], {}, "Input X contains infinity"),
        ([["a"], [-np.inf]], {}, "Input X contains infinity"),
        ([[1], [Decimal("inf")]], {}, "Input X contains infinity"),
        ([["a"], ["b"]], {"categories": [["a", np.inf]]}, r"categories\[0\] contains infinity"),
    ],
)
def test_what_cannot_be_encoded(X, params, message):
    with pytest.raises((TypeError, ValueError), match=message):
        encoder, columns = fitted(np.array(X, object), **params)
        encoder.encode(columns)
