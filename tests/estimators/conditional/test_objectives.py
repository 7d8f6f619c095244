"""What conditional machines learn from, against finite differences and enumeration.

Random tests have fixed seeds; "5 standard errors" is 6e-7 for one normal error, and each of these
tests makes at most 60 such comparisons, so that a right program fails one with less than 4e-5.
"""

from itertools import pairwise

import numpy as np
import pytest
from _conditional_machines import (
    Sums,
    corner,
    differences,
    hamming,
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
from scipy.special import expit, logsumexp
from sklearn.exceptions import ConvergenceWarning

from skrbm.arrays import make_rng, to_numpy
from skrbm.estimators.conditional._decisions import _logits, clamped, log_partitions
from skrbm.estimators.conditional._losses import loss_field, make_objective, wrong
from skrbm.estimators.conditional._machine import PARAMETERS, ConditionalGradient
from skrbm.inference import (
    TAP,
    AdaptiveTAP,
    BeliefPropagation,
    Clamped,
    ContrastiveDivergence,
    Gibbs,
    NaiveMeanField,
    RelaxedBP,
    propagate,
)
from skrbm.units import Categorical, Theta

EXACT = BeliefPropagation(max_iter=300, tol=1e-28)
MARGINS = {"margin": (margin, path), "marginal_margin": (marginal_margin, leaves)}


def gradient_of(machine, objective, X, Y, rng=None):
    """The gradient of one batch by each array, and the numbers for the history."""
    V, given = np.where(np.isnan(Y), 0, Y), machine.given(X)
    observed = None if not np.isnan(Y).any() else ~np.isnan(Y)
    data, model, report = objective.phases(given, V, observed, rng)
    arrays = ConditionalGradient(data - model, given, X).arrays(machine.values)
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


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("edges", [path, leaves])
def test_likelihood_gradient_on_trees(seed, holes, edges):
    """W is compared where there are couplings: elsewhere a difference would close a circle."""
    machine = random_machine(seed, (4, 3, 2), edges)
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


@pytest.mark.parametrize("method", METHODS[1:], ids=str)
def test_likelihood_gradient_by_other_methods_is_nearly_exact_for_weak_couplings(method):
    """Their errors vanish with the couplings, in proportion at least."""
    method = (
        method
        if isinstance(method, str)
        else type(method)(**{**vars(method), "max_iter": 200, "tol": 1e-20})
    )
    errors = []
    for strength in (0.02, 0.01):
        machine = random_machine(0, (4, 3, 2), strength=strength)
        X, Y = some_rows(machine)
        gradient, _ = gradient_of(machine, make_objective("likelihood", method, 100), X, Y)
        slopes = differences(lambda m, X=X, Y=Y: log_likelihood(m, X, Y), machine)
        errors.append(max(np.abs(gradient[part] - slopes[part]).max() for part in PARAMETERS))
    assert errors[0] < 0.02 and errors[1] < 0.6 * errors[0]


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


@pytest.mark.law
@pytest.mark.parametrize("name", sorted(MARGINS))
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("holes", [False, True])
def test_margin_gradient(name, seed, holes):
    """Maximisers are unique for normal parameters, and stay so within the step."""
    truth, edges = MARGINS[name]
    machine = random_machine(seed, (4, 3, 2), edges)
    X, Y = some_rows(machine, seed=seed)
    Y = holes_in(Y) if holes else Y
    assert_gradient(machine, name, EXACT, truth, X, Y)


@pytest.mark.parametrize("name", sorted(MARGINS))
def test_margin_gradient_of_one_label(name):
    """The loss of a label is 1 if it is wrong, whatever the number of classes."""

    def zero_one(V, y):
        return (V != y).any(axis=1)

    machine = random_machine(2, (4, 3, 2), unit=Categorical())
    X, Y = some_rows(machine)
    truth = MARGINS[name][0]
    assert_gradient(machine, name, EXACT, lambda m, X, Y: truth(m, X, Y, zero_one), X, Y)


@pytest.mark.parametrize("n, unit", [(3, None), (1, None), (3, Categorical())], ids=str)
def test_loss_field_is_the_hamming_loss(n, unit):
    machine = random_machine(0, (n, 0, 1), unit=unit)
    given, V = machine.given(np.zeros((1, 1))), Sums(machine, np.zeros(1)).V
    for y in V:
        added = V @ loss_field(given, y)
        expected = hamming(V, y) / (1 if unit is None else 2)  # a wrong class differs in two
        assert_array_equal(added - added[(V == y).all(axis=1)], expected)


def test_what_is_wrong_is_counted_once():
    V, values = np.eye(3)[[0, 1]], np.eye(3)[[0, 2]]
    for unit, expected in ((None, [[0, 0, 0], [0, 1, 1]]), (Categorical(), [[0], [1]])):
        given = random_machine(0, (3, 2, 1), unit=unit).given(np.zeros((1, 1)))
        assert_array_equal(wrong(given, V, values), expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_logits_turn_back_into_means(dtype):
    outputs = np.array([[0.0, 0.25, 1.0], [0.5, 0.125, 0.75]], dtype)
    classes = np.array([[0.0, 0.25, 0.75], [1.0, 0.0, 0.0]], dtype)
    for unit, means in ((None, outputs), (Categorical(), classes)):
        given = random_machine(0, (3, 2, 1), unit=unit).given(np.zeros((1, 1)))
        logits = _logits(given, means)
        assert logits.dtype == dtype and np.isfinite(logits).all()
        found = given.units[0].mean(Theta(logits))
        assert_allclose(found, means, rtol=1e-6, atol=1e-30)


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
@pytest.mark.parametrize("make, start", [(ContrastiveDivergence, "label"), (Gibbs, "biases")])
def test_expected_gradient_of_contrastive_divergence(unit, n_steps, make, start):
    machine = random_machine(4, (4, 3, 2), unit=unit)
    objective = make_objective("likelihood", make(n_steps), 1)
    assert_chain(machine, objective, start, n_steps)


def test_the_number_of_sweeps_is_told_apart():
    """The differences between chains of k and k + 1 sweeps exceed what the test above allows."""
    machine, x = random_machine(4, (4, 3, 2)), np.array([0.7, -0.4])
    sums = Sums(machine, x)
    sweep, _ = sums.chain()
    for start in (sums.V[5], None):
        first = start_distribution(sums, machine, x, start)
        means = [first @ np.linalg.matrix_power(sweep, k) @ sums.V for k in range(4)]
        for before, after in pairwise(means):
            assert np.abs(before - after).max() > 2 * 5 * 0.5 / np.sqrt(20_000)


@units
@pytest.mark.parametrize("n_steps", [1, 10])
def test_expected_gradient_of_the_perceptron(unit, n_steps):
    machine = random_machine(4, (4, 3, 2), unit=unit)
    objective = make_objective("perceptron", Gibbs(n_steps), 1)
    report, expected = assert_chain(machine, objective, "biases", n_steps, only_better=True)
    assert abs(report["updated"] - expected) < 5 * 0.5 / np.sqrt(20_000)


def test_perceptron_searches_ten_sweeps_by_name():
    objective = make_objective("perceptron", "gibbs", 1)
    assert objective.chain == Gibbs(10)
    for name, chain in (("cd", ContrastiveDivergence()), ("gibbs", Gibbs())):
        assert type(make_objective("likelihood", name, 1).chain) is type(chain)
        assert make_objective("likelihood", name, 1).chain == chain


def test_names_of_mean_field():
    made = [make_objective("likelihood", name, 3) for name in ("mean_field", "naive_mean_field")]
    assert made[0] == made[1] and made[0].method == NaiveMeanField(3, 1e-6)


@pytest.mark.parametrize(
    "name, make", [("likelihood", ContrastiveDivergence), ("perceptron", Gibbs)]
)
def test_missing_outputs_are_drawn_by_a_chain_in_which_the_others_are_fixed(name, make):
    """Known outputs stay, and 60 sweeps leave no trace of the start."""
    machine, x, n = random_machine(5, (4, 3, 2)), np.array([0.7, -0.4]), 20_000
    y = np.array([1, np.nan, 0, np.nan])
    objective = make_objective(name, make(60), 1)
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


# -------------------------------------------------------------------- inference


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "name, method",
    [
        ("likelihood", "bp"),
        ("likelihood", "mean_field"),
        ("margin", "bp"),
        ("marginal_margin", "bp"),
    ],
)
def test_outputs_stay_where_they_are_held(name, method, dtype):
    """Though 300 hidden units that are on pull them the other way, by 50 each."""
    machine = random_machine(0, (2, 300, 2), dtype=dtype)
    machine.components[:] = 50, -50
    machine.intercept_hidden[:] = 1e4
    V = np.array([[0, 1]], dtype)
    given = clamped(machine.given(np.zeros((1, 2), dtype)), V, V >= 0)
    found = make_objective(name, method, 20).decide(given)
    assert_array_equal(found.logits > 0, V)


@pytest.mark.parametrize("holes", [False, True])
def test_rules_of_prediction_on_trees(holes):
    """Marginals, joint maximum and marginal maximum, as each objective decides."""
    for edges, seed in [(path, s) for s in range(5)] + [(leaves, s) for s in range(5)]:
        machine = random_machine(seed, (4, 3, 2), edges)
        X, Y = some_rows(machine, n=8, seed=seed)
        Y = holes_in(Y) if holes else np.full_like(Y, np.nan)
        given = clamped(machine.given(X), np.where(np.isnan(Y), 0, Y), ~np.isnan(Y))
        sums = [Sums(machine, x, y) for x, y in zip(X, Y, strict=True)]
        for name in ("likelihood", "margin", "marginal_margin"):
            objective = make_objective(name, EXACT, 1)
            found, marginals = objective.decide(given), objective.marginals(given)
            assert_allclose(expit(marginals.logits), [s.mean() for s in sums], atol=1e-10)
            assert_allclose(marginals.hidden, [s.hidden_mean() for s in sums], atol=1e-10)
            decided = found.logits > 0
            if name == "likelihood":
                assert_array_equal(decided, np.array([s.mean() for s in sums]) > 0.5)
            elif name == "margin":
                assert_array_equal(decided, [s.best()[1] for s in sums])
            elif edges is leaves:
                assert_array_equal(decided, [s.best()[0] for s in sums])


def test_rules_of_prediction_differ():
    """The test above can tell the rules apart."""
    pairs = [
        (Sums(random_machine(seed, (4, 3, 2), leaves), x).best(), seed)
        for seed in range(20)
        for x in np.random.default_rng(seed).standard_normal((8, 2))
    ]
    assert any((marginal != joint).any() for (marginal, joint), _ in pairs)


@pytest.mark.parametrize("name", ["likelihood", "margin", "marginal_margin"])
def test_rules_of_prediction_of_one_label(name):
    machine = random_machine(6, (5, 4, 2), unit=Categorical())
    X, _ = some_rows(machine, n=20)
    objective = make_objective(name, EXACT, 1)
    given = machine.given(X)
    sums = [Sums(machine, x) for x in X]
    marginals = objective.marginals(given)
    assert_allclose(np.exp(marginals.logits), [s.mean() for s in sums], atol=1e-12)
    assert_allclose(marginals.hidden, [s.hidden_mean() for s in sums], atol=1e-12)
    best = [s.best()[name == "margin"] for s in sums]
    assert_array_equal(np.argmax(objective.decide(given).logits, axis=1), np.argmax(best, axis=1))


def test_mean_field_of_one_label_lies_between():
    """Naive mean field on a star: its fixed point, written out."""
    machine = random_machine(7, (4, 3, 2), unit=Categorical(), strength=0.5)
    X, _ = some_rows(machine)
    method = NaiveMeanField(max_iter=500, tol=1e-28)
    found = make_objective("likelihood", method, 1).marginals(machine.given(X))
    W, A, B, b, c = machine.values
    v = np.exp(found.logits)
    assert_allclose(v.sum(axis=1), 1, rtol=1e-12)
    h = expit(v @ W.T + X @ B.T + c)
    fields = h @ W + X @ A.T + b
    assert_allclose(v, np.exp(fields - logsumexp(fields, axis=1, keepdims=True)), rtol=1e-10)
    assert_allclose(found.hidden, h, rtol=1e-10)


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


def test_log_partition_of_one_label():
    machine = random_machine(0, (4, 6, 2), unit=Categorical())
    X, _ = some_rows(machine)
    found = log_partitions(machine.given(X))
    assert_allclose(found, [Sums(machine, x).log_z for x in X], rtol=1e-12)


def test_log_partition_is_exact_up_to_twelve_units():
    """A loopy machine, where the Bethe approximation is another number."""
    generator = np.random.default_rng(0)
    for n_hidden, exact in ((12, True), (13, False)):
        machine = random_machine(1, (14, n_hidden, 2))
        X = generator.standard_normal((3, 2))
        given = machine.given(X)
        found = log_partitions(given)
        expected = []
        for a, d in zip(*(theta.field for theta in given.thetas), strict=True):
            H = Sums(random_machine(0, (n_hidden, 0, 1)), np.zeros(1)).V
            visible = np.logaddexp(0, H @ machine.components + a).sum(axis=1)
            expected.append(logsumexp(H @ d + visible))
        assert np.allclose(found, expected, rtol=1e-10) == exact


@pytest.mark.law
@pytest.mark.parametrize("library", ["numpy", *OTHER_LIBRARIES])
def test_log_partition_of_large_layers_is_that_of_belief_propagation(library):
    """Rows that do not settle go on with damping, and only these; some never do.

    Of 13 units in each layer, 6 have couplings.
    """
    if library != "numpy":
        pytest.importorskip("array_api_compat")
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
    arrays = type(machine)(machine.units, *(xp.asarray(part) for part in machine.values))
    n_lost = (~settled & ~damped.converged).sum()
    assert n_lost
    with pytest.warns(ConvergenceWarning, match=f"did not converge in {n_lost} of 200 rows"):
        found = log_partitions(arrays.given(xp.asarray(X)))
    assert type(found) is type(xp.asarray([0.0]))
    expected = np.where(settled, first.log_partition, damped.log_partition)
    where = settled | damped.converged
    assert_allclose(to_numpy(found)[where], expected[where], rtol=1e-8)


# --------------------------------------------------------------- what it refuses


@pytest.mark.parametrize(
    "name, inference, words",
    [
        ("perceptron", "bp", r"'perceptron' does not work with inference='bp'; it takes 'gibbs'"),
        ("perceptron", NaiveMeanField(), "it takes 'gibbs', or a Gibbs object"),
        ("margin", "gibbs", "it takes 'bp', or a BeliefPropagation object"),
        ("margin", "mean_field", "it takes 'bp'"),
        ("marginal_margin", TAP(), "it takes 'bp'"),
        ("likelihood", BeliefPropagation(product="max"), "needs marginals.*product='sum'"),
        ("likelihood", BeliefPropagation(product="mixed"), "needs marginals.*product='sum'"),
        ("likelihood", Clamped(BeliefPropagation()), "which units are observed in each row"),
    ],
)
def test_objectives_that_do_not_fit_the_inference(name, inference, words):
    with pytest.raises(ValueError, match=words):
        make_objective(name, inference, 5)


@pytest.mark.parametrize("method", [TAP(), TAP(order=3), AdaptiveTAP(), RelaxedBP()], ids=str)
def test_one_label_is_refused_by_methods_that_need_variances(method):
    machine = random_machine(0, (4, 3, 2), unit=Categorical())
    objective = make_objective("likelihood", method, 5)
    with pytest.raises(ValueError, match=r"'mean_field'.*ConditionalRBM also 'bp'"):
        objective.decide(machine.given(np.zeros((1, 2))))
