"""Layers of categorical sites, against sums over their values.

Random tests use fixed seeds and a level of 1e-6 for each test.
"""

import numpy as np
import pytest
import scipy.sparse as sp
from _libraries import OTHER_LIBRARIES
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.special import logsumexp, softmax

from skrbm.arrays import Columns, make_rng, to_numpy
from skrbm.machine import Machine, zero_sum
from skrbm.units import Categorical, Theta

LEVEL = 1e-6
dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float64])
FIELDS = np.array(
    [[0.3, -1.0, 2.0, 0.0], [1e4, 0.0, 1e4, -1e4], [-700.0, -701.0, -702.0, -900.0], [0.0] * 4]
)


@dtypes
def test_a_value_without_probability_is_never_drawn(dtype):
    """First, last or between, and where the probabilities do not quite add up to 1."""
    generator = np.random.default_rng(0)
    for absent in range(3):
        field = generator.standard_normal(3).astype(dtype)
        field[absent] = -2e4
        theta = Theta(np.tile(field, (50_000, 1)))
        X = Categorical().sample(theta, make_rng(absent, theta.field))
        assert X[:, absent].sum() == 0 and (X.sum(axis=1) == 1).all()


@pytest.mark.parametrize("edge", [0.0, 1.0 - 2.0**-53])
def test_samples_at_the_ends_of_the_noise(edge):
    class Fixed:
        def uniform(self, shape):
            return np.full(shape, edge)

    X = Categorical().sample(Theta(np.array([[-2e4, 0.0, 1.0, -2e4]])), Fixed())
    assert_array_equal(X, np.eye(4)[[1 if edge == 0 else 2]])


SITES = [((3, 4), (3, 4)), (2, (2, 2, 2)), ((1, 2, 1), (1, 2, 1)), (None, (5,))]
sites = pytest.mark.parametrize("sizes, sites", SITES, ids=str)


@dtypes
@sites
def test_configurations_are_drawn_by_their_probabilities(sizes, sites, dtype):
    unit, n, n_draws = Categorical(sizes), sum(sites), 20_000
    theta = Theta(np.random.default_rng(1).standard_normal(n).astype(dtype))
    X = unit.sample(Theta(np.tile(theta.field, (n_draws, 1))), make_rng(2, theta.field))
    rows = unit.configurations(n, np.arange(unit.n_configurations(n)))
    counts = (X[:, None] == rows).all(axis=2).sum(axis=0)
    assert X.dtype == dtype and counts.sum() == n_draws
    log_weights = rows @ theta.field.astype(float)
    expected = n_draws * np.exp(log_weights - logsumexp(log_weights))
    assert stats.chisquare(counts, expected).pvalue > LEVEL / 10  # each of 8 tests


@dtypes
def test_many_rows_are_drawn_by_their_probabilities_and_as_sparse_rows(dtype):
    sizes = (17, 20, 3)
    unit, fields = Categorical(sizes), np.random.default_rng(3).standard_normal(40).astype(dtype)
    theta = Theta(np.tile(fields, (10_000, 1)))
    X, rows = (draw(theta, make_rng(2, fields)) for draw in (unit.sample, unit.sample_sparse))
    assert_array_equal(rows.toarray(), X)
    assert rows.dtype == X.dtype == dtype
    for site in unit.groups(40):
        expected = len(X) * softmax(fields[site].astype(float))
        assert stats.chisquare(X[:, site].sum(axis=0), expected).pvalue > LEVEL / 6


@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array])
def test_initial_theta_has_the_frequencies_and_one_uniform_row(convert):
    unit = Categorical((2, 3))
    X = np.array([[1.0, 0, 0, 0, 1], [1, 0, 0, 1, 0], [1, 0, 0, 1, 0]])
    mean = unit.mean(unit.initial_theta(Columns(convert(X))))
    assert_allclose(mean, [3.5 / 4, 0.5 / 4, 1 / 12, 7 / 12, 4 / 12], rtol=1e-12)
    base = unit.base_theta(Theta(np.zeros(5)), Columns(convert(X)))
    assert_allclose(unit.mean(base), mean, rtol=1e-12)


@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array])
@pytest.mark.parametrize(
    "row", [[1, 1, 1, 0, 0], [0, 0, 1, 0, 0], [0.5, 0.5, 1, 0, 0], [2, -1, 0, 1, 0]]
)
def test_rows_that_are_no_values_of_the_sites_are_refused(convert, row):
    unit, good = Categorical((2, 3)), [1.0, 0, 0, 0, 1]
    unit.check_values(convert(np.array([good])))
    with pytest.raises(ValueError, match="OneHotEncoder"):
        unit.check_values(convert(np.array([good, row])))


@pytest.mark.parametrize("sizes", [(2, 3), (2, 2, 1)])
def test_missing_sites_are_missing_as_a_whole(sizes):
    unit, good = Categorical(sizes), [1.0, 0, 0, 0, 1] if sizes == (2, 3) else [1.0, 0, 0, 1, 1]
    unit.check_values(np.array([good, [np.nan] * 2 + good[2:], [np.nan] * 5]))
    for row in ([np.nan, 1, 1, 0, 0], [np.nan, 0, *good[2:]], [0, 0, np.nan, np.nan, np.nan]):
        with pytest.raises(ValueError, match="NaN throughout"):
            unit.check_values(np.array([good, row]))


@pytest.mark.arrays
@pytest.mark.parametrize("name", OTHER_LIBRARIES)
@pytest.mark.parametrize("sizes", [None, 2, (1, 3)])
def test_array_libraries(name, sizes):
    xp = pytest.importorskip(name)
    unit, theta, other = Categorical(sizes), Theta(FIELDS), Theta(xp.asarray(FIELDS))
    for method in ("log_partition", "mean", "mode"):
        found = getattr(unit, method)(other)
        assert type(found) is type(other.field) and found.dtype == xp.float64
        assert_allclose(to_numpy(found), getattr(unit, method)(theta), rtol=1e-12)
    X = unit.sample(other, make_rng(0, other.field))
    assert type(X) is type(other.field)
    unit.check_values(X)
    assert_array_equal(to_numpy(X).sum(axis=1), np.full(4, len(unit.sites(4))))
    fitted = unit.initial_theta(Columns(X))
    assert_allclose(
        to_numpy(fitted.field), unit.initial_theta(Columns(to_numpy(X))).field, rtol=1e-12
    )


def test_zero_sum_gauge():
    """The same distribution, by parameters that sum to zero over the values of each site."""
    rng, units = np.random.default_rng(0), (Categorical((3, 2)), Categorical((2, 4)))
    thetas = Theta(rng.normal(size=5)), Theta(rng.normal(size=6))
    machine = Machine(units, thetas, (rng.normal(size=(6, 5)),), 0.5)
    found = zero_sum(machine)
    X, H = units[0].configurations(5, np.arange(6)), units[1].configurations(6, np.arange(8))
    logs = []
    for one in (machine, found):
        (b, c), (W,) = (theta.field for theta in one.thetas), one.weights
        logs.append((X @ b + (H @ c)[:, None] + 0.5 * H @ W @ X.T).ravel())
    assert_allclose(softmax(logs[1]), softmax(logs[0]), rtol=1e-12)
    for part in (b, W):
        assert_allclose(np.add.reduceat(part, [0, 3], axis=-1), 0, atol=1e-12)
    for part in (c, W.T):
        assert_allclose(np.add.reduceat(part, [0, 2], axis=-1), 0, atol=1e-12)
