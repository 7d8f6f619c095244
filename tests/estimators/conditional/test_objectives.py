"""What conditional machines learn from, against finite differences and enumeration.

Random tests have fixed seeds; "5 standard errors" is 6e-7 for one normal error, and each of these
tests makes at most 60 such comparisons, so that a right program fails one with less than 4e-5.
"""

import numpy as np
import pytest
from _conditional_machines import (
    Sums,
    corner,
    differences,
    leaves,
    log_likelihood,
    margin,
    marginal_margin,
    path,
    perceptron,
    random_machine,
)
from _conditional_rbm import holes_in
from _libraries import OTHER_LIBRARIES
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp
from sklearn.exceptions import ConvergenceWarning

from skrbm.arrays import make_rng, to_numpy
from skrbm.estimators.conditional._machine import PARAMETERS, ConditionalGradient
from skrbm.estimators.conditional._objectives import log_partitions, make_objective
from skrbm.inference import (
    TAP,
    AdaptiveTAP,
    BeliefPropagation,
    Gibbs,
    NaiveMeanField,
    RelaxedBP,
    propagate,
)
from skrbm.units import Categorical

EXACT = BeliefPropagation(max_iter=300, tol=1e-28)
MARGINS = {"margin": (margin, path), "marginal_margin": (marginal_margin, leaves)}


def gradient_of(machine, objective, X, Y, rng=None):
    """The gradient of one batch by each array, and the numbers for the history."""
    V, given = np.where(np.isnan(Y), 0, Y), machine.given(X)
    observed = None if not np.isnan(Y).any() else ~np.isnan(Y)
    data, model, report = objective.phases(given, V, observed, rng)
    arrays = ConditionalGradient(data - model, given, X).arrays(machine.leaves)
    return dict(zip(PARAMETERS, arrays, strict=True)), report


def some_rows(machine, n=5, seed=0):
    generator = np.random.default_rng(seed)
    X = generator.standard_normal((n, machine.coef_visible.shape[1]))
    if isinstance(machine.units[0], Categorical):
        return X, np.eye(machine.components.shape[1])[generator.integers(0, 3, n)]
    return X, generator.integers(0, 2, (n, machine.components.shape[1])).astype(float)


def assert_gradient(machine, name, method, truth, X, Y):
    gradient, _ = gradient_of(machine, make_objective(name, method, 1), X, Y)
    slopes = differences(lambda m: truth(m, X, Y), machine)
    for part in PARAMETERS:
        assert_allclose(gradient[part], slopes[part], rtol=1e-6, atol=1e-8, err_msg=part)


# ------------------------------------------------------------------- gradients


@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("edges", [path, leaves])
def test_likelihood_gradient_on_trees(holes, edges):
    """W is compared where there are couplings: elsewhere a difference would close a circle."""
    machine = random_machine(0, (4, 3, 2), edges)
    X, Y = some_rows(machine)
    Y = holes_in(Y) if holes else Y
    gradient, report = gradient_of(machine, make_objective("likelihood", EXACT, 1), X, Y)
    assert report == {"converged": 1.0}
    slopes = differences(lambda m: log_likelihood(m, X, Y), machine)
    coupled = machine.components != 0
    for part in PARAMETERS:
        where = coupled if part == "components" else slice(None)
        assert_allclose(gradient[part][where], slopes[part][where], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_likelihood_gradient_of_one_label(n_classes):
    """Two classes are one unit: a star around it."""
    if n_classes == 2:
        machine = random_machine(0, (1, 4, 2))
        X, Y = some_rows(machine)
    else:
        machine = random_machine(1, (n_classes, 4, 2), unit=Categorical())
        X, Y = some_rows(machine)
    assert_gradient(machine, "likelihood", EXACT, log_likelihood, X, Y)


METHODS = [EXACT, NaiveMeanField(), TAP(), TAP(order=3), AdaptiveTAP(), RelaxedBP(), "bp"]


@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.parametrize("holes", [False, True])
def test_logistic_regression_by_every_method(method, holes):
    machine = random_machine(0, (4, 0, 3))
    X, Y = some_rows(machine)
    Y = holes_in(Y) if holes else Y
    assert_gradient(machine, "likelihood", method, log_likelihood, X, Y)


class Minimiser(Gibbs):
    """Stands in for a chain: finds the outputs of minimum free energy, by enumeration."""

    def search(self, machine, rng):
        found = []
        for a, d in zip(*(theta.field for theta in machine.thetas), strict=True):
            V = Sums(random_machine(0, (len(a), 0, 1), unit=machine.units[0]), np.zeros(1)).V
            weights = V @ a + np.logaddexp(0, V @ machine.weights[0].T + d).sum(axis=1)
            found.append(V[np.argmax(weights)])
        return np.array(found)


@pytest.mark.parametrize("unit", [None, Categorical()], ids=str)
def test_perceptron_gradient(unit):
    machine = random_machine(3, (4, 3, 2), unit=unit)
    X, Y = some_rows(machine, n=8)
    Y[0] = Minimiser().search(machine.given(X), None)[0]  # this row is right and teaches nothing
    assert_gradient(machine, "perceptron", Minimiser(), perceptron, X, Y)
    _, report = gradient_of(machine, make_objective("perceptron", Minimiser(), 1), X, Y)
    best = np.array([Sums(machine, x).best()[0] for x in X])
    assert report == {"updated": np.mean((best != Y).any(axis=1))}
    assert 0 < report["updated"] < 1


@pytest.mark.parametrize("name", sorted(MARGINS))
@pytest.mark.parametrize("holes", [False, True])
def test_margin_gradient(name, holes):
    """Maximisers are unique for normal parameters, and stay so within the step."""
    truth, edges = MARGINS[name]
    machine = random_machine(0, (4, 3, 2), edges)
    X, Y = some_rows(machine)
    Y = holes_in(Y) if holes else Y
    assert_gradient(machine, name, EXACT, truth, X, Y)


@pytest.mark.parametrize("name", sorted(MARGINS))
def test_margin_gradient_of_one_label(name):
    """The loss of a label is 1 if it is wrong, whatever the number of classes."""

    def zero_one(V, y):
        return (V != y).any(axis=1)

    machine = random_machine(5, (4, 3, 2), unit=Categorical())
    X, Y = some_rows(machine, n=20)  # in a quarter of which the loss decides the label
    truth = MARGINS[name][0]
    assert_gradient(machine, name, EXACT, lambda m, X, Y: truth(m, X, Y, zero_one), X, Y)


# ----------------------------------------------------------------- short chains


def start_distribution(sums, machine, x, start):
    """Distribution of the rows of V that a chain starts at: a label, or a draw from the biases."""
    if start is not None:
        return (sums.V == start).all(axis=1).astype(float)
    free = Sums(machine, x).V @ (machine.coef_visible @ x + machine.intercept_visible)
    assert len(free) == len(sums.V)
    return np.exp(free - logsumexp(free))


def statistics(machine, sums, x):
    """What each row of V adds to the gradient of each array, hidden units at their means."""
    _, H = sums.chain()
    V, columns = sums.V, np.ones((len(sums.V), 1))
    return {
        "components": H[:, :, None] * V[:, None, :],
        "coef_visible": V[:, :, None] * x,
        "coef_hidden": H[:, :, None] * x,
        "intercept_visible": V * columns,
        "intercept_hidden": H * columns,
    }


def assert_chain(machine, objective, start, n_steps, only_better=False):
    """The gradient of many copies of one row has the mean of the enumerated chain.

    With ``only_better``, the end of the chain counts only if it is more probable than the label.
    Returns the numbers for the history, and the probability of that.
    """
    n, x = 20_000, np.array([0.7, -0.4])
    sums = Sums(machine, x)
    y = sums.V[1 if isinstance(machine.units[0], Categorical) else 5]
    first = start_distribution(sums, machine, x, y if start == "label" else None)
    sweep, _ = sums.chain()
    ends = first @ np.linalg.matrix_power(sweep, n_steps)
    parts = statistics(machine, sums, x)
    label = np.flatnonzero((sums.V == y).all(axis=1))[0]
    taken = np.arange(len(ends))
    better = logsumexp(sums.log_weights, axis=1) > logsumexp(sums.log_weights[label])
    if only_better:
        taken = np.where(better, taken, label)
    gradient, report = gradient_of(
        machine, objective, np.tile(x, (n, 1)), np.tile(y, (n, 1)), make_rng(0, machine.components)
    )
    for name in PARAMETERS:
        values = parts[name][taken]
        mean = np.tensordot(ends, values, 1)
        variance = np.tensordot(ends, values**2, 1) - mean**2
        error = 5 * np.sqrt(np.maximum(variance, 0) / n) + 1e-10
        assert (np.abs(gradient[name] - (parts[name][label] - mean)) <= error).all(), name
    return report, ends @ better


units = pytest.mark.parametrize("unit", [None, Categorical()], ids=str)


@units
@pytest.mark.parametrize("n_steps", [1, 2, 10])
@pytest.mark.parametrize("chains, start", [("data", "label"), (None, "biases")])
def test_expected_gradient_of_contrastive_divergence(unit, n_steps, chains, start):
    machine = random_machine(4, (4, 3, 2), unit=unit)
    objective = make_objective("likelihood", Gibbs(n_steps, start=chains), 1)
    assert_chain(machine, objective, start, n_steps)


@units
@pytest.mark.parametrize("n_steps", [1, 10])
def test_expected_gradient_of_the_perceptron(unit, n_steps):
    machine = random_machine(4, (4, 3, 2), unit=unit)
    objective = make_objective("perceptron", Gibbs(n_steps), 1)
    report, expected = assert_chain(machine, objective, "biases", n_steps, only_better=True)
    assert abs(report["updated"] - expected) < 5 * 0.5 / np.sqrt(20_000)


@pytest.mark.parametrize("name, start", [("likelihood", "data"), ("perceptron", None)])
def test_missing_outputs_are_drawn_by_a_chain_in_which_the_others_are_fixed(name, start):
    """Known outputs stay, and 60 sweeps leave no trace of the start."""
    machine, x, n = random_machine(5, (4, 3, 2)), np.array([0.7, -0.4]), 20_000
    y = np.array([1, np.nan, 0, np.nan])
    objective = make_objective(name, Gibbs(60, start=start), 1)
    X, Y = np.tile(x, (n, 1)), np.tile(y, (n, 1))
    rng = make_rng(0, X)
    given = machine.given(X)
    data, _, _ = objective.phases(given, np.where(np.isnan(Y), 0, Y), ~np.isnan(Y), rng)
    (block,) = data.blocks
    V, exact = block.means[0], Sums(machine, x, y)
    known = ~np.isnan(y)
    assert_array_equal(V[:, known], Y[:, known])
    for v, p in zip(exact.V, np.exp(exact.log_p), strict=True):
        share = (V == v).all(axis=1).mean()
        assert abs(share - p) < 5 * np.sqrt(p * (1 - p) / n)


# ------------------------------------------------------------------------ log Z


@pytest.mark.parametrize("sizes", [(3, 7, 2), (7, 3, 2), (4, 0, 2), (1, 5, 2)])
@pytest.mark.parametrize("copies", [1, 200, 2000])
def test_log_partition_by_enumeration(sizes, copies):
    """Of the smaller layer; all configurations are a block for 5 rows, and one for 10,000."""
    machine = random_machine(0, sizes)
    X, _ = some_rows(machine)
    expected = [Sums(machine, x).log_z for x in X]
    found = log_partitions(machine.given(np.tile(X, (copies, 1))))
    assert_allclose(found, np.tile(expected, copies), rtol=1e-12 if sizes[0] == 1 else 1e-7)


@pytest.mark.law
@pytest.mark.parametrize("library", ["numpy", *OTHER_LIBRARIES])
def test_log_partition_of_large_layers_is_that_of_belief_propagation(library):
    """Rows that do not converge are damped, and only these; some never do.

    Of 13 units in each layer, 6 have couplings.
    """
    xp = pytest.importorskip(library)
    machine = random_machine(3, (13, 13, 2), corner, strength=3.5)
    X = np.random.default_rng(0).standard_normal((200, 2))
    given = machine.given(X)
    fields = [theta.field for theta in given.thetas]
    first = propagate(given.weights[0], *fields, tol=1e-12, max_iter=200, log_partition=True)
    damped = propagate(
        given.weights[0], *fields, tol=1e-12, max_iter=1000, damping=0.5, log_partition=True
    )
    settled = first.converged
    assert settled.any() and (~settled & damped.converged).any()
    arrays = type(machine)(machine.units, *(xp.asarray(part) for part in machine.leaves))
    n_lost = (~settled & ~damped.converged).sum()
    assert n_lost
    with pytest.warns(ConvergenceWarning, match=f"did not converge in {n_lost} of 200 rows"):
        found = log_partitions(arrays.given(xp.asarray(X)))
    assert type(found) is type(xp.asarray([0.0]))
    expected = np.where(settled, first.log_partition, damped.log_partition)
    where = settled | damped.converged
    assert_allclose(to_numpy(found)[where], expected[where], rtol=1e-8)
