"""Random estimators, tables and calls: every call must end well, or with an error that helps.

A call of a public method ends well if

- it returns within 20 s of computing, and a result without NaN and infinity that has one row for
  each row of X; log-likelihoods of impossible rows may be -inf (and free energies inf);
- its X has no complex numbers, dates or times, which ``fit`` refuses;
- the same call with the same seed returns the same;
- it warns in no other categories than those of ``skrbm.exceptions``, scikit-learn's
  ConvergenceWarning and DataConversionWarning, and UserWarning: never of overflow or the like;

or if it raises a ValueError, TypeError, NotFittedError, AttributeError or DivergenceError on
purpose, by a ``raise`` in skrbm or in a check of scikit-learn; those of skrbm have one sentence
that names no private module. After each call

- its arguments are what they were, byte for byte, and so are NumPy's settings of errors;
- an estimator that was fitted still transforms the rows that it was fitted to, after an error too;
- in the end, with valid parameters, it can be fitted to valid rows.

``pytest -m fuzz`` makes some 4,000 calls. A failed case prints its number and its calls; it is made
again by ``pytest -m fuzz "tests/fuzz/test_fuzz.py::test_calls[NUMBER]"``.
"""

import copy
import os
import re
import reprlib
import signal
import traceback
import warnings
from datetime import date, timedelta

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from _draws import ROWS, Draw, perform, usual
from _estimators import state
from sklearn.base import BaseEstimator, is_classifier
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning

import skrbm
from skrbm.exceptions import DivergenceError

_PACKAGE = os.path.dirname(skrbm.__file__) + os.sep
_NO_NUMBERS = complex, np.complexfloating, np.datetime64, np.timedelta64, date, timedelta
_ERRORS = (ValueError, TypeError, AttributeError, DivergenceError)  # NotFittedError is of two
_LOGS = "score_samples score free_energy perplexity predict_log_proba tap_log_likelihood".split()


class Hang(BaseException):  # a call takes too long
    @classmethod
    def stop(cls, *_):
        raise cls("a call takes more than 20 s")


@pytest.mark.fuzz
@pytest.mark.parametrize("number", range(520))
def test_calls(number):
    """Draw an estimator and calls of it, print each, and check how it ends."""
    draw = Draw(number)
    estimator, d = draw.estimator(), int(draw.pick([1, 2, 2, 5, 5, 5, 5, 24]))
    print(f"case {number}: {estimator!r}")
    use = "transform" if hasattr(type(estimator), "transform") else "predict"
    good = None  # what the estimator was fitted to
    for i in range(int(draw.pick([3, 6, 9]))):
        name, args, kwargs, n = draw.call(estimator, d, "fit" if i == 0 else None)
        if not hasattr(estimator, name) and name not in ("clone", "pickle"):
            continue
        twin = copy.deepcopy(estimator) if draw.chance(0.3) else None
        result, error = checked(estimator, name, args, kwargs, n)
        ended_well = error is None
        assert not (ended_well and any(map(has_no_numbers, args))), f"{name} takes what fit refuses"
        if name in ("clone", "pickle") and ended_well:
            estimator, good = result, good if name == "pickle" else None
        if ended_well and twin is not None and is_seeded(estimator, kwargs):
            again, _ = checked(twin, name, args, kwargs, n)
            assert same(result, again), f"{name} gives another result the second time"
        if ended_well and name in ("fit", "partial_fit", "fit_transform", "grow"):
            weights = kwargs.get("sample_weight")  # of rows without weight the values do not matter
            good = args[0] if weights is None or np.all(weights) else None
        if name == "set_params" or isinstance(error, DivergenceError):
            good = None  # parameters may be junk, and a fit that diverges keeps its last good epoch
        if good is not None:
            assert checked(estimator, use, [good], {}, None)[1] is None, "fails for rows of fit"
    X = np.array([[0, 1, 0, 1, 1], [1, 1, 0, 0, 1], [1, 0, 0, 1, 0], [0, 1, 1, 1, 0]] * 3, float)
    y = [np.arange(12) % 2] if is_classifier(estimator) else []
    estimator.set_params(**usual(type(estimator)).get_params(deep=False))
    for name, args in (("fit", [X, *y]), (use, [X])):
        assert checked(estimator, name, args, {}, 12)[1] is None, "cannot be used any more"


def checked(estimator, name, args, kwargs, n):
    """Make a call and check how it ends; return its result and its error, or None."""
    print(f"{name}(*{reprlib.repr(args)}, **{reprlib.repr(kwargs)})")
    before, settings, raised = image([*args, *kwargs.values()]), np.geterr(), None
    signal.signal(signal.SIGPROF, Hang.stop)
    with warnings.catch_warnings(record=True, action="always") as caught:
        signal.setitimer(signal.ITIMER_PROF, 20)
        try:
            result = perform(estimator, name, args, kwargs)
        except Exception as error:  # classified below
            raised = error
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    assert image([*args, *kwargs.values()]) == before, f"{name} changes its arguments"
    assert np.geterr() == settings, f"{name} changes np.errstate"
    for warning in caught:
        kind, where = warning.category, f"{warning.filename}:{warning.lineno}: {warning.message}"
        known = kind in (UserWarning, ConvergenceWarning, DataConversionWarning)
        assert known or kind.__module__ == "skrbm.exceptions", f"{kind.__name__} in {where}"
    if raised is None:
        check_result(name, result, n)
        return result, None
    print(f"    {type(raised).__name__}: {raised}")
    text = str(raised).replace(". Got ", ", got ")  # of scikit-learn
    last = traceback.extract_tb(raised.__traceback__)[-1]
    is_own = last.filename.startswith(_PACKAGE)
    on_purpose = "raise" in (last.line or "") if is_own else "/tests/" in last.filename
    on_purpose |= any(part in last.filename for part in ("/sklearn/", "/narwhals/", "mt19937"))
    is_known = isinstance(raised, _ERRORS) and not isinstance(raised, np.linalg.LinAlgError)
    if not (on_purpose and is_known):
        raise raised
    assert not (is_own and re.search(r"\._|[a-z)\]'\"]\. [A-Z]", text)), f"not one sentence: {text}"
    return None, raised


def check_result(name, result, n):
    if name in ROWS and n is not None:
        for part in result if isinstance(result, list) else [result]:  # one table for each draw
            found = part.shape[0] if hasattr(part, "shape") else len(part)
            assert found == n, f"{name} returns {found} rows for {n}"
    found = state(result) if isinstance(result, BaseEstimator) else {"result": result}
    for key, part in ((key, part) for key, value in found.items() for part in arrays(value)):
        assert not np.isnan(part).any(), f"NaN in {key} of {name}"
        assert name in _LOGS or not np.isinf(part).any(), f"infinity in {key} of {name}"


def arrays(value):
    """Yield the arrays of numbers of a result."""
    if isinstance(value, tuple | list):
        for part in value:
            yield from arrays(part)
    elif isinstance(value, pd.DataFrame | pl.DataFrame):
        yield from arrays([np.asarray(value[column]) for column in value.columns])
    elif isinstance(value, np.ndarray | float | np.floating) or sp.issparse(value):
        found = value.data if sp.issparse(value) else np.asarray(value)
        if found.dtype == object:  # of tables, where None and NaN are missing values
            found = np.array([np.nan if x is None or x != x else 0.0 for x in found.ravel()])
        yield from [found] if found.dtype.kind == "f" else []


def has_no_numbers(value):
    """Whether a table has complex numbers, dates or times, for which there are no units."""
    if isinstance(value, pd.DataFrame | pl.DataFrame):
        return any(has_no_numbers(np.asarray(value[column])) for column in value.columns)
    values = value.data if sp.issparse(value) else np.asarray(value)
    is_object = values.dtype.kind == "O"
    types = set(map(type, values.ravel())) if is_object else {values.dtype.type}
    return any(issubclass(own, _NO_NUMBERS) for own in types)


def is_seeded(estimator, kwargs):
    owners = estimator, getattr(estimator, "estimator", None)
    seeds = [getattr(owner, "random_state", 0) for owner in owners]
    return all(isinstance(seed, int) for seed in (*seeds, kwargs.get("random_state", 0)))


def same(one, other):
    """Whether two results are equal; of estimators, what a fit leaves."""
    if isinstance(one, BaseEstimator):
        one, other = state(one), state(other)
    return type(one).__module__.startswith("skrbm") or image(one) == image(other)


def image(value):
    """Return what changes if the bytes of a value do."""
    if isinstance(value, list | tuple):
        return [image(part) for part in value]
    if sp.issparse(value):
        value = [part for part in vars(value).values() if isinstance(part, np.ndarray)]
    return joblib.hash(value.to_dict(as_series=False) if isinstance(value, pl.DataFrame) else value)
