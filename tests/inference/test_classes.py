"""Sums and maxima over the classes of one label, against all configurations."""

import numpy as np
import pytest
from _fractional import all_rows
from numpy.testing import assert_allclose
from scipy.special import expit, logsumexp

from skrbm.inference import BeliefPropagation, sum_classes
from skrbm.machine import Machine
from skrbm.units import Bernoulli, Categorical, Theta

PRODUCTS = ["sum", "max", "mixed"]
products = pytest.mark.parametrize("product", PRODUCTS)


def instances(n=6, n_classes=4, n_hidden=3, strength=2.0, seed=0, dtype=np.float64):
    generator = np.random.default_rng(seed)
    shapes = (n_hidden, n_classes), (n, n_classes), (n, n_hidden)
    return tuple((strength * generator.standard_normal(shape)).astype(dtype) for shape in shapes)


def solved(W, b, c, product, **wanted):
    """The sums of one machine that has these weights, and fields for each row."""
    machine = Machine((Categorical(), Bernoulli()), (Theta(b), Theta(c)), (W,))
    return sum_classes(BeliefPropagation(product=product), machine, **wanted)


def table(W, b, c):
    """Log-weights of all classes and hidden configurations of one instance."""
    H = all_rows(len(c))
    return b[:, None] + (c @ H.T)[None, :] + W.T @ H.T, H


def expected(W, b, c, product):
    """Class scores, means of hidden units, the log-partition function, and E[h k]."""
    weights, H = table(W, b, c)
    log_z = logsumexp(weights)
    if product == "sum":
        p = np.exp(weights - log_z)
        return logsumexp(weights, axis=1) - log_z, p.sum(axis=0) @ H, log_z, (p @ H).T
    scores = weights.max(axis=1) if product == "max" else logsumexp(weights, axis=1)
    best = np.argmax(scores)
    if product == "max":
        hidden = H[np.argmax(weights[best])].astype(float)
    else:
        hidden = np.exp(weights[best] - scores[best]) @ H
    return scores, hidden, scores[best], np.outer(hidden, np.eye(len(b))[best])


@products
@pytest.mark.parametrize("copies", [1, 3000])
@pytest.mark.parametrize("n_hidden", [0, 1, 5])
def test_enumeration(product, copies, n_hidden):
    """Of a few instances, and of more than a block of them."""
    W, b, c = instances(n_hidden=n_hidden)
    many = (np.tile(fields, (copies, 1)) for fields in (b, c))
    found = solved(W, *many, product, log_partition=True, pairs=True)
    scores, hidden, log_z, pairs = zip(
        *(expected(W, *fields, product) for fields in zip(b, c, strict=True)), strict=True
    )
    scores = np.array(scores)
    if product != "sum":  # which leaves a constant free
        shift = logsumexp(scores, axis=1, keepdims=True)
        scores = scores - shift
    assert_allclose(found.visible, np.tile(scores, (copies, 1)), rtol=1e-10, atol=1e-12)
    means = found.hidden > 0 if product == "max" else expit(found.hidden)
    assert_allclose(means, np.tile(hidden, (copies, 1)), rtol=1e-10)
    assert_allclose(found.log_partition, np.tile(log_z, copies), rtol=1e-12)
    assert_allclose(found.pairs, copies * sum(pairs), rtol=1e-10, atol=1e-14)
    assert found.converged.all() and len(found.converged) == len(found.n_iter) == 6 * copies


@products
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_large_weights_and_fields(product, dtype):
    """Finite without a warning; the sums are known to rounding of the largest log-weight."""
    W, b, c = instances(strength=300.0, dtype=dtype)
    with np.errstate(all="raise", under="ignore"):
        found = solved(W, b, c, product, log_partition=True, pairs=True)
    assert found.visible.dtype == found.hidden.dtype == found.pairs.dtype == dtype
    assert found.log_partition.dtype == np.float64
    single = [x.astype(np.float64) for x in (W, b, c)]
    log_z = [expected(single[0], *fields, product)[2] for fields in zip(*single[1:], strict=True)]
    assert_allclose(found.log_partition, log_z, rtol=20 * np.finfo(dtype).eps)
    assert all(np.isfinite(part).all() for part in (found.visible, found.hidden, found.pairs))
