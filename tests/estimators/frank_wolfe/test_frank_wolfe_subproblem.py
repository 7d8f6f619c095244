"""The subproblem of Frank-Wolfe and its line search, against sums, differences and quadrature."""

import numpy as np
import pytest
import scipy.sparse as sp
from _fractional import all_rows, fractional_machine, unnormalised
from numpy.testing import assert_allclose
from scipy.special import logsumexp

from skrbm.estimators.frank_wolfe import _samples
from skrbm.estimators.frank_wolfe._growth import Subproblem, best_step
from skrbm.estimators.frank_wolfe._samples import WeightedRows


def gain_of_step(step, slope, change, weights):
    """By how much the penalised likelihood rises: log Z rises by log E exp(step * change)."""
    return step * slope - logsumexp(step * change, b=weights)


def bits(n, d, seed, p=0.3):
    return (np.random.default_rng(seed).random((n, d)) < p).astype(np.float64)


def atoms_of(n, d, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d + 1))


def objective(X, V, weights, alpha, w):
    """Eq. (9), written down: the bias is the weight of a visible unit that is always 1."""

    def mean(rows, p):
        return p @ np.logaddexp(0, rows @ w[:-1] + w[-1])

    data = mean(X, np.full(len(X), 1 / len(X)))
    return 0.5 * alpha * w @ w + mean(V, weights) - data


KINDS = {
    "float64": lambda X: X,
    "float32": lambda X: X.astype(np.float32),
    "uint8": lambda X: X.astype(np.uint8),
    "bool": lambda X: X.astype(bool),
    "csr float64": sp.csr_array,
    "csr float32": lambda X: sp.csr_array(X.astype(np.float32)),
    "csr bool": lambda X: sp.csr_array(X.astype(bool)),
}
kinds = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


@kinds
@pytest.mark.parametrize("n_atoms", [1, 5])
@pytest.mark.parametrize("copies", [False, True])
def test_objective(kind, n_atoms, copies, monkeypatch):
    if copies:  # small data are then treated as large ones are
        monkeypatch.setattr(_samples, "_WORTH_A_COPY", 0)
        monkeypatch.setattr(_samples, "_SPARSE_BELOW", 1.0)
        monkeypatch.setattr(_samples, "_BLOCK_ELEMENTS", 100)
    X, V, w = bits(150, 7, 0), bits(130, 7, 1, 0.5), atoms_of(n_atoms, 7)
    p = np.random.default_rng(2).dirichlet(np.ones(130))
    problem = Subproblem(WeightedRows(kind(X)), WeightedRows(kind(V), p), 0.2)
    values, gradients = problem(w)
    single = problem.data.dtype == np.float32
    assert_allclose(
        values, [objective(X, V, p, 0.2, atom) for atom in w], atol=2e-6 if single else 1e-12
    )
    step = 1e-5
    for k, i in np.ndindex(w.shape):
        ends = [w[k] + sign * step * np.eye(8)[i] for sign in (1, -1)]
        slope = np.subtract(*(objective(X, V, p, 0.2, end) for end in ends)) / (2 * step)
        assert gradients[k, i] == pytest.approx(slope, abs=2e-6 if single else 1e-9)


def test_objective_is_the_functional_gradient():
    """phi(w) is the derivative of the penalised likelihood by the multiplicity of w."""
    machine, log_p, _ = fractional_machine([0.6, 1.3], 5)
    V, X, w, alpha = all_rows(5), bits(40, 5, 3), atoms_of(1, 5, 4), 0.1
    value, _ = Subproblem(WeightedRows(X), WeightedRows(V, np.exp(log_p)), alpha)(w)

    def likelihood(c):
        W = np.vstack([machine.weights[0], w[:, :-1]])
        bias = np.append(machine.thetas[1].field, w[:, -1])
        counts = np.append(machine.units[1].multiplicities, c)
        args = W, bias, machine.thetas[0].field, counts
        penalty = 0.5 * alpha * counts @ (np.square(W).sum(axis=1) + bias**2)
        log_z = logsumexp(unnormalised(V, *args))
        return unnormalised(X, *args).mean() - log_z - penalty

    slope = (likelihood(1e-5) - likelihood(-1e-5)) / 2e-5
    assert -value[0] == pytest.approx(slope, abs=1e-8)
    # ... and the line search's gain is the difference of two likelihoods.
    data, change = WeightedRows(X).softplus(w)[:, 0].mean(), WeightedRows(V).softplus(w)[:, 0]
    rise = data - 0.5 * alpha * float(w[0] @ w[0])
    for step in (0.1, 1.0, 2.5):
        gain = gain_of_step(step, rise, change, np.exp(log_p))
        assert gain == pytest.approx(likelihood(step) - likelihood(0.0), abs=1e-10)


def test_the_solution_has_no_slope():
    """It is the best of those that each start leads to."""
    X, V = bits(80, 6, 5), bits(70, 6, 6, 0.6)
    problem = Subproblem(WeightedRows(X), WeightedRows(V), 0.02)
    starts, options = 2 * atoms_of(6, 6, 7), {"maxiter": 500, "gtol": 1e-8, "ftol": 0}
    atom, value = problem.solve(starts, **options)
    (found,), gradient = problem(atom[None])
    assert value == pytest.approx(found, abs=1e-12)
    assert np.abs(gradient).max() < 1e-6
    alone = [problem.solve(start[None], **options)[1] for start in starts]
    assert value == pytest.approx(min(alone), abs=1e-12)


def test_best_step_where_the_largest_change_has_no_probability():
    rows = WeightedRows(np.eye(3), np.array([0.5, 0.5, 0.0]))
    change = np.array([0.0, 1.0, 2000.0])
    assert best_step(np.inf, change, rows) == (1.0, False)
    step, is_cut = best_step(0.6, change, rows)
    assert step == pytest.approx(np.log(1.5)) and not is_cut


@pytest.mark.law
@pytest.mark.parametrize("weighted", [False, True])
def test_best_step(weighted):
    generator = np.random.default_rng(0)
    change = generator.standard_normal(200)
    weights = generator.dirichlet(np.ones(200)) if weighted else None
    rows = WeightedRows(np.zeros((200, 1)), weights)
    own = np.full(200, 1 / 200) if weights is None else weights

    def ess(values):
        return (own @ np.exp(values)) ** 2 / (own @ np.exp(2 * values))

    grid = np.linspace(-0.5, 1, 3001)
    reached = []
    for slope in (-20.0, -2.0, -0.3, 0.0, 0.4, 2.0, 20.0):
        gains = [gain_of_step(step, slope, change, own) for step in grid]
        step, is_cut = best_step(slope, change, rows, low=-0.5, high=1.0)
        assert step == pytest.approx(grid[np.argmax(gains)], abs=1e-3)
        assert not is_cut
        if weighted:  # only chains, of one probability each, may be too few
            continue
        step, is_cut = best_step(slope, 3 * change, rows, low=-0.5, high=1.0, min_ess=0.5)
        assert ess(step * 3 * change) >= 0.4999
        gains = [gain_of_step(step, slope, 3 * change, own) for step in grid]
        best = grid[np.argmax(gains)]
        if is_cut:  # the way on leads up
            reached.append(np.sign(step))
            assert abs(best) > abs(step) and ess(step * 3 * change) < 0.5001
        else:
            assert step == pytest.approx(best, abs=1e-3)
    assert weighted or reached == [-1, 1]  # backwards and forwards
