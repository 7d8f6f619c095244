"""ConditionalRBM: how it learns, where it starts and when it stops."""

import numpy as np
import pytest
from _conditional_rbm import (
    WORDS,
    assert_same,
    data,
    every,
    holes_in,
    labels,
    small,
    values,
)
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.multioutput import MultiOutputClassifier

from skrbm import BernoulliRBM, ConditionalRBM
from skrbm.estimators.conditional import _estimator, _learner
from skrbm.estimators.conditional._losses import make_objective
from skrbm.inference import BeliefPropagation, Gibbs, NaiveMeanField


@pytest.mark.parametrize("kind", ["outputs", "binary", "label"])
@pytest.mark.parametrize("inference", ["bp", "mean_field", "tap"])
def test_without_hidden_units_it_is_logistic_regression(kind, inference):
    """At its optimum, with the same penalty: alpha = 1 / (C n)."""
    X, Y = data(n=80)
    y = {"outputs": Y, "binary": Y[:, 0], "label": labels(Y)}[kind]
    crbm = ConditionalRBM(
        0,
        inference=inference,
        batch_size=len(X),
        learning_rate=0.5,
        momentum=0.9,
        n_iter=600,
        alpha=1 / len(X),
    ).fit(X, y)
    model = LogisticRegression(C=1.0, tol=1e-12, max_iter=10_000)
    model = (MultiOutputClassifier(model) if kind == "outputs" else model).fit(X, y)
    expected = model.predict_proba(X)
    if kind == "outputs":
        expected = np.stack([p[:, 1] for p in expected], axis=1)
        coef = np.concatenate([one.coef_ for one in model.estimators_])
    else:
        coef = model.coef_
    assert_allclose(crbm.predict_proba(X), expected, atol=1e-5)
    assert_allclose(crbm.coef_visible_, coef, atol=1e-4)


def copies(n, seed=0):
    """Three outputs that are one fair bit, of which the features tell nothing."""
    generator = np.random.default_rng(seed)
    bit = generator.integers(0, 2, (n, 1))
    return generator.standard_normal((n, 2)), np.repeat(bit, 3, axis=1)


@pytest.mark.law
@pytest.mark.parametrize("inference", ["bp", "mean_field", "gibbs", "tap"])
def test_outputs_that_depend_on_each_other_are_learnt(inference):
    """Independent outputs have a quarter of the mass on the two right rows, at best.

    Over four seeds of each method, eight of "gibbs", the mass was 0.90 to 0.98, with a standard
    deviation of at most 0.035, and 97 % of the completions right or more. They are decided exactly:
    mean field, by which "gibbs" decides otherwise, had 77 to 100 % right of the same machines.
    """
    params = {"n_components": 8, "n_iter": 40, "learning_rate": 0.1, "decision": "joint"}
    crbm = small(inference=inference, **params).fit(*copies(200))
    X, Y = copies(200, seed=1)
    right = [np.exp(crbm.score_samples(X, np.full_like(Y, bit))) for bit in (0, 1)]
    assert np.mean(right[0] + right[1]) > 0.75
    holes = Y.astype(float)
    holes[:, 1:] = np.nan
    assert (crbm.impute(X, holes) == Y).mean() > 0.9


def parity(n, seed=0):
    """Three outputs that are one bit or its opposite: whether two features have the same sign."""
    X = np.random.default_rng(seed).uniform(-2, 2, (n, 2))
    bit = (X[:, 0] * X[:, 1] > 0).astype(int)
    return X, np.stack([bit, bit, 1 - bit], axis=1)


@pytest.mark.law
@pytest.mark.parametrize("objective", ["likelihood", "margin", "marginal_margin"])
def test_hidden_units_learn_what_features_tell_together(objective):
    """Logistic regression gets half of the rows right; over six seeds these got 0.8 to 0.95."""
    params = {"n_iter": 20, "n_components": 16, "n_sweeps": 10, "learning_rate": 0.3}
    crbm = small(objective=objective, **params).fit(*parity(200))
    assert crbm.score(*parity(300, seed=1)) > 0.65
    assert small(**params).set_params(n_components=0).fit(*parity(200)).score(*parity(300)) < 0.65


def test_perceptron_learns_half_planes():
    """Over eight seeds 0.84 to 0.97 of the rows were right, and a constant gets a quarter."""
    X = np.random.default_rng(0).standard_normal((600, 2))
    Y = (X @ [[1, 0, 1], [0, 1, -1]] > 0).astype(int)
    crbm = small(objective="perceptron", inference="gibbs", n_iter=15).fit(X[:300], Y[:300])
    assert crbm.score(X[300:], Y[300:]) > 0.7


@every
@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_warm_start_goes_on(objective, inference, momentum):
    """Two fits of one epoch and two are one of three: random stream, velocity and sweeps go on."""
    X, Y = data()
    params = {"objective": objective, "inference": inference, "momentum": momentum}
    one = small(n_iter=3, **params).fit(X, Y)
    other = small(n_iter=1, warm_start=True, **params).fit(X, Y).set_params(n_iter=2).fit(X, Y)
    assert_same(one, other)
    assert one.n_iter_ == other.n_iter_ == 3 and one.n_sweeps_ == other.n_sweeps_ == 10
    assert other.history_["epoch"] == [1, 2, 3]
    cold = small(n_iter=2, **params).fit(X, Y).set_params(n_iter=3).fit(X, Y)
    assert_same(one, cold)


@every
def test_partial_fit_goes_on(objective, inference):
    X, Y = data()
    params = {"objective": objective, "inference": inference, "shuffle": False}
    one = small(n_iter=2, **params).fit(X, Y)
    other = small(n_iter=1, **params).fit(X, Y)
    assert other.partial_fit(X, Y) is other
    assert_same(one, other)
    fresh = small(**params).partial_fit(X, Y).partial_fit(X[:5], Y[:5])
    assert fresh.n_iter_ == 2 and fresh.n_sweeps_ == 9
    if inference != "tap":
        label = small(**params).partial_fit(X[:2], labels(Y)[:2], classes=WORDS[::-1])
        assert_array_equal(label.classes_, WORDS)
        assert label.partial_fit(X, labels(Y), classes=WORDS).predict_proba(X).shape == (60, 3)


def test_partial_fit_where_an_output_is_unknown():
    """In the first batch or a later one: it is learnt of where it is known."""
    X, Y = data()
    unknown = np.where(np.arange(4) == 2, np.nan, Y)
    crbm = small().partial_fit(X, unknown)
    before = crbm.intercept_visible_[2]
    crbm.partial_fit(X, Y).partial_fit(X, unknown)
    assert np.isfinite(crbm.components_).all() and crbm.intercept_visible_[2] != before


@pytest.mark.parametrize("n_sweeps", [None, 4, lambda epoch: 3 * epoch])
@every
def test_sweeps_by_epoch(objective, inference, n_sweeps, monkeypatch):
    """7 more than the number of the pass, and predictions have those of the last one."""
    seen, original = [], _learner.ConditionalLearner.step

    def step(self, *args):
        method = self.objective.marginals.method
        seen.append(method.max_iter)
        assert method.tol == 1e-6
        return original(self, *args)

    X, Y = data(n=10)
    crbm = small(objective=objective, inference=inference, n_sweeps=n_sweeps, n_iter=4)
    monkeypatch.setattr(_learner.ConditionalLearner, "step", step)
    crbm.fit(X, Y)
    expected = {None: [8, 9, 10, 11], 4: [4] * 4}.get(n_sweeps, [3, 6, 9, 12])
    assert seen == expected
    assert crbm.n_sweeps_ == expected[-1]


def test_methods_are_made_once_in_a_fit(monkeypatch):
    """Besides one for each decision: after each pass, and of the error of the rows set aside."""
    made = []

    def make(*args):
        made.append(args)
        return make_objective(*args)

    monkeypatch.setattr(_estimator, "make_objective", make)
    X, Y = data()
    small(n_iter=3, batch_size=5, early_stopping=True).fit(X, Y)
    assert made == [("likelihood", "auto", 8)]


def test_sweeps_are_at_most_a_hundred():
    X, Y = data(n=1)
    assert small(n_iter=120).fit(X, Y).n_sweeps_ == 100


@pytest.mark.parametrize(
    "method", [BeliefPropagation(3, 1e-5, 0.25), NaiveMeanField(max_iter=2), Gibbs(4)], ids=str
)
def test_inference_objects_keep_their_own_numbers(method):
    X, Y = data()
    crbm = small(inference=method).fit(X, Y)
    objective = make_objective(crbm.objective, method, crbm.n_sweeps_)
    assert (objective.chain if isinstance(method, Gibbs) else objective.marginals.method) == method
    assert crbm.get_params()["inference"] is method
    assert crbm.n_sweeps_ == (10 if isinstance(method, Gibbs) else method.max_iter)
    if isinstance(method, BeliefPropagation):
        margin = make_objective("margin", method, 7)
        assert margin.decide.method == BeliefPropagation(3, 1e-5, 0.25, "max")
        assert margin.marginals.method == method


def test_sweeps_beside_an_inference_that_has_its_own():
    X, Y = data()
    crbm = small(inference=BeliefPropagation(max_iter=3), n_sweeps=50)
    with pytest.raises(ValueError, match=r"n_sweeps=50 is of .* by name.*max_iter=3.*set its max"):
        crbm.fit(X, Y)
    assert small(inference=Gibbs(2), n_sweeps=50).fit(X, Y).n_sweeps_ == 50  # in predictions


def test_history():
    X, Y = data()
    for (objective, inference), name in zip(
        [("likelihood", "bp"), ("margin", "bp"), ("perceptron", "gibbs")],
        ["converged", "converged", "updated"],
        strict=True,
    ):
        crbm = small(objective=objective, inference=inference, early_stopping=True).fit(X, Y)
        expected = {"epoch", "learning_rate", "time", "validation_error", name}
        assert set(crbm.history_) == expected
        assert list(crbm.history_) == ["epoch", "learning_rate", "time", name, "validation_error"]
        assert {len(column) for column in crbm.history_.values()} == {3}
        assert all(0 <= share <= 1 for share in crbm.history_[name])
    assert "converged" not in small(inference="gibbs").fit(X, Y).history_


# ---------------------------------------------------------------------------- init


@pytest.mark.parametrize("kind", ["outputs", "label"])
def test_logistic_init(kind, monkeypatch):
    """A and b are those of the machine without hidden units; the rest is as without it."""
    X, Y = data()
    y = Y if kind == "outputs" else labels(Y)
    params = {"shuffle": False, "n_iter": 4, "batch_size": 60}
    first = small(**params).set_params(n_components=0).fit(X, y)
    seen, original = [], ConditionalRBM._fit_epochs

    def fit_epochs(self, machine, *args):
        seen.append(machine.copy())
        original(self, machine, *args)

    monkeypatch.setattr(ConditionalRBM, "_fit_epochs", fit_epochs)
    small(init="logistic", **params).fit(X, y)
    small(**params).fit(X, y)
    _, start, random = seen
    assert_allclose(start.coef_visible, first.coef_visible_, rtol=1e-12)
    assert_allclose(start.intercept_visible, first.intercept_visible_, rtol=1e-12)
    for name in ("components", "coef_hidden", "intercept_hidden"):
        assert_array_equal(getattr(start, name), getattr(random, name))


def test_logistic_init_learns_nothing_of_the_rows_set_aside(monkeypatch):
    X, Y = data(n=20)
    kwargs = {"init": "logistic", "early_stopping": True, "validation_fraction": 0.25, "n_iter": 5}
    seen, original = [], ConditionalRBM._learn

    def learn(self, machine, training, data, rows, rate):
        seen.append((self.n_components, set(rows)))
        return original(self, machine, training, data, rows, rate)

    monkeypatch.setattr(ConditionalRBM, "_learn", learn)
    small(**kwargs).fit(X, Y)
    learnt = [set.union(*(rows for m, rows in seen if m == n)) for n in (0, 5)]
    assert learnt[0] < learnt[1] and len(learnt[1]) == 15


def test_logistic_init_knows_classes_that_the_first_rows_lack():
    X, Y = data()
    few = labels(Y) != "cat"
    crbm = small(init="logistic").partial_fit(X[few], labels(Y)[few], classes=WORDS)
    assert crbm.coef_visible_.shape == (3, 3)


def test_fitted_init():
    X, Y = data()
    first = small().fit(X, Y)
    before = values(first)
    again = small(init=first, n_iter=0).fit(X, Y)
    assert_same(again, first)
    small(init=first, learning_rate=0.5).fit(X, Y)
    for one, other in zip(values(first), before, strict=True):
        assert_array_equal(one, other)
    logistic = small(n_components=0).fit(X, Y)
    crbm = small(init=logistic, n_iter=0).fit(X.astype(np.float32), Y)
    assert crbm.components_.dtype == np.float32 and crbm.components_.any()
    assert_allclose(crbm.coef_visible_, logistic.coef_visible_, rtol=1e-6)


def test_fitted_init_in_a_grid_search():
    frozen = pytest.importorskip("sklearn.frozen")
    X, Y = data()
    init = frozen.FrozenEstimator(small().fit(X, Y))
    search = GridSearchCV(small(init=init), {"learning_rate": [0.1, 0.01]}, cv=2).fit(X, Y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda X, Y: small(), "ConditionalRBM is not fitted, or no such machine.*FrozenEstimator"),
        (lambda X, Y: LogisticRegression().fit(X, Y[:, 0]), "LogisticRegression is not fitted, or"),
        (lambda X, Y: BernoulliRBM(5).fit(X > 0), "BernoulliRBM is not fitted, or no such"),
        (
            lambda X, Y: small(n_components=4).fit(X, Y),
            r"init does not fit.*\(4, 4\), and \(5, 4\)",
        ),
        (lambda X, Y: small().fit(X, Y[:, :3]), r"init does not fit X, y.*\(5, 3\), and \(5, 4\)"),
        (lambda X, Y: small().fit(X[:, :2], Y), r"init does not fit.*coef_visible.*\(4, 3\)"),
        (lambda X, Y: 3, "'init' parameter"),
        (lambda X, Y: "zeros", "'init' parameter"),
        (lambda X, Y: None, "'init' parameter"),
    ],
)
def test_wrong_init(make, words):
    X, Y = data()
    with pytest.raises(ValueError, match=words):
        small(init=make(X, Y)).fit(X, Y)


# ------------------------------------------------------------------ early stopping


@pytest.mark.parametrize("kind", ["outputs", "holes", "label"])
@pytest.mark.parametrize("decision", [None, "joint"])
def test_validation_error(kind, decision, monkeypatch):
    """The fraction of known outputs that are wrong, or of labels, in the rows set aside."""
    X, Y = data(n=100)
    y = {"outputs": Y, "holes": holes_in(Y.astype(float)), "label": labels(Y)}[kind]
    aside, original = [], ConditionalRBM._monitor

    def monitor(self, data, train, validation, rng):
        aside.append((train, validation))
        return original(self, data, train, validation, rng)

    monkeypatch.setattr(ConditionalRBM, "_monitor", monitor)
    params = {"n_iter": 1, "learning_rate": 0.5, "decision": decision}
    crbm = small(early_stopping=True, validation_fraction=0.3, **params).fit(X, y)
    ((train, validation),) = aside
    assert len(validation) == 30
    assert_array_equal(np.sort(np.concatenate([train, validation])), np.arange(100))
    wrong, known = crbm.predict(X[validation]) != y[validation], y[validation] == y[validation]
    assert_allclose(crbm.history_["validation_error"], [wrong[known].mean()], rtol=1e-12)


@pytest.mark.parametrize(
    "errors, tol, n_epochs, best",
    [
        # Bad is an error above the least: epochs 3, 4, 5 are, and the second is kept.
        ([0.5, 0.2, 0.3, 0.4, 0.3, 0.1], 0.0, 5, 2),
        # The last of several with the same error; equal ones do not stop.
        ([0.5, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2], 0.0, 7, 7),
        ([0.5, 0.2, 0.3, 0.2, 0.3, 0.3, 0.3], 0.0, 7, 4),
        # The epochs run out before it stops.
        ([0.5, 0.2, 0.4, 0.1, 0.3, 0.2, 0.1], 0.0, 7, 7),
        ([0.5, 0.2, 0.4, 0.1, 0.3, 0.1, 0.2], 0.0, 7, 6),
        # Less than tol is no progress, but the least error is the least.
        ([0.5, 0.45, 0.44, 0.43, 0.1], 0.1, 4, 4),
    ],
)
@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_early_stopping_keeps_the_best_parameters(
    errors, tol, n_epochs, best, momentum, monkeypatch
):
    machines, original = [], _learner.ErrorMonitor.measure

    def measure(self, machine, state):
        original(self, machine, state)
        self.value = -errors[len(machines)]
        machines.append((machine.copy(), state))
        return {"validation_error": -self.value}

    X, Y = data()
    crbm = small(
        n_iter=7,
        early_stopping=True,
        n_iter_no_change=3,
        tol=tol,
        momentum=momentum,
        learning_rate=0.5,
    )
    monkeypatch.setattr(_learner.ErrorMonitor, "measure", measure)
    crbm.fit(X, Y)
    assert crbm.n_iter_ == len(machines) == n_epochs
    machine, state = machines[best - 1]
    for one, other in zip(values(crbm), machine.values, strict=True):
        assert_array_equal(one, other)
    assert crbm.n_sweeps_ == state.n_sweeps == 7 + best
    # Velocity of parameters that were given up is given up with them.
    assert (crbm._training.velocity is None) == (momentum == 0 or best < n_epochs)


def test_early_stopping_needs_something_known_of_the_rows_set_aside(monkeypatch):
    X, Y = data()
    unknown, crbm = np.where(np.arange(60)[:, None] < 6, np.nan, Y), small(early_stopping=True)
    rows = np.arange(60)
    monkeypatch.setattr(ConditionalRBM, "_split", lambda *args: (rows[6:], rows[:6]))
    with pytest.raises(ValueError, match="no target of the 6 rows set aside is known"):
        crbm.fit(X, unknown)
    assert not hasattr(crbm, "components_")
    unknown[5, 2] = 1
    assert set(crbm.fit(X, unknown).history_["validation_error"]) <= {0.0, 1.0}


def test_early_stopping_needs_rows():
    X, Y = data(n=3)
    with pytest.raises(ValueError, match=r"validation_fraction=0\.1 of 3 samples"):
        small(early_stopping=True).fit(X, Y)
