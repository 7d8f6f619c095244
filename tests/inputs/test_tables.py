"""Columns of tables as columns of units."""

import numpy as np

from skrbm.inputs import TableEncoder
from skrbm.units import Binomial


def encoder(*columns):
    columns = [np.asarray(column) for column in columns]
    return TableEncoder().fit(None, columns), columns


def test_columns_of_equal_units_make_one_part():
    stars, points = np.array([1, 2, 3, 4, 5, 1]), np.array([0, 7, 3, 2, 1, 5])
    found, columns = encoder(stars, points, stars[::-1])
    assert found.unit.units == (Binomial(4), Binomial(7))
    X = found.encode(columns)
    np.testing.assert_array_equal(X, np.stack([stars - 1, stars[::-1] - 1, points], axis=1))
    np.testing.assert_array_equal(found.decode([X]), np.stack(columns, axis=1))


def test_a_column_of_one_value_has_no_other():
    """Its unit has two values all the same, and may draw the one that no row has."""
    found, columns = encoder([True, True, True], [0.5, 1.5, 2.5])
    X = found.encode(columns)
    X[:, 0] = [0, 1, 1]
    assert list(found.decode([X])[:, 0]) == [True] * 3


def test_columns_of_two_names_are_binary_and_those_of_one_are_categories():
    found, _ = encoder(["no", "yes", "no"], ["a", "a", "a"])
    assert [column.kind for column in found.table] == ["binary", "categorical"]


def test_a_rating_of_one_value_has_a_unit_of_two():
    found = TableEncoder(kinds={0: "rating"}).fit(None, [np.array([3, 3, 3])])
    assert found.unit.units == (Binomial(1),)
