"""Solutions of fixed-point equations: all that a small machine has, and which are one.

The references are roots of scalar equations found by bracketing, components of a graph of all pairs
of rows, and the free energy of Tramel et al. (2018) for binary units written out.
"""

import itertools
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import block_diag, hadamard
from scipy.optimize import brentq
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import cdist
from scipy.special import expit, logsumexp, xlogy

from skrbm import TAPRBM, BernoulliRBM, CategoricalRBM
from skrbm.evaluation import log_partition, solutions
from skrbm.evaluation._solutions import find_solutions, solution_groups
from skrbm.inference import (
    TAP,
    NaiveMeanField,
    solve,
    solve_to_convergence,
)
from skrbm.machine import Machine
from skrbm.units import Bernoulli, Theta


def uniform_machine(n=4, coupling=4.0, tilt=0.0, dtype=np.float64):
    """All units alike: two layers of ``n`` with one coupling, symmetric but for ``tilt``."""
    W = np.full((n, n), coupling, dtype=dtype)
    field = np.full(n, -0.5 * n * coupling + tilt, dtype=dtype)
    return Machine((Bernoulli(), Bernoulli()), (Theta(field), Theta(field)), (W,))


def roots(function, low=0.0, high=1.0, n=4001):
    grid = np.linspace(low, high, n)
    values = [function(x) for x in grid]
    pairs = zip(grid[:-1], grid[1:], values[:-1], values[1:], strict=True)
    return [
        a if fa == 0 else brentq(function, a, b, xtol=1e-14)
        for a, b, fa, fb in pairs
        if fa == 0 or fa * fb < 0
    ]


class Scalar:
    """The TAP equations of :func:`uniform_machine`, where each layer has one mean.

    Given the means of the other layer, that of a unit is the only root of a decreasing function.
    """

    def __init__(self, n=4, coupling=4.0, tilt=0.0):
        self.n, self.w, self.field = n, coupling, -0.5 * n * coupling + tilt

    def answer(self, a):
        """The mean of one layer given that of the other."""
        n, w = self.n, self.w

        def excess(t):
            onsager = n * w**2 * (a - a * a) * (t - 0.5)
            return expit(self.field + n * w * a - onsager) - t

        return brentq(excess, 0, 1, xtol=1e-15)

    def solutions(self):
        """(visible mean, hidden mean) of every fixed point, and whether it is stable."""
        found = []
        for a in roots(lambda a: self.answer(self.answer(a)) - a):
            slope = (self.answer(self.answer(a + 1e-5)) - self.answer(self.answer(a - 1e-5))) / 2e-5
            found.append((a, self.answer(a), abs(slope) < 1))
        return found

    def free_energy(self, v, h):
        n, w = self.n, self.w
        entropy = -n * sum(xlogy(a, a) + xlogy(1 - a, 1 - a) for a in (v, h))
        pair = n * n * (w * v * h + 0.5 * w**2 * (v - v * v) * (h - h * h))
        return -(entropy + n * self.field * (v + h) + pair)


def starts_of(n, size=200, seed=0):
    return np.random.default_rng(seed).random((size, n)).round()


# ------------------------------------------------------- all solutions of a small machine


@pytest.mark.parametrize(
    "coupling, tilt, n", [(1.5, 0.1, 1), (2.0, 0.1, 2), (2.5, 0.1, 2), (4.0, 0.0, 3)]
)
def test_solutions_are_the_stable_roots_of_the_scalar_equation(coupling, tilt, n):
    scalar = Scalar(4, coupling, tilt)
    expected = [root[:2] for root in scalar.solutions() if root[2]]
    found = solutions(uniform_machine(4, coupling, tilt), "tap", starts_of(4))
    assert len(found) == len(expected) == n
    assert found.n_unconverged == 0
    energies = np.sort([scalar.free_energy(*root) for root in expected])
    assert_allclose(found.free_energies, energies, atol=1e-9)
    assert (np.diff(found.free_energies) > -1e-9).all()
    order = np.argsort(found.visible_means[:, 0])
    for l, means in enumerate((found.visible_means, found.hidden_means)):
        assert means.shape == (n, 4)
        roots_of_layer = np.repeat([[root[l]] for root in expected], 4, axis=1)
        assert_allclose(means[order], roots_of_layer, atol=1e-5)


def test_which_start_went_where():
    """By the symmetry under a flip of all units, the count of ones says where a start ends."""
    X = starts_of(4)
    found = solutions(uniform_machine(), "tap", X)
    ends = np.sign(X.sum(axis=1) - 2) / 2 + 0.5
    assert_allclose(found.visible_means[found.labels, 0], ends, atol=1e-3)
    assert_array_equal(found.counts, np.bincount(found.labels))
    assert found.counts.sum() == len(X) == len(found.labels)
    assert found.n_unique == {1e-1: 3, 1e-2: 3, 1e-3: 3}


TILTS = (0.1, 0.17, 0.23)


def block_machine():
    """Three machines of :func:`uniform_machine` side by side: 2**3 solutions."""
    blocks = [uniform_machine(4, 2.5, tilt) for tilt in TILTS]
    field = Theta(np.concatenate([block.thetas[0].field for block in blocks]))
    W = block_diag(*(block.weights[0] for block in blocks))
    return Machine((Bernoulli(), Bernoulli()), (field, field), (W,))


def test_solutions_of_independent_blocks():
    """Every combination of the solutions of the blocks, whose free energies add up."""
    scalars = [Scalar(4, 2.5, tilt) for tilt in TILTS]
    choices = [[r[:2] for r in scalar.solutions() if r[2]] for scalar in scalars]
    assert [len(choice) for choice in choices] == [2, 2, 2]
    expected = sorted(
        sum(scalar.free_energy(*root) for scalar, root in zip(scalars, combination, strict=True))
        for combination in itertools.product(*choices)
    )
    found = solutions(block_machine(), "tap", starts_of(12))
    assert len(found) == 8 and found.n_unconverged == 0
    assert_allclose(found.free_energies, expected, rtol=1e-9)


# --------------------------------------------------------------------- convergence


def oscillating_machine(x=1.3):
    """Couplings of 4 x / sqrt(8) times an orthogonal matrix of signs, without fields in spins.

    All means at 1/2 solve the TAP equations, and nothing else near by does; but the reaction of
    the last sweep is x**2 times as strong as it should be, so that plain sweeps overshoot for
    x > 1, and damped ones, by a half, for x > sqrt(3).
    """
    W = 4 * x / np.sqrt(8) * hadamard(8)
    fields = Theta(-0.5 * W.sum(axis=0)), Theta(-0.5 * W.sum(axis=1))
    return Machine((Bernoulli(), Bernoulli()), fields, (W,))


def test_damping_takes_over_where_plain_sweeps_do_not_converge():
    machine = oscillating_machine()
    X = np.concatenate([np.full((2, 8), 0.5), starts_of(8, 20), np.full((1, 8), 0.5)])
    start, easy = TAP().state_at(machine, X), np.array([True] * 2 + [False] * 20 + [True])
    plain = solve(TAP(), machine, start, tol=1e-12, max_iter=500)
    assert_array_equal(plain.converged, easy)
    settled = solve_to_convergence(TAP(), machine, start)
    assert settled.converged.all() and (settled.residual <= 1e-12).all()
    for mean in settled.state.means:
        assert_allclose(mean, 0.5, atol=1e-4)
    assert_array_equal(settled.n_iter[easy], plain.n_iter[easy])
    assert (settled.n_iter[~easy] > 500).all()
    found = solutions(machine, "tap", X)
    assert len(found) == 1 and found.n_unconverged == 0


def test_what_has_not_settled_is_not_called_converged():
    """At a critical point sweeps come nearer ever more slowly, with more damping still more so."""
    unit, theta = Bernoulli(), Theta(np.array([-2.0]))
    machine, method = Machine((unit, unit), (theta, theta), (np.array([[4.0]]),)), NaiveMeanField()
    start = method.state_at(machine, np.array([[0.9], [0.1], [0.5]]))
    settled = solve_to_convergence(method, machine, start)
    left = method.residual(settled.state, method.step(machine, settled.state))
    assert_array_equal(settled.converged, [False, False, True])
    assert_allclose(settled.residual, left, rtol=0.01)
    found = find_solutions(machine, method, np.array([[0.9], [0.1], [0.5]]))
    assert len(found) == 1 and found.n_unconverged == 2


@dataclass(frozen=True)
class Restless(NaiveMeanField):
    """Naive mean field that never converges where the first visible mean is above a bound."""

    bound: float = 0.5

    def residual(self, old, new):
        return super().residual(old, new) + (new.means[0][:, 0] > self.bound)


def test_starts_that_do_not_converge():
    """Of two solutions, all units off and all on, the second does not count, nor in log Z."""
    machine, X = uniform_machine(tilt=0.5), np.array([[0.0] * 4, [1.0] * 4, [0.0] * 4])
    found = solutions(machine, Restless(), X)
    assert found.n_unconverged == 1
    assert_array_equal(found.labels, [0, -1, 0])
    assert_array_equal(found.counts, [2])
    counted = log_partition(machine, Restless(), starts=X).value
    both, off, on = (
        log_partition(machine, NaiveMeanField(), starts=starts).value
        for starts in (X, X[:1], X[1:2])
    )
    assert counted == pytest.approx(off, rel=1e-12) and on - off > 1
    assert both == pytest.approx((off + on) / 2, rel=1e-12)


# ------------------------------------------------------------------- which are one


def components(means, tol):
    """Groups by the graph of all pairs, numbered by their first rows."""
    near = cdist(means, means, "chebyshev") < tol
    labels = connected_components(near, directed=False)[1]
    first = {label: i for i, label in reversed(list(enumerate(labels)))}
    rank = {label: k for k, label in enumerate(sorted(first, key=first.get))}
    return np.array([rank[label] for label in labels])


@pytest.mark.parametrize("tol", [0.05, 0.3])
@pytest.mark.parametrize("n_columns", [1, 20, 100])
def test_groups_are_the_components_of_the_graph_of_all_pairs(tol, n_columns):
    generator = np.random.default_rng(n_columns)
    centres = generator.random((12, n_columns))
    means = centres[generator.integers(12, size=150)]
    means = means + generator.uniform(-0.05, 0.05, means.shape)
    groups = solution_groups(means, tol)
    assert_array_equal(groups, components(means, tol))
    order = generator.permutation(150)
    assert solution_groups(means[order], tol).max() == groups.max()


def test_the_order_of_the_starts_does_not_matter():
    machine, X = block_machine(), starts_of(12, 60)
    order = np.random.default_rng(1).permutation(60)
    one, other = solutions(machine, "tap", X), solutions(machine, "tap", X[order])
    assert len(one) == 8
    assert (np.diff(one.free_energies) > 1e-6).all()  # so that their order is no accident
    assert_allclose(other.free_energies, one.free_energies, rtol=1e-9)
    assert_allclose(other.visible_means, one.visible_means, atol=1e-6)
    assert_array_equal(other.counts, one.counts)
    assert_array_equal(other.labels, one.labels[order])
    assert other.n_unique == one.n_unique


def test_single_precision_is_kept_but_not_solved_in():
    double, single = (uniform_machine(4, 2.0, 0.1, dtype) for dtype in (np.float64, np.float32))
    found, expected = (solutions(m, "tap", starts_of(4)) for m in (single, double))
    assert found.visible_means.dtype == found.hidden_means.dtype == np.float32
    assert found.free_energies.dtype == np.float64
    assert_allclose(found.visible_means, expected.visible_means, atol=1e-5)
    # The parameters of both machines are equal up to 1e-7, and so are the free energies.
    assert_allclose(found.free_energies, expected.free_energies, atol=1e-5)


# ------------------------------------------------------------------------- log Z


def test_log_partition_by_both_weights():
    machine, X = block_machine(), starts_of(12, 60)
    found = solutions(machine, "tap", X)
    F = found.free_energies
    assert found.log_partition() == pytest.approx(-F.mean(), rel=1e-12)
    assert found.log_partition("uniform") == log_partition(machine, "tap", starts=X).value
    weights = np.exp(-F - logsumexp(-F))
    assert found.log_partition("boltzmann") == pytest.approx(-weights @ F, rel=1e-12)
    assert found.log_partition() < found.log_partition("boltzmann") < -F.min()
    with pytest.raises(ValueError, match="weights"):
        found.log_partition("equal")


# -------------------------------------------------------------------------- input


def test_the_method_is_that_of_the_estimator():
    """Of categories there are no equations of TAP; of other units they have other solutions."""
    X = np.random.default_rng(0).integers(0, 3, (60, 4))
    params = {"inference": "naive_mean_field", "n_iter": 1, "random_state": 0}
    rbm = CategoricalRBM(2, **params).fit(X)
    found, expected = solutions(rbm), solutions(rbm, "naive_mean_field")
    assert_array_equal(found.free_energies, expected.free_energies)
    sampled = BernoulliRBM.from_parameters(TAPRBM(3, **params).fit(np.eye(3)[X[:, 0]]))
    found, expected = (solutions(sampled, method) for method in ("auto", "tap"))
    assert_array_equal(found.free_energies, expected.free_energies)


def test_starts_of_an_estimator_or_of_chains():
    X = starts_of(4, 30)
    rbm = BernoulliRBM(3, n_iter=1, random_state=0).fit(X)
    assert len(solutions(rbm).labels) == len(rbm.starts_)
    assert len(solutions(rbm.machine_, NaiveMeanField(), random_state=0).labels) == 100
