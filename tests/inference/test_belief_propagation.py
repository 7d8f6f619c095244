"""Belief propagation against enumeration, and against plain forms of its equations in logarithms.

What every fixed point promises is in test_fixed_points.py.
"""

from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from _exact import Exact
from _libraries import OTHER_LIBRARIES
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, logsumexp, xlogy

from skrbm.arrays import to_numpy
from skrbm.inference import (
    BeliefPropagation,
    Propagated,
    _propagation,
    clamped,
    propagate,
    solve,
)
from skrbm.machine import Machine
from skrbm.units import Bernoulli, Theta

LIBRARIES = ["numpy", *OTHER_LIBRARIES]
products = pytest.mark.parametrize("product", ["sum", "max", "mixed"])


class Instance(NamedTuple):
    """Weights (n_hidden, n_visible) and fields."""

    W: np.ndarray
    b: np.ndarray
    c: np.ndarray

    def machine(self):
        return Machine((Bernoulli(), Bernoulli()), (Theta(self.b), Theta(self.c)), (self.W,))


def loopy(seed, n_visible=8, n_hidden=6, strength=1.0):
    generator = np.random.default_rng(seed)
    W = strength * generator.standard_normal((n_hidden, n_visible))
    return Instance(W, generator.standard_normal(n_visible), generator.standard_normal(n_hidden))


def tree(seed, n_visible=6, n_hidden=5, strength=2.0):
    """An instance whose couplings are a random tree over all units."""
    instance, generator = loopy(seed, n_visible, n_hidden, strength), np.random.default_rng(seed)
    edges, reached = np.zeros((n_hidden, n_visible), bool), [[0], []]
    waiting = [(0, i) for i in range(1, n_visible)] + [(1, j) for j in range(n_hidden)]
    while waiting:
        layer, unit = waiting.pop(generator.integers(len(waiting)))
        if not reached[1 - layer]:
            waiting.append((layer, unit))
            continue
        other = generator.choice(reached[1 - layer])
        edges[(unit, other) if layer else (other, unit)] = True
        reached[layer].append(unit)
    return instance._replace(W=instance.W * edges)


def scattered(seed, n_visible=4, n_hidden=7):
    """An instance where each hidden unit has one visible neighbour at most."""
    instance, generator = loopy(seed, n_visible, n_hidden, 2.0), np.random.default_rng(seed)
    chosen = generator.integers(-1, n_visible, n_hidden)[:, None]
    return instance._replace(W=instance.W * (chosen == np.arange(n_visible)))


def message(product, W, cavity):
    """What a unit sends in log-odds, given its own without the receiver."""
    if product == "max":
        return np.maximum(W + cavity, 0) - np.maximum(cavity, 0)
    return np.logaddexp(0, W + cavity) - np.logaddexp(0, cavity)


def plain(instance, n_iter, product="sum", damping=0.0):
    """Sweeps in log-odds; returns the beliefs and the messages both ways."""
    W, b, c = instance
    to_visible, visible = np.zeros_like(W), b
    for _ in range(n_iter):
        if product == "mixed":
            to_hidden = W * (visible > 0)
        else:
            to_hidden = message(product, W, visible - to_visible)
        hidden = c + to_hidden.sum(axis=1)
        new = message("sum" if product == "mixed" else product, W, hidden[:, None] - to_hidden)
        visible = damping * visible + (1 - damping) * (b + new.sum(axis=0))
        to_visible = np.log(damping * np.exp(to_visible) + (1 - damping) * np.exp(new))
    return visible, hidden, to_visible, to_hidden


def pair_beliefs(instance, n_iter):
    """P[v = h = 1] of each pair, from the four states."""
    visible, hidden, to_visible, to_hidden = plain(instance, n_iter)
    g_v, g_h = visible - to_visible, hidden[:, None] - to_hidden
    states = np.array([instance.W + g_v + g_h, g_v, g_h, 0 * g_v])
    return np.exp(states - logsumexp(states, axis=0))[0]


def bethe_log_partition(instance, n_iter):
    """The Bethe approximation by energies and entropies of the beliefs."""
    visible, hidden, *_ = plain(instance, n_iter)
    a, m, G = expit(visible), expit(hidden)[:, None], pair_beliefs(instance, n_iter)
    joint = -sum(xlogy(p, p) for p in (G, a - G, m - G, 1 - a - m + G)).sum()

    def entropy(p):
        return -(xlogy(p, p) + xlogy(1 - p, 1 - p)).sum()

    n_hidden, n_visible = instance.W.shape
    energy = instance.b @ a + instance.c @ m[:, 0] + (instance.W * G).sum()
    return energy + joint + (1 - n_hidden) * entropy(a) + (1 - n_visible) * entropy(m)


def best(instance, visible_only):
    """The largest log-weight and the values that have it: of all units, or of the visible ones."""
    exact = Exact(instance.machine())
    if not visible_only:
        winner = np.argmax(exact.probabilities)
        values = exact.values[winner]
        return np.log(exact.probabilities[winner]) + exact.log_z, *np.split(
            values, [len(instance.b)]
        )
    rows, weights = exact.layer_law(0)
    return np.log(weights.max()) + exact.log_z, rows[np.argmax(weights)]


def run(instance, **kwargs) -> Propagated:
    return propagate(*instance, **{"max_iter": 500, "tol": 1e-28, **kwargs})


def sweeps(instance, n_iter, product):
    """The state after so many sweeps, though nothing should change any more, as one row."""
    method, machine = BeliefPropagation(product=product), instance.machine()
    state = method.state_at(machine, instance.b[None])
    state = state._replace(beliefs=(instance.b[None], state.beliefs[1]))
    for _ in range(n_iter):
        state = method.step(machine, state)
    return state


# Against enumeration.


@pytest.mark.parametrize("seed", range(5))
def test_exact_on_trees(seed):
    instance = tree(seed)
    exact, found = Exact(instance.machine()), run(instance, log_partition=True, pairs=True)
    assert found.converged.all()
    assert_allclose(found.log_partition[0], exact.log_z, rtol=1e-12)
    for belief, l in ((found.visible, 0), (found.hidden, 1)):
        mean = exact.mean(l)
        assert_allclose(belief[0], np.log(mean) - np.log1p(-mean), rtol=1e-12, atol=1e-12)
    edges = instance.W != 0
    assert edges.sum() == 10  # one less than units
    assert_allclose(found.pairs[edges], exact.pair(0)[edges], rtol=1e-12)


# Ways, weights, and fields of near and far visible units, of hidden units between, of the centre.
LONG_WAYS = [
    (9, 50, 1000, -51, -90, -62),
    (30, 15, 30, -17, -25, -22),
    (4, 150, 300, -151, -290, 9),
]


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("numbers", LONG_WAYS)
@pytest.mark.parametrize("tol", [0.0, 1e-8])
def test_messages_arrive_through_units_whose_means_stand_still(library, numbers, tol):
    xp, (k, w, *fields) = pytest.importorskip(library), numbers
    near, far, between, centre = map(float, fields)
    W = np.zeros((k + 1, 2 * k))
    W[range(k), range(k)] = W[range(k), range(k, 2 * k)] = W[k, k:] = w
    b, c = np.repeat([near, far], k), np.append(np.full(k, between), centre)
    found = propagate(*map(xp.asarray, (W, b, c)), tol=tol)
    states = np.indices((2, 2, 2)).reshape(3, -1)  # of one of the ways from the centre
    weights = np.array([near, between, far]) @ states + w * states[1] * (states[0] + states[2])
    way = logsumexp(weights + w * states[2]) - logsumexp(weights)
    assert found.converged.all() or tol == 0  # where rounding may go on
    assert_allclose(to_numpy(found.hidden)[0, -1], centre + k * way, rtol=1e-10)


@pytest.mark.parametrize("seed", range(5))
def test_max_product_finds_the_maximum_on_trees(seed):
    instance = tree(seed)
    value, v, h = best(instance, visible_only=False)
    found = run(instance, product="max", log_partition=True)
    assert_array_equal(found.visible[0] > 0, v)
    assert_array_equal(found.hidden[0] > 0, h)
    assert_allclose(found.log_partition[0], value, rtol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_mixed_product_finds_the_marginal_maximum_where_hidden_units_are_leaves(seed):
    instance = scattered(seed)
    value, v = best(instance, visible_only=True)
    found = run(instance, product="mixed", log_partition=True)
    assert_array_equal(found.visible[0] > 0, v)
    assert_allclose(found.log_partition[0], value, rtol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_what_mixed_product_reports_is_the_weight_of_what_it_decides(seed):
    """Whether or not the decisions go round in a circle."""
    instance = loopy(seed)
    found = run(instance, product="mixed", log_partition=True, pairs=True)
    observed = (found.visible[0] > 0).astype(float)
    given = Exact(instance.machine(), observed=observed)
    assert_allclose(found.log_partition[0], given.log_z, rtol=1e-12)
    assert_allclose(found.pairs, np.outer(given.mean(1), observed), rtol=1e-12)
    if found.converged[0]:
        assert_allclose(expit(found.hidden[0]), given.mean(1), rtol=1e-12)


# Against plain forms.


@products
@pytest.mark.parametrize("shape", [(3, 150), (300, 40)])
@pytest.mark.parametrize("n_iter", [1, 10])
def test_each_sweep_is_that_of_the_plain_form(product, shape, n_iter):
    instance = loopy(n_iter, *shape, strength=6 / np.sqrt(sum(shape)))
    visible, hidden, *_ = plain(instance, n_iter, product)
    for belief, expected in zip(
        sweeps(instance, n_iter, product).beliefs, (visible, hidden), strict=True
    ):
        assert_allclose(belief[0], expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("seed", range(5))
def test_pair_beliefs_and_bethe_log_partition_of_loopy_machines(seed):
    instance = loopy(seed, strength=0.7)
    found = run(instance, log_partition=True, pairs=True)
    assert found.converged.all()
    assert_allclose(found.pairs, pair_beliefs(instance, 500), rtol=1e-10)
    assert_allclose(found.log_partition[0], bethe_log_partition(instance, 500), rtol=1e-10)


@products
@pytest.mark.parametrize(("largest", "field"), [(1.0, 1e4), (19.0, 1.0), (50.0, 100.0)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_large_weights_and_fields(product, largest, field, dtype):
    """No NaN, infinity or warning, and beliefs to rounding of the dtype."""
    generator = np.random.default_rng(int(largest * field))
    eps, n_visible, n_hidden = np.finfo(dtype).eps, 70, 40
    W = (largest * generator.uniform(-1, 1, (n_hidden, n_visible))).astype(dtype)
    W[:4, :4] = largest * np.array([-1, 1, 0, 1e-8])
    scales = field * 10.0 ** generator.integers(-3, 1, n_visible)
    b = (scales * generator.choice([-1, 1], n_visible)).astype(dtype)
    c = (-W.sum(axis=1) / 2 + field * generator.choice([0, 0, 1, -1], n_hidden)).astype(dtype)
    single, instance = Instance(W, b, c), Instance(*(x.astype(np.float64) for x in (W, b, c)))
    # A sum of n messages of size w is known to about n w eps. Errors grow by the factor 3 or so in
    # a sweep of such a machine, so that the reference is no better after many.
    size = field + largest * n_visible
    for n_iter in (1, 2):
        with np.errstate(all="raise", under="ignore"):
            state = sweeps(single, n_iter, product)
            found = run(single, product=product, log_partition=True, pairs=True)
        visible, hidden, *_ = plain(instance, n_iter, product)
        for belief, expected in zip(state.beliefs, (visible, hidden), strict=True):
            assert belief.dtype == dtype
            assert_allclose(belief[0], expected, rtol=0, atol=20 * eps * size)
        assert np.isfinite(found.log_partition).all()
        assert ((found.pairs >= 0) & (found.pairs <= 1 + 4 * eps)).all()


# Many instances.


def many(n=7, seed=0, dtype=np.float64):
    W = loopy(seed, 9, 5).W.astype(dtype)
    generator = np.random.default_rng(seed)
    return W, *(2 * generator.standard_normal((n, size)).astype(dtype) for size in (9, 5))


@products
@pytest.mark.parametrize("damping", [0.0, 0.4])
def test_instances_are_solved_as_the_driver_solves_them(product, damping):
    W, b, c = many()
    found = propagate(
        W, b, c, product=product, damping=damping, max_iter=30, log_partition=True, pairs=True
    )
    method, machine = BeliefPropagation(30, 1e-8, damping, product), Instance(W, b, c).machine()
    solution = solve(method, machine, method.state_at(machine, expit(b)))
    assert len(set(found.n_iter)) > 1 or product == "mixed"
    assert_array_equal(found.n_iter, solution.n_iter)
    assert_array_equal(found.converged, solution.converged)
    assert_allclose(found.residual, solution.residual, rtol=1e-6, atol=1e-20)
    beliefs = solution.state.beliefs
    assert_allclose(found.visible, beliefs[0], rtol=1e-10, atol=1e-12)
    assert_allclose(found.hidden, beliefs[1], rtol=1e-10, atol=1e-12)
    log_z = method.log_partition(machine, solution.state)
    assert_allclose(found.log_partition, log_z, rtol=1e-12)
    pair = method.moments(machine, solution.state).add_pair(machine, 0, np.zeros_like(W), 7.0)
    assert_allclose(found.pairs, pair, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_results_do_not_depend_on_threads_or_on_other_instances(dtype, monkeypatch):
    W, b, c = many(n=40, dtype=dtype)
    kwargs = {"log_partition": True, "pairs": True}
    one = propagate(W, b, c, **kwargs)
    monkeypatch.setattr(_propagation, "n_threads", lambda: 3)
    three = propagate(W, b, c, **kwargs)
    for a, other in zip(one, three, strict=True):
        assert_array_equal(a, other)
    assert one.visible.dtype == one.pairs.dtype == dtype and one.log_partition.dtype == np.float64
    alone = propagate(W, b[3], c[3])
    assert_array_equal(alone.visible[0], one.visible[3])
    assert alone.log_partition is alone.pairs is None


def test_from_a_tap_solution_propagation_ends_where_it_does_from_the_fields():
    W, b, c = many(n=40)
    options = {"max_iter": 500, "tol": 1e-24, "log_partition": True, "pairs": True}
    fields, tap = (propagate(W, b, c, start=start, **options) for start in ("fields", "tap"))
    assert fields.converged.all() and tap.converged.all()
    for name in ("visible", "hidden", "log_partition", "pairs"):
        assert_allclose(getattr(tap, name), getattr(fields, name), rtol=1e-9, atol=1e-9)
    options["tol"] = 1e-6
    weak = [propagate(0.3 * W, b, c, start=start, **options) for start in ("fields", "tap")]
    assert (weak[1].n_iter <= 2).all() and (weak[1].n_iter < weak[0].n_iter).all()


@pytest.mark.parametrize("library", LIBRARIES)
def test_small_weights_need_no_messages(library):
    """Up to the tolerance, which the third order of TAP's expansion measures."""
    xp = pytest.importorskip(library)
    generator = np.random.default_rng(0)
    W = 0.36 * generator.standard_normal((40, 60))
    b, c = (2 * generator.standard_normal((40, size)) for size in (60, 40))
    exact = propagate(W, b, c, tol=1e-24, pairs=True)
    assert exact.converged.all()
    arrays = [xp.asarray(part) for part in (W, b, c)]
    found = propagate(*arrays, start="tap", tol=1e-6, pairs=True)
    alone = found.n_iter == 0
    assert 0 < alone.sum() < len(alone)
    assert found.converged.all() and (found.residual <= 1e-6).all()
    assert (far(found, exact)[alone] < found.residual[alone]).all()
    assert (far(found, exact) < 2e-6).all()
    left = [xp.asarray(part) for part in (W, b[~alone], c[~alone])]
    same = propagate(*left, start="tap", tol=1e-6)
    assert_allclose(to_numpy(same.visible), to_numpy(found.visible)[~alone], rtol=1e-9)
    error = (to_numpy(found.pairs) - exact.pairs) / len(alone)
    assert (error**2).mean() < 1e-6


@pytest.mark.parametrize("w", [2.5, 6.4])
def test_strong_sparse_weights_need_messages(w):
    """Of 200 000 pairs two are coupled, which an average over all of them does not show."""
    W, b, c = np.zeros((256, 784)), np.zeros((1, 784)), np.zeros((1, 256))
    W[0, 0] = W[1, 1] = w
    b[0, :2] = c[0, :2] = -w / 2 - 1
    found = propagate(W, b, c, start="tap", tol=1e-6, pairs=True)
    weights = np.exp([0, b[0, 0], c[0, 0], b[0, 0] + c[0, 0] + w])  # of both, of v, of h, of both
    p = weights / weights.sum()
    assert found.n_iter[0] > 0
    assert_allclose(expit(found.visible[0, :2]), p[1] + p[3], rtol=1e-9)
    assert_allclose(expit(found.hidden[0, :2]), p[2] + p[3], rtol=1e-9)
    assert_allclose(found.pairs[[0, 1], [0, 1]], p[3], rtol=1e-9)


def far(found, exact):
    """The mean squared distance of the means of each instance."""
    distances = [
        expit(to_numpy(getattr(found, name))) - expit(getattr(exact, name))
        for name in ("visible", "hidden")
    ]
    return (np.concatenate(distances, axis=1) ** 2).mean(axis=1)


@pytest.mark.parametrize(
    "options", [{"tol": 0.0}, {"log_partition": True, "tol": 1e-3}], ids=["no tolerance", "log Z"]
)
def test_what_an_expansion_is_not_good_for(options):
    W, b, c = many(n=4)
    assert (propagate(0.1 * W, b, c, start="tap", **options).n_iter > 0).all()


def test_an_expansion_is_not_trusted_where_symmetry_hides_its_error():
    """At means of a half all odd orders vanish, and with them what the third order measures."""
    W = np.array([[3.0]])
    b, c = np.array([-1.5]), np.array([-1.5])
    found = propagate(W, b, c, start="tap", tol=1e-6, pairs=True)
    assert found.n_iter[0] > 0
    assert_allclose(found.pairs, np.exp(0) / (2 + 2 * np.exp(-1.5)), rtol=1e-6)


@pytest.mark.parametrize(
    ("product", "start"),
    [("sum", "fields"), ("sum", "tap"), ("max", "fields"), ("mixed", "fields")],
)
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_array_libraries(library, product, start, dtype):
    xp = pytest.importorskip(library)
    arrays = many(dtype=np.dtype(dtype))
    kwargs = {"product": product, "start": start, "damping": 0.2}
    kwargs |= {"log_partition": True, "pairs": True}
    expected = propagate(*arrays, **kwargs)
    found = propagate(*(xp.asarray(part) for part in arrays), **kwargs)
    tolerance = 1e-10 if dtype == "float64" else 2e-4
    assert_array_equal(found.n_iter, expected.n_iter)
    for name in ("visible", "hidden", "log_partition", "pairs"):
        part, reference = getattr(found, name), getattr(expected, name)
        assert type(part) is type(xp.asarray([0.0]))
        assert_allclose(to_numpy(part), reference, rtol=tolerance, atol=tolerance)


# What it refuses.


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"W": np.ones(3)}, "W must have"),
        ({"b": np.ones((7, 8))}, "visible_fields must have shape"),
        ({"c": np.ones((6, 5))}, "visible_fields and hidden_fields must have the same number"),
        ({"b": np.ones((0, 9)), "c": np.ones(5)}, "instances, at least 1"),
        ({"c": np.full(5, np.nan)}, "hidden_fields contains NaN"),
        ({"W": np.full((5, 9), np.inf)}, "W contains NaN"),
        ({"W": np.full((5, 9), 201.0)}, "weights between -200 and 200"),
        ({"W": np.full((5, 9), -81, "f4")}, "float32 needs weights between -80 and 80"),
        ({"W": np.ones((5, 9), complex)}, "W must be an array of real numbers"),
        ({"c": np.full(5, None)}, "hidden_fields must be an array of real numbers"),
        ({"c": sp.csr_array(np.ones((7, 5)))}, "hidden_fields must be dense"),
        ({"product": "min"}, "product"),
        ({"tol": -1.0}, "tol"),
        ({"start": "mean_field"}, "start"),
        ({"start": "tap", "product": "max"}, "start"),
    ],
)
def test_bad_input_is_named(change, words):
    arrays = dict(zip("Wbc", many(), strict=True)) | change
    W, b, c = (arrays.pop(name) for name in "Wbc")
    with pytest.raises(ValueError, match=words):
        propagate(W, b, c, **arrays)


def test_held_units_are_exact_beside_strong_couplings():
    """A value that is held is known, however strongly its neighbours pull."""
    instance = loopy(3, strength=50.0)
    machine, method = instance.machine(), BeliefPropagation()
    X = np.random.default_rng(0).integers(0, 2, (4, 8)).astype(float)
    state = method.step(clamped(machine, X, X >= 0), method.state_at(machine, X))
    beliefs = state.beliefs[1]
    assert_allclose(beliefs, instance.c + X @ instance.W.T, rtol=1e-12)
