"""Data outside of the interval that units take."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from _estimators import BINARY, binary_data, small

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
        assert "from 0 to 255" in message and "clips" in message
        assert not range_warnings(lambda method=method: getattr(rbm, method)(0.5 * X))
