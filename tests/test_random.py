"""Laws, independence and reproducibility of random numbers on every array library.

Seeds are fixed; every test of a law has a level of 1e-6.
"""

import pickle

import numpy as np
import pytest
from _libraries import OTHER_LIBRARIES
from numpy.testing import assert_array_equal
from scipy import stats

from skrbm.arrays import like, make_rng, namespace, seed_sequence, to_numpy

LEVEL = 1e-6
N = 40_000
LIBRARIES = ["numpy", *OTHER_LIBRARIES]


@pytest.fixture(params=[f"{library} {dtype}" for library in LIBRARIES for dtype in ("32", "64")])
def reference(request):
    """An array of each library and dtype."""
    library, bits = request.param.split()
    xp = pytest.importorskip(library)
    return xp.ones((2, 2), dtype=getattr(xp, f"float{bits}"))


def drawn_like(x, reference, shape):
    """Check type, dtype and shape of a draw, and return it as float64 NumPy."""
    assert type(x) is type(reference)
    assert x.dtype == reference.dtype
    assert tuple(x.shape) == shape
    return to_numpy(x).astype(np.float64)


@pytest.mark.parametrize("name, law", [("uniform", stats.uniform), ("normal", stats.norm)])
def test_uniform_and_normal_numbers(reference, name, law):
    x = drawn_like(getattr(make_rng(0, reference), name)((N, 3)), reference, (N, 3))
    low, high = law.support()
    assert ((x >= low) & (x < high)).all()
    assert stats.kstest(x.ravel(), law.cdf).pvalue > LEVEL
    assert np.abs(np.corrcoef(x.T) - np.eye(3)).max() < 5.5 / np.sqrt(N)


@pytest.mark.parametrize("columns", [1, 3])  # an odd number of draws takes half a word too many
@pytest.mark.parametrize("mean", [0.0, 0.05, 0.5, 0.65, 1.0])
@pytest.mark.parametrize("n_rows", [N + 1, 101])  # few bits are drawn in another way
def test_bits(reference, columns, mean, n_rows):
    shape, rng = (n_rows, columns), make_rng(0, reference)
    means = namespace(reference).full(shape, mean, **like(reference))
    x = drawn_like(rng.bits(means), reference, shape)
    assert set(np.unique(x)) == {0, 1} - {1 - mean}
    assert stats.binomtest(int(x.sum()), x.size, mean).pvalue > LEVEL


def test_permutation_and_integers_are_index_arrays(reference):
    rng = make_rng(0, reference)
    order, index = rng.permutation(50), rng.integers(5, 20_000)
    assert type(order) is type(index) is type(reference)
    assert sorted(to_numpy(order).tolist()) == list(range(50))
    assert to_numpy(order).tolist() != list(range(50))
    counts = np.bincount(to_numpy(index), minlength=5)
    assert len(counts) == 5
    assert stats.chisquare(counts).pvalue > LEVEL


def draws(rng):
    """Some of everything, so that a stream is told apart by it."""
    values = rng.uniform((50,)), rng.normal((4,)), rng.permutation(30)
    values = *values, rng.bits(values[0])
    return np.concatenate([to_numpy(x).astype(np.float64).ravel() for x in values])


def test_equal_seeds_give_equal_numbers(reference):
    assert_array_equal(draws(make_rng(3, reference)), draws(make_rng(3, reference)))
    states = [np.random.RandomState(3) for _ in range(2)]
    assert_array_equal(*(draws(make_rng(state, reference)) for state in states))
    seed = np.random.SeedSequence(3)
    assert_array_equal(draws(make_rng(seed, reference)), draws(make_rng(seed, reference)))


def test_other_seeds_give_other_numbers(reference):
    seen = [draws(make_rng(seed, reference)) for seed in (3, 4, None, None)]
    for i in range(4):
        for j in range(i):
            assert not np.isin(seen[i][:8], seen[j][:8]).any()


def test_the_state_of_a_seed_makes_the_same_seed():
    (seed,) = np.random.SeedSequence(3).spawn(1)
    first = make_rng(seed, np.ones(1)).normal((5,))
    assert_array_equal(make_rng(seed.state, np.ones(1)).normal((5,)), first)
    seed.spawn(2)
    for made in (seed_sequence(seed), seed_sequence(seed.state)):
        assert made.n_children_spawned == 0
        assert_array_equal(made.generate_state(4), seed.generate_state(4))


def test_spawned_streams_are_reproducible_and_independent(reference):
    parent = make_rng(6, reference)
    streams = [*parent.spawn(3), parent, *parent.spawn(2)]
    parent = make_rng(6, reference)
    again = [*parent.spawn(3), parent, *parent.spawn(2)]
    x = np.array([to_numpy(stream.normal((20_000,))) for stream in streams], np.float64)
    for row, stream in zip(x, again, strict=True):
        assert_array_equal(row, to_numpy(stream.normal((20_000,))))
    correlation = np.corrcoef(x) - np.eye(6)
    # 15 correlations, normal with deviation 1 / sqrt(n).
    assert np.abs(correlation).max() < stats.norm.isf(LEVEL / 30) / np.sqrt(20_000)
    for row in x:
        assert stats.kstest(row, stats.norm.cdf).pvalue > LEVEL / 6


def test_a_pickled_stream_continues_where_it_was(reference):
    rng = make_rng(7, reference)
    draws(rng)
    copy = pickle.loads(pickle.dumps(rng))
    assert_array_equal(draws(copy), draws(rng))
    assert_array_equal(draws(copy.spawn(1)[0]), draws(rng.spawn(1)[0]))
