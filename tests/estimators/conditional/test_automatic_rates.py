"""ConditionalRBM: learning rates that are found in training."""

from dataclasses import replace

import numpy as np
import pytest
from _conditional_machines import Sums, log_likelihood
from _conditional_rbm import data, holes_in, labels, small, values
from sklearn.linear_model import LogisticRegression

from skrbm.arrays import make_rng
from skrbm.estimators.conditional import _automatic
from skrbm.estimators.conditional._automatic import AutomaticConditionalLearner, Draws
from skrbm.estimators.conditional._machine import ConditionalMachine
from skrbm.units import Bernoulli

AUTO = {"learning_rate": "auto", "schedule": "linear"}


def targets(kind, **params):
    X, Y = data(**params)
    return X, {"outputs": Y, "binary": Y[:, 0], "label": labels(Y)}[kind]


def divergence(machine, after, X):
    """Mean over rows of KL(p(v | x) before || after), and half the variance of the change of F."""
    found = []
    for x in X:
        old, new = Sums(machine, x), Sums(after, x)
        change, p = old.log_p - new.log_p, np.exp(old.log_p)
        found.append((p @ change, p @ (change - p @ change) ** 2 / 2))
    return np.mean(found, axis=0)


def weak(seed, strength):
    generator = np.random.default_rng(seed)
    shapes = (3, 4), (4, 3), (3, 3), (4,), (3,)
    parts = (strength * generator.standard_normal(shape) for shape in shapes)
    return ConditionalMachine((Bernoulli(), Bernoulli()), *parts)


def test_draws_measure_the_divergence_of_a_step():
    """By 80 000 draws, whose standard error is below 1 % of the variance.

    Couplings of 0.5 forget the targets in the two steps of a chain, but for 2 % of the variance.
    """
    X, Y = data(n=20)
    machine, step = weak(0, 0.5), weak(1, 0.05)
    parts = (old + new for old, new in zip(machine.values, step.values, strict=True))
    after = ConditionalMachine(machine.units, *parts)
    many = np.tile(X, (2000, 1)), np.tile(Y.astype(float), (2000, 1))
    change = Draws(machine, *many, None, make_rng(0, X)).change(after)
    exact, second = divergence(machine, after, X)
    assert second == pytest.approx(exact, rel=0.1)
    assert np.var(change) / 2 == pytest.approx(second, rel=0.06)


@pytest.mark.law
@pytest.mark.parametrize("inference", ["bp", "cd"])
def test_steps_stay_in_the_trust_region(inference, monkeypatch):
    """On average, by enumeration, where nothing but the region holds steps back.

    Over six seeds the mean of the steps had 0.45 to 0.82 of the largest divergence by BP, and 0.19
    to 0.45 by CD. Single batches have longer gradients than those that were measured.
    """
    X, Y = data(n=100)
    found = []

    class Watched(AutomaticConditionalLearner):
        def _take(self, training, *args):
            before = training.machine.copy()
            report = super()._take(training, *args)
            if training.n_epochs > 25:
                found.append(divergence(before, training.machine, X[:10])[0])
            return report

    def rule(*args, **options):
        return replace(original(*args, **options), factor=1e9, largest_divergence=2e-3)

    original = _automatic.rule_for
    monkeypatch.setattr(_automatic, "rule_for", rule)
    monkeypatch.setattr(_automatic, "AutomaticConditionalLearner", Watched)
    small(inference=inference, learning_rate="auto", n_iter=30).fit(X, Y)
    found = np.array(found) / (2e-3 * Y.shape[1])
    assert 0.1 < found.mean() < 1.3


@pytest.mark.parametrize("kind", ["binary", "label"])
def test_without_hidden_units_it_ends_near_the_best_likelihood(kind):
    """At most 0.01 nats below logistic regression without a penalty; five seeds had 0.003."""
    X, y = targets(kind, n=200)
    crbm = small(n_components=0, n_iter=40, **AUTO).fit(X, y)
    best = LogisticRegression(C=1e6, max_iter=10_000).fit(X, y).predict_log_proba(X)
    best = best[np.arange(len(y)), np.searchsorted(crbm.classes_, y)].mean()
    assert best - 0.01 < crbm.score_samples(X, y).mean() <= best + 1e-6


@pytest.mark.law
@pytest.mark.parametrize("inference", ["bp", "cd"])
def test_likelihood_by_enumeration(inference):
    """Not worse than 0.1 nats below the better one of two fixed rates, whatever the units."""
    X, Y = data(n=200)

    def score(rate):
        params = {"inference": inference, "n_iter": 15, "schedule": "linear"}
        crbm = small(learning_rate=rate, **params).fit(X, Y)
        return log_likelihood(crbm.machine_, X, Y.astype(float))

    assert score("auto") > max(score(0.05), score(0.3)) - 0.1


@pytest.mark.parametrize("scale", [1e-3, 1e3])
@pytest.mark.parametrize("inference", ["bp", "cd"])
def test_features_of_any_scale(inference, scale):
    """Independent outputs have log 2 each; a fixed rate of 0.05 is lost at 1000."""
    X, Y = data(n=100)
    crbm = small(inference=inference, n_iter=10, **AUTO).fit(scale * X, Y)
    assert all(np.isfinite(part).all() for part in values(crbm))
    assert crbm.score_samples(scale * X, Y).mean() > -3.5


@pytest.mark.parametrize("kind", ["outputs", "binary", "label"])
def test_calls_of_partial_fit_go_on_with_the_rate(kind):
    X, y = targets(kind)
    crbm, classes = small(learning_rate="auto"), {"classes": np.unique(y)}
    for _ in range(4):
        crbm.partial_fit(X, y, **({} if kind == "outputs" else classes))
    assert crbm._training.rate_state.n_steps > 20 and len(set(crbm.history_["learning_rate"])) == 4


def test_missing_outputs():
    X, Y = data()
    crbm = small(**AUTO).fit(X, holes_in(Y))
    assert all(np.isfinite(part).all() for part in values(crbm))
    assert min(crbm.history_["learning_rate"]) > 0


@pytest.mark.parametrize("objective", ["perceptron", "margin", "marginal_margin"])
@pytest.mark.parametrize("init", ["random", "logistic"])
def test_objectives_without_a_likelihood_are_refused(objective, init):
    crbm = small(objective=objective, init=init, learning_rate="auto")
    with pytest.raises(ValueError, match=r"needs objective='likelihood'; .* set a number"):
        crbm.fit(*data())
    assert not hasattr(crbm, "components_")
