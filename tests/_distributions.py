"""Draws of all units of small machines, and tests of their joint distribution."""

import numpy as np
from scipy import stats

from skrbm.inference import Chains

LEVEL = 1e-6
"""Probability with which a test of a right distribution fails."""


def exact_chains(exact, n, dtype=np.float64, seed=0):
    """Exact draws from the joint distribution."""
    return Chains(tuple(x.astype(dtype) for x in exact.sample(np.random.default_rng(seed), n)))


def assert_joint_distribution(exact, layers):
    """All discrete units jointly by chi-square, each continuous unit by Kolmogorov-Smirnov."""
    x = np.concatenate(layers, axis=1).astype(np.float64)
    n, n_tests = len(x), 1 + len(exact.continuous)
    configurations = exact.values[:, exact.discrete]
    match = (x[:, None, exact.discrete] == configurations[None]).all(axis=2)
    assert (match.sum(axis=1) == 1).all()
    counts, expected = match.sum(axis=0), n * exact.probabilities
    rare = expected < 5  # too few for the chi-square distribution: pooled
    counts = np.append(counts[~rare], counts[rare].sum())
    expected = np.append(expected[~rare], expected[rare].sum())
    if expected[-1] < 5:
        counts, expected = pool_last(counts), pool_last(expected)
    assert stats.chisquare(counts, expected).pvalue > LEVEL / n_tests
    for i in exact.continuous:
        u = exact.uniform(i, x[:, i], np.random.default_rng(0))
        assert stats.kstest(u, "uniform").pvalue > LEVEL / n_tests


def pool_last(values):
    return np.append(values[:-2], values[-2:].sum())
