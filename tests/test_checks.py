"""Checks of numbers, and of values that are one of several."""

import math
import re
from fractions import Fraction

import numpy as np
import pytest

from skrbm._checks import check_count, check_number, look_up

NO_NUMBERS = [True, np.True_, "1", None, 1j, [1], np.array(1)]


@pytest.mark.parametrize("right", [2, 7, np.int8(2), np.uint64(7), 10**30])
def test_counts(right):
    check_count("n", right, 2)
    check_count("n", right, 2, or_none=True)


@pytest.mark.parametrize("wrong", [*NO_NUMBERS, 1.0, np.float64(1), math.nan, Fraction(1, 2), -1])
def test_what_is_no_count(wrong):
    with pytest.raises(ValueError, match=re.escape(f"n must be an integer >= 0, got {wrong!r}")):
        check_count("n", wrong, 0)


@pytest.mark.parametrize("wrong", [*NO_NUMBERS, math.nan, np.float32(math.inf), -math.inf])
def test_what_is_no_number(wrong):
    for limits in ({}, {"at_least": 0}, {"below": 0}):
        with pytest.raises(ValueError, match=r"a must be a finite number.*, got "):
            check_number("a", wrong, **limits)


@pytest.mark.parametrize("kind", [int, float, Fraction, np.int16, np.float32])
@pytest.mark.parametrize(
    ("limits", "words", "allowed"),
    [
        ({"above": 0}, " > 0", (1, 2)),
        ({"at_least": 0}, " >= 0", (0, 1, 2)),
        ({"at_least": 0, "below": 1}, " >= 0 and < 1", (0,)),
        ({"above": 0, "at_most": 1}, " > 0 and <= 1", (1,)),
    ],
)
def test_numbers_lie_within_limits(kind, limits, words, allowed):
    for value in map(kind, (-1, 0, 1, 2)):
        if value in allowed:
            check_number("a", value, **limits)
            continue
        message = re.escape(f"a must be a finite number{words}, got {value!r}")
        with pytest.raises(ValueError, match=message):
            check_number("a", value, **limits)


def test_none_is_allowed_where_it_is_said_to_be():
    check_count("n", None, 1, or_none=True)
    check_number("a", None, above=0, or_none=True)
    with pytest.raises(ValueError, match="n must be None or an integer >= 1, got False"):
        check_count("n", False, 1, or_none=True)


def test_names_are_looked_up():
    table = {"b": 1, "a": None}
    assert look_up("name", "b", table) == 1
    assert look_up("name", np.str_("a"), table) is None
    for wrong in ("c", None, ["a"], np.array("a"), str):
        message = re.escape(f"name must be one of ['a', 'b'] or a number, got {wrong!r}")
        with pytest.raises(ValueError, match=message):
            look_up("name", wrong, table, " or a number")
