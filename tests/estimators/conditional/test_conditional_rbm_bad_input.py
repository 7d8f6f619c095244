"""ConditionalRBM: fits that go wrong, data at the edge, and errors that say what to do."""

from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from _conditional_rbm import data, every, labels, small, values
from numpy.testing import assert_array_equal

from skrbm.exceptions import DivergenceError


@every
@pytest.mark.parametrize("rate", [1e3, 1e300])
def test_huge_learning_rates(objective, inference, rate):
    """A fit says that it diverged and keeps the last epoch, or it gives what can predict."""
    X, Y = data(dtype=np.float32)
    crbm = small(objective=objective, inference=inference, warm_start=True).fit(X, Y)
    before, n_iter = values(crbm), crbm.n_iter_
    try:
        crbm.set_params(learning_rate=rate, n_iter=1).fit(X, Y)
    except DivergenceError as error:
        assert "lower learning_rate" in str(error) and "last complete epoch" in str(error)
        assert crbm.n_iter_ == n_iter and crbm._training.optimizer_state is None
        for one, other in zip(values(crbm), before, strict=True):
            assert_array_equal(one, other)
    with np.errstate(over="ignore", invalid="ignore"):
        assert crbm.predict(X).shape == Y.shape
    assert all(np.isfinite(part).all() for part in values(crbm))


@every
@pytest.mark.parametrize("n_components", [0, 3])
def test_degenerate_data(objective, inference, n_components):
    """One row, constant outputs, rows of which nothing is known."""
    X, Y = data(n=12)
    make = partial(small, objective=objective, inference=inference, n_components=n_components)
    assert np.isfinite(make().fit(X[:1], Y[:1]).predict_proba(X)).all()
    constant = np.tile([0, 1, 0, 1], (12, 1))
    assert_array_equal(make().fit(X, constant).predict(X), constant)
    unknown = np.where(np.arange(12)[:, None] < 6, np.nan, Y)
    assert np.isfinite(make().fit(X, unknown).predict_proba(X)).all()
    H = make().fit(X, Y).transform(X)
    assert H.shape == (12, n_components) and np.isfinite(H).all()
    zero = make().fit(np.zeros((12, 3)), Y)
    assert np.isfinite(zero.score_samples(X, Y)).all()


BAD = [
    lambda X, Y: (X, 2 * Y),
    lambda X, Y: (X, Y[:-1]),
    lambda X, Y: (np.where(X > 1, np.nan, X), Y),
    lambda X, Y: (sp.csr_array(np.where(X > 1, np.nan, X)), Y),
    lambda X, Y: (np.where(X > 1, np.inf, X), Y),
    lambda X, Y: (X[:, :0], Y),
    lambda X, Y: (X[:0], Y[:0]),
    lambda X, Y: (X[:, 0], Y),
    lambda X, Y: (X, None),
    lambda X, Y: (X, X[:, 0]),
]


@pytest.mark.parametrize("make", BAD)
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_bad_data(make, method):
    X, Y = make(*data())
    with pytest.raises(ValueError, match=r"X|y|samples|feature|2D|NaN|infinity|label"):
        getattr(small(), method)(X, Y)


def test_targets_of_other_calls():
    X, Y = data()
    crbm, label = small(warm_start=True).fit(X, Y), small(warm_start=True).fit(X, labels(Y))
    for method in ("fit", "partial_fit", "score_samples"):
        with pytest.raises(ValueError, match="y has shape"):
            getattr(crbm, method)(X, Y[:, :3])
        with pytest.raises(ValueError, match="y has shape"):
            getattr(label, method)(X, Y)
        with pytest.raises(ValueError, match="classes"):
            getattr(label, method)(X, np.where(labels(Y) == "ant", "dog", "bee"))
    with pytest.raises(ValueError, match="classes"):
        label.partial_fit(X, labels(Y), classes=["ant", "bee"])
    with pytest.raises(ValueError, match="n_components"):
        crbm.set_params(n_components=7).fit(X, Y)
