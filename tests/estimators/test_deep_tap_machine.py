"""DeepTAPMachine: likelihoods, means and samples against enumeration, steps against a transcription
of Alg. 4 of Tramel et al. (2018), and what the two parts of its training do.
"""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from _estimators import (
    PAPER,
    all_rows,
    binary_data,
    noisy_patterns,
    small,
)
from _exact import Exact, clamped, log_likelihood
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.special import expit, softmax
from sklearn.base import clone

from skrbm import TAPRBM, DeepTAPMachine
from skrbm.estimators import _deep_tap_machine
from skrbm.evaluation import AIS, _deep
from skrbm.inference import TAP
from skrbm.inputs import LAYER_ATTRIBUTES
from skrbm.learning import SGD, Adam

LEVEL = 1e-6
depths = pytest.mark.parametrize("sizes", [(3, 2), (2, 2, 2)], ids=["two", "three"])


def deep(sizes=(5, 3), **params):
    return small(DeepTAPMachine, **{"n_components": sizes, "n_iter_pretrain": 2, **params})


def known(sizes=(3, 2), n_features=4, seed=0, strength=0.3, dtype=np.float64, **params):
    """A fitted machine with known random parameters."""
    generator, sizes = np.random.default_rng(seed), (n_features, *sizes)
    weights = [
        strength * generator.standard_normal((above, below)).astype(dtype)
        for below, above in itertools.pairwise(sizes)
    ]
    biases = [0.5 * generator.standard_normal(n).astype(dtype) for n in sizes]
    params = {"random_state": 0, "batch_size": 10, **params}
    return DeepTAPMachine.from_parameters(weights, biases, **params)


def copies(machine):
    """All parameters, as float64 copies."""
    parts = [*machine.components_, *machine.intercepts_]
    return [np.array(part, dtype=np.float64) for part in parts]


# ------------------------------------------------------------ likelihoods and means


@depths
def test_log_partition(sizes):
    """AIS within 6 standard errors: a probability of 2e-9, were it normal."""
    machine = known(sizes)
    exact = Exact(machine.machine_).log_z
    assert machine.log_partition(return_std=True) == (pytest.approx(exact, rel=1e-12), 0.0)
    assert machine.log_partition("exact") == machine.log_partition()
    value, std = machine.log_partition(AIS(500, 500), return_std=True)
    assert abs(value - exact) < 6 * std < 0.1
    tap, std = machine.log_partition("tap", return_std=True)
    assert abs(tap - exact) < 0.01 and np.isnan(std)
    assert abs(machine.log_partition("naive_mean_field") - exact) > 3 * abs(tap - exact)
    machine.components_[1][:] *= 2  # in place
    assert machine.log_partition() == pytest.approx(Exact(machine.machine_).log_z, rel=1e-10)


@depths
def test_means_of_any_layer(sizes):
    machine, X = known(sizes), all_rows(4)
    exact = clamped(machine.machine_, X)
    for layer, size in enumerate(sizes):
        truth = [one.mean(layer + 1) for one in exact]
        H = machine.transform_layer(X, layer)
        assert H.shape == (16, size)
        assert_allclose(H, truth, atol=0.005)
        assert_array_equal(machine.transform_layer(X, layer - len(sizes)), H)
        chosen = clone(machine).set_params(layer=layer)
        vars(chosen).update({k: v for k, v in vars(machine).items() if k.endswith("_")})
        assert_array_equal(chosen.transform(X), H)
        assert len(chosen.get_feature_names_out()) == size
        back = chosen.inverse_transform(H)
        assert_allclose(back, visible_means(machine, layer + 1, H), atol=0.005)
    assert_array_equal(machine.transform(X), machine.transform_layer(X, -1))
    assert_array_equal(machine.predict(X), expected_modes(machine, X))


def visible_means(machine, l, H):
    """E[v | layer l] for values between 0 and 1 too, by a sum over the layers below it."""
    weights, biases = machine.components_, machine.intercepts_
    below = [all_rows(len(biases[k])) for k in range(l)]
    grid = np.array(np.meshgrid(*(range(len(rows)) for rows in below), indexing="ij"))
    states = [rows[index] for rows, index in zip(below, grid.reshape(l, -1), strict=True)]
    log_p = sum(x @ b for x, b in zip(states, biases[:l], strict=True))
    for k in range(1, l):
        log_p = log_p + np.einsum("ci,ij,cj->c", states[k], weights[k - 1], states[k - 1])
    log_p = log_p + H @ weights[l - 1] @ states[l - 1].T
    return softmax(log_p, axis=1) @ states[0]


def expected_modes(machine, X):
    first = machine.transform_layer(X, 0)
    return first @ machine.components_[0] + machine.intercepts_[0] > 0


@depths
def test_sample_has_the_law_of_the_machine(sizes):
    """Independent chains; a right program fails at the level of 1e-6 with the next seed."""
    machine = known(sizes, strength=1.0)
    V = machine.sample(20_000, random_state=0)
    counts = np.bincount((V @ 2 ** np.arange(4)).astype(int), minlength=16)
    expected = np.exp(log_likelihood(machine.machine_, all_rows(4)))
    assert stats.chisquare(counts, 20_000 * expected).pvalue > LEVEL


@depths
def test_a_sweep_keeps_the_law_of_the_machine(sizes):
    machine, V = known(sizes, seed=1, strength=1.5), all_rows(4)
    expected = np.exp(log_likelihood(machine.machine_, V))
    drawn = np.random.default_rng(0).choice(16, 20_000, p=expected / expected.sum())
    moved = machine.gibbs(V[drawn], random_state=0)
    counts = np.bincount((moved @ 2 ** np.arange(4)).astype(int), minlength=16)
    assert stats.chisquare(counts, 20_000 * expected).pvalue > LEVEL


# ----------------------------------------------------------------- one hidden layer


def test_one_hidden_layer_is_taprbm():
    """The same steps from the same random numbers, and the same methods."""
    X, options = noisy_patterns(60), {"momentum": 0.5, "alpha": 0.01, "learning_rate": 0.2}
    one = deep((5,), n_iter_pretrain=0, **options).fit(X)
    rbm = small(TAPRBM, **PAPER | options).fit(X)
    assert_allclose(one.components_[0], rbm.components_, rtol=1e-10)
    assert_allclose(one.intercepts_[0], rbm.intercept_visible_, rtol=1e-10)
    assert_allclose(one.intercepts_[1], rbm.intercept_hidden_, rtol=1e-10)
    assert_array_equal(one.starts_, rbm.starts_)
    H, holes = rbm.transform(X), np.where(X[::-1] > 0, X, np.nan)
    for method, given in [
        ("transform", X),
        ("free_energy", X),
        ("score_samples", X),
        ("tap_log_likelihood", X),
        ("predict", X),
        ("inverse_transform", H),
        ("impute", holes),
    ]:
        result = getattr(one, method)(given)
        assert_allclose(result, getattr(rbm, method)(given), rtol=1e-8, err_msg=method)
    for name in ("exact", "tap", "ais"):
        assert one.log_partition(name) == pytest.approx(rbm.log_partition(name), rel=1e-8)
    draws = one.sample(5, random_state=3), rbm.sample(5, random_state=3)
    assert_array_equal(*draws)
    bare = deep(5, n_iter_pretrain=0, **options).fit(X)
    assert_array_equal(bare.components_[0], one.components_[0])


# ------------------------------------------------------------------ steps of learning


def sweep(a, c, W, bias, l):
    """Alg. 1 for binary units: new mean of layer l, all quantities of one row."""
    field, A = bias[l].copy(), np.zeros_like(bias[l])
    if l > 0:
        field += W[l - 1] @ a[l - 1]
        A -= W[l - 1] ** 2 @ c[l - 1]
    if l + 1 < len(a):
        field += W[l].T @ a[l + 1]
        A -= (W[l] ** 2).T @ c[l + 1]
    return expit(field + A * a[l] - A / 2)


def tap(W, bias, first, n_sweeps, held):
    """Means and variances after sweeps of odd, then even layers; ``held``: layer 0 is clamped."""
    a = [first, *(np.zeros_like(b) for b in bias[1:])]
    c = [np.zeros_like(b) for b in bias]
    for _ in range(n_sweeps):
        for parity in (1, 0):
            for l in range(parity, len(a), 2):
                if l > 0 or not held:
                    a[l] = sweep(a, c, W, bias, l)
                    c[l] = a[l] - a[l] ** 2
    return a, c


@pytest.mark.parametrize("sizes", [(4, 3), (4, 3, 2)], ids=["two", "three"])
def test_steps_are_those_of_algorithm_4(sizes):
    """Two batches of the same rows, with momentum and penalty; solved to the end."""
    X, rate, momentum, alpha, n = binary_data(n=10, n_features=6), 0.3, 0.5, 0.01, 400
    machine = known(
        sizes,
        6,
        strength=0.5,
        inference=TAP(max_iter=n, tol=1e-26),
        learning_rate=rate,
        optimizer=SGD(momentum, alpha=alpha, schedule="constant"),
        n_iter=1,
        warm_start=True,
    )
    parts = copies(machine)
    W, bias = parts[: len(sizes)], parts[len(sizes) :]
    velocity = [0.0] * len(parts)
    for _ in range(2):
        machine.fit(X)
        gradient = [np.zeros_like(part) for part in parts]
        for x in X:
            for sign, (a, c) in ((1, tap(W, bias, x, n, True)), (-1, tap(W, bias, x, n, False))):
                for l in range(len(W)):  # c of clamped visible units is 0
                    pair = np.outer(a[l + 1], a[l]) + W[l] * np.outer(c[l + 1], c[l])
                    gradient[l] += sign * pair / len(X)
                for l in range(len(bias)):
                    gradient[len(W) + l] += sign * a[l] / len(X)
        for l in range(len(W)):
            gradient[l] -= alpha * W[l]
        velocity = [momentum * u + rate * g for u, g in zip(velocity, gradient, strict=True)]
        parts = [part + u for part, u in zip(parts, velocity, strict=True)]
        W, bias = parts[: len(sizes)], parts[len(sizes) :]
        for one, other in zip(copies(machine), parts, strict=True):
            assert_allclose(one, other, rtol=0, atol=1e-9)


# --------------------------------------------------------------------- pretraining


def recorded_pretraining(monkeypatch):
    """Keep the estimators that pretrain, and the data that each was given."""
    seen = []

    class Recorded(TAPRBM):
        def fit(self, X, y=None):
            seen.append((self, X))
            return super().fit(X)

    monkeypatch.setattr(_deep_tap_machine, "TAPRBM", Recorded)
    return seen


@pytest.mark.parametrize("kind", [SGD, Adam])
def test_pretraining_is_greedy(kind, monkeypatch):
    """Each layer learns from samples of the one below: their means are within 5 standard errors
    (a right program fails with probability 5e-6 for the 6 means), and they are binary."""
    seen, X = recorded_pretraining(monkeypatch), noisy_patterns(500)
    rate = {SGD: 0.2, Adam: 0.02}[kind]
    options = {"learning_rate": rate, "optimizer": kind(alpha=0.01, penalty="l1")}
    machine = deep((6, 4, 2), n_iter=0, n_iter_pretrain=7, **options).fit(X)
    assert len(seen) == 3
    given = seen[0][1]  # the rows of X, each as often, in another order
    assert_array_equal(given[np.lexsort(given.T)], X[np.lexsort(X.T)])
    for l, (rbm, _) in enumerate(seen):
        assert (rbm.n_iter, rbm.n_components) == (7, (6, 4, 2)[l])
        plain = replace(options["optimizer"], schedule="constant", centered=False, average=False)
        assert (rbm.learning_rate, rbm.optimizer) == (rate, plain)
        assert_array_equal(machine.components_[l], rbm.components_)
        assert_array_equal(machine.intercepts_[l + 1], rbm.intercept_hidden_)
    assert_array_equal(machine.intercepts_[0], seen[0][0].intercept_visible_)
    H, means = seen[1][1], seen[0][0].transform(X)
    assert set(np.unique(H)) == {0, 1}
    errors = (H - means).mean(axis=0) / np.sqrt((means * (1 - means)).mean(axis=0) / len(X))
    assert np.abs(errors).max() < 5
    assert [len(history["epoch"]) for history in machine.pretraining_history_] == [7, 7, 7]
    assert (machine.n_iter_, machine.history_) == (0, {})
    seeds = {rbm.random_state for rbm, _ in seen}
    assert len(seeds) == 3


def test_pretraining_comes_once(monkeypatch):
    seen, X = recorded_pretraining(monkeypatch), binary_data()
    machine = deep(warm_start=True).fit(X)
    assert len(seen) == 2
    machine.fit(X).partial_fit(X)
    assert len(seen) == 2 and machine.n_iter_ == 7
    assert machine.history_["epoch"] == [1, 2, 3, 4, 5, 6, 7]
    machine.set_params(warm_start=False).fit(X)
    assert len(seen) == 4 and machine.n_iter_ == 3
    deep().partial_fit(X)
    assert len(seen) == 6
    deep(n_iter_pretrain=0).fit(X)
    assert len(seen) == 6


# ------------------------------------------------------------------------- learning


UNITS = [
    ("truncated_gaussian", "bernoulli"),
    ("truncated_gauss_bernoulli", "bernoulli"),
    ("bernoulli", "truncated_gaussian"),
    ("gaussian", "bernoulli"),
]


@pytest.mark.parametrize(("visible", "hidden"), UNITS)
def test_kinds_of_units(visible, hidden):
    X = binary_data() * (1 if visible == "bernoulli" else np.linspace(0.2, 0.9, 8))
    params = {"visible": visible, "hidden": hidden, "learning_rate": 0.01}
    machine = deep((4, 3), **params).fit(X)
    assert all(part is None or np.isfinite(part).all() for part in machine.precisions_)
    assert machine.precisions_[0] is None or machine.precisions_[0].shape == (8,)
    assert np.isfinite(machine.score(X)) and np.isfinite(machine.impute(X)).all()
    low, high = machine.units_[0].bounds
    V = machine.sample(50, random_state=0)
    assert V.shape == (50, 8) and (low <= V).all() and (high >= V).all()
    lists = {name.rstrip("_"): getattr(machine, name) for name in LAYER_ATTRIBUTES}
    kinds = dict(zip(("visible", "hidden"), machine.units_[:2], strict=True))
    same = DeepTAPMachine.from_parameters(machine.components_, **lists, **kinds)
    assert_allclose(same.free_energy(X), machine.free_energy(X), rtol=1e-10)


# -------------------------------------------------------------- the training loop


class Interrupted(TAP):
    """TAP that ends as Ctrl-C does in the pretraining of the second layer, of 5 and 3 units."""

    def step(self, machine, state):
        if machine.n_units == (5, 3):
            raise KeyboardInterrupt
        return super().step(machine, state)


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_interrupted_pretraining_of_a_first_fit_keeps_the_layers_so_far(method):
    """Those above have their first values."""
    X, sizes = binary_data(), (6, 5, 3, 2)
    machine = deep(sizes, inference=Interrupted(), warm_start=True)
    with pytest.raises(KeyboardInterrupt):
        getattr(machine, method)(X)
    whole, bare = (deep(sizes, n_iter=0, n_iter_pretrain=n).fit(X) for n in (2, 0))
    for l, origin in {0: whole, 1: whole, 3: bare}.items():
        assert_array_equal(machine.components_[l], origin.components_[l])
        assert_array_equal(machine.intercepts_[l + 1], origin.intercepts_[l + 1])
    assert_array_equal(machine.intercepts_[0], whole.intercepts_[0])
    epochs = [history.get("epoch", []) for history in machine.pretraining_history_]
    assert epochs == [[1, 2], [1, 2]] and machine.n_iter_ == 0
    assert np.isfinite(machine.score(X))
    machine.set_params(inference="tap", n_iter=1)
    assert getattr(machine, method)(X).n_iter_ == 1


# ------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    "arguments, message",
    [
        (([np.zeros((3, 4)), np.zeros((2, 5))],), r"components\[1\] has shape \(2, 5\).* 3 units"),
        (([np.zeros(3)],), r"components\[0\] must be a non-empty array of 2"),
        (([np.zeros((3, 4))], [np.zeros(4)]), "intercepts must be 2 arrays, one for each layer"),
        (([np.zeros((3, 4))], [np.zeros(4), np.zeros(2)]), r"intercepts\[1\] must have shape"),
        (([np.full((3, 4), np.nan)],), "NaN"),
        (([],), "components must be the weights of at least one hidden layer"),
    ],
)
def test_bad_parameters(arguments, message):
    with pytest.raises(ValueError, match=message):
        DeepTAPMachine.from_parameters(*arguments)
    with pytest.raises(ValueError, match=r"precisions\[0\] was passed, but Bernoulli"):
        DeepTAPMachine.from_parameters([np.zeros((3, 4))], precisions=[np.ones(4), None])


NAN = np.nan
HOLES = np.array([[1, NAN, 0, NAN], [NAN] * 4, [NAN, 0, 1, 1], [0, 1, 1, 0], [0, 1, NAN, NAN]])
one_to_three = pytest.mark.parametrize(
    "sizes", [(4,), (4, 3), (3, 2, 3)], ids=["one", "two", "three"]
)


def truth(machine, holes=HOLES):
    """log p of what is observed in each row, and the oracle of each row."""
    rows = [Exact(machine.machine_, observed=row) for row in holes]
    return np.array([row.log_z for row in rows]) - Exact(machine.machine_).log_z, rows


@one_to_three
@pytest.mark.parametrize(("visible", "strength"), [("bernoulli", 4.0), ("gaussian", 1.0)])
def test_scores_of_small_machines_are_exact(sizes, visible, strength):
    machine = known(sizes, strength=strength, visible=visible)
    assert_allclose(machine.score_samples(HOLES), truth(machine)[0], rtol=1e-8, atol=1e-8)


@one_to_three
def test_scores_of_what_is_not_summed_are_annealed(sizes, monkeypatch):
    """Each row to a standard error of 0.1 at most: off by 0.6 with a probability below 1e-6."""
    machine = known(sizes, strength=1.0)
    monkeypatch.setattr(_deep, "_LOG2_WORK", -1)
    holes = HOLES[np.isnan(HOLES).any(axis=1)]
    found = machine.score_samples(holes)
    assert_allclose(found, truth(machine, holes)[0], atol=0.6)
    assert_array_equal(machine.score_samples(holes[2:]), found[2:])


@one_to_three
def test_equations_are_near_the_sums(sizes):
    """Weights of 0.3, where the errors of TAP are below 0.01."""
    machine = known(sizes)
    log_p, rows = truth(machine)
    assert np.ptp(log_p) > 1
    assert_allclose(machine.tap_log_likelihood(HOLES), log_p, atol=0.01)
    assert_allclose(machine.free_energy(HOLES), [-row.log_z for row in rows], atol=0.005)
    for l in range(len(sizes)):
        means = machine.transform_layer(HOLES, l)
        assert_allclose(means, [row.mean(l + 1) for row in rows], atol=0.01)
        complete = machine.transform_layer(HOLES[3:4], l)
        assert_allclose(means[3:4], complete, rtol=1e-9)
    assert_array_equal(machine.transform(HOLES), means)
    W, b = machine.components_[0], machine.intercepts_[0]
    assert_array_equal(machine.predict(HOLES), machine.transform_layer(HOLES, 0) @ W + b > 0)
