"""Data outside of the interval that units take, or far from 0."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from _estimators import BINARY, binary_data, small

from skrbm import RBM as AnyRBM
from skrbm.exceptions import DataRangeWarning

binary = pytest.mark.parametrize("RBM", BINARY)


def range_warnings(function):
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        function()
    return [str(w.message) for w in record if issubclass(w.category, DataRangeWarning)]


@binary
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("scale, values", [(255, "0 to 255"), (-0.5, "-0.5 to "), (1.01, "1.01")])
def test_range_warning(RBM, make, scale, values):
    X = make(scale * binary_data())
    messages = range_warnings(lambda: small(RBM).fit(X))
    assert len(messages) == 1
    for part in ("outside [0, 1]", "MinMaxScaler", "visible='gaussian'"):
        assert part in messages[0]
    if not sp.issparse(X):
        assert values in messages[0]


@binary
def test_new_data_out_of_range(RBM):
    """They are clipped, so that grey levels up to 255 would all be 1 after a fit to [0, 1]."""
    X = binary_data()
    rbm = small(RBM).fit(X)
    for method in ("transform", "score_samples"):
        (message,) = range_warnings(lambda method=method: getattr(rbm, method)(255 * X))
        assert "from 0 to 255" in message and "are clipped" in message
        assert not range_warnings(lambda method=method: getattr(rbm, method)(0.5 * X))


@pytest.mark.parametrize(
    "mean, spread, dtype, is_far",
    [
        (1e6, 1.0, np.float64, False),
        (1e9, 1.0, np.float64, True),
        (1e4, 1.0, np.float32, True),
        (2e7, 0.0, np.float64, False),  # the spread is then that of the others
    ],
)
def test_columns_far_from_zero_for_their_spread(mean, spread, dtype, is_far):
    """Their log-likelihoods, or those of the same columns moved to 0, tell where it matters."""
    X = np.random.default_rng(0).normal(size=(50, 3))
    X[:, 1] *= spread
    moved = (X + np.array([0, mean, 0])).astype(dtype)
    rbm = AnyRBM(2, visible="gaussian", n_iter=1, random_state=0)
    if dtype is np.float64:  # other dtypes draw other numbers
        expected = rbm.fit(X).score(X)
        assert (abs(rbm.fit(moved).score(moved) - expected) > 1) == is_far
    messages = range_warnings(lambda: rbm.fit(moved))
    assert len(messages) == is_far
    for message in messages:
        assert message.startswith("columns [1] of X") and "StandardScaler" in message
