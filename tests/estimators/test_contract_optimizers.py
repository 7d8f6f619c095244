"""Contract of all estimators with ``optimizer``: names, objects, and changes of them."""

import numpy as np
import pytest
from _estimators import (
    assert_same_state,
    binary_data,
    copied_state,
    learn,
    small,
    with_parameters,
)
from _fractional import all_rows
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from skrbm import (
    RBM,
    TAPRBM,
    ConditionalRBM,
    DeepTAPMachine,
    FrankWolfeRBM,
    GaussianBernoulliRBM,
    ReplicatedSoftmaxRBM,
)
from skrbm.inference import (
    TAP,
    AdaptiveTAP,
    BeliefPropagation,
    Gibbs,
    GibbsLangevin,
    Langevin,
    Tempering,
)
from skrbm.learning import OPTIMIZERS, SGD, Adam, EarlyStopping, NaturalGradient

optimized = pytest.mark.parametrize("Estimator", with_parameters("optimizer"))
DEFAULTS = {
    RBM: {},
    TAPRBM: {"momentum": 0.5, "alpha": 0.005, "schedule": "linear"},
    GaussianBernoulliRBM: {"alpha": 0.0, "schedule": "cosine", "max_grad_norm": 10.0},
    DeepTAPMachine: {"momentum": 0.5, "alpha": 0.001, "schedule": "linear"},
    ReplicatedSoftmaxRBM: {"alpha": 0.0, "schedule": "linear"},
    ConditionalRBM: {"alpha": 0.0, "schedule": "linear"},
}


def steps(estimator):
    """All parameters in one array."""
    kept = ("components", "intercept", "coef")
    found = copied_state(estimator)
    return np.concatenate([found[name].ravel() for name in sorted(found) if name.startswith(kept)])


@optimized
@pytest.mark.parametrize("name, kind", [("sgd", SGD), ("adam", Adam)])
def test_a_name_stands_for_an_object_with_the_defaults_of_the_estimator(Estimator, name, kind):
    """To the last bit."""
    own = {key: DEFAULTS[Estimator][key] for key in DEFAULTS[Estimator] if hasattr(kind, key)}
    X, params = binary_data(), {"learning_rate": 0.02}
    by_name = small(Estimator, **params).set_params(optimizer=name)
    by_object = small(Estimator, **params).set_params(optimizer=kind(**own))
    for method in ("fit", "partial_fit"):
        learn(by_name, X, method)
        assert_same_state(by_name, learn(by_object, X, method))
    other = kind(**{**own, "alpha": 0.3})
    other = learn(small(Estimator, **params).set_params(optimizer=other), X)
    assert not np.array_equal(steps(by_name), steps(learn(other, X, "partial_fit")))


@pytest.mark.parametrize("Estimator", [RBM, DeepTAPMachine, ConditionalRBM])
def test_optimizers_may_change_between_fits(Estimator):
    """The state of the one before, such as mean squares, is no state of the next."""
    X, params = binary_data(), {"n_iter": 2, "learning_rate": 0.01, "warm_start": True}
    estimator = learn(small(Estimator, optimizer="adam", **params), X)
    for optimizer in (SGD(momentum=0.5), Adam(decay=0.5), SGD()):
        learn(estimator.set_params(optimizer=optimizer), X)
    assert estimator.n_iter_ == 8 and np.isfinite(steps(estimator)).all()


@pytest.mark.parametrize("kind", [SGD, Adam])
@pytest.mark.parametrize("Estimator", [RBM, ConditionalRBM])
def test_an_automatic_penalty_depends_on_the_rows_and_the_columns(Estimator, kind):
    """80 rows of 100 columns, which are few; outputs count as well. Half the penalty differs."""
    X = np.random.default_rng(0).integers(2, size=(80, 100)).astype(float)
    y, n_columns = ((), 100) if Estimator is RBM else ((X[:, :20],), 120)

    def fitted(alpha):
        machine = Estimator(3, learning_rate=0.1, n_iter=2, optimizer=kind(alpha=alpha))
        return machine.set_params(random_state=0).fit(X, *y).components_

    automatic = fitted("auto")
    assert_allclose(fitted(4 * n_columns / 50 / 80), automatic, rtol=1e-10)
    assert abs(fitted(2 * n_columns / 50 / 80) - automatic).max() > 1e-6


PATTERNS = np.repeat(all_rows(3), 8, axis=0)
DOCUMENTS = np.kron(PATTERNS[:, :1] == [0, 1], [[3.0, 3.0, 3.0]])
COPIES = np.hstack([PATTERNS, PATTERNS])
# An estimator, its data, and log-likelihoods per row in nats: of columns or words that are
# independent of one another, and of the law that the data have.
LEARNABLE = {
    "chains": (RBM(6), (COPIES,), -6 * np.log(2), -3 * np.log(2)),
    "equations": (TAPRBM(6), (COPIES,), -6 * np.log(2), -3 * np.log(2)),
    "conditional": (ConditionalRBM(6), (PATTERNS, PATTERNS), -3 * np.log(2), 0.0),
    "no hidden unit": (ConditionalRBM(0), (PATTERNS, PATTERNS), -3 * np.log(2), 0.0),
    "words": (ReplicatedSoftmaxRBM(6), (DOCUMENTS,), -9 * np.log(6), -9 * np.log(3) - np.log(2)),
}


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
@pytest.mark.parametrize("estimator, data, independent, truth", LEARNABLE.values(), ids=LEARNABLE)
def test_steps_of_automatic_length_learn(estimator, data, independent, truth, name):
    """At least a quarter of what there is to learn; steps of a length near 0 learn none of it."""
    learner = clone(estimator).set_params(learning_rate="auto", optimizer=name, random_state=0)
    learner.set_params(n_iter=30, batch_size=16)
    if "early_stopping" in learner.get_params():
        learner.set_params(early_stopping=False)
    gain = np.mean(learner.fit(*data).score_samples(*data)) - independent
    assert gain > 0.25 * (truth - independent)


@pytest.mark.parametrize("prefix", ["", "taprbm__"], ids=["estimator", "pipeline"])
def test_searches_over_parameters_of_objects(prefix):
    X = binary_data()

    def search(key, **params):
        rbm = small(TAPRBM, **params)
        model = make_pipeline(MinMaxScaler(), rbm) if prefix else rbm
        grid = {f"{prefix}{key}": [0.0, 0.5]}
        return GridSearchCV(model, grid, cv=2, error_score="raise").fit(X).best_params_

    assert list(search("inference__damping", inference=TAP())) == [f"{prefix}inference__damping"]
    assert list(search("optimizer__decay", optimizer=Adam())) == [f"{prefix}optimizer__decay"]
    with pytest.raises(
        ValueError, match=r"inference__damping cannot .*: set inference=TAP\(.* first"
    ):
        search("inference__damping")


X = np.random.default_rng(0).integers(2, size=(60, 6)).astype(float)
X[:, 3:] = X[:, :3]


@pytest.mark.parametrize("start", ["persistent", "weighted", "tempered", "noise", "annealed"])
def test_chains_are_as_many_as_asked_for(start):
    rbm = RBM(3, inference=Gibbs(2, n_chains=7, start=start), n_iter=2, random_state=0).fit(X)
    assert len(rbm.starts_) == 7


NO_NUMBERS = "1", None, True, np.nan, np.inf, -np.inf
NO_COUNTS = "1", True, np.nan, 0.5, 2.0
# Kinds of objects, a parameter of theirs, values that it must not have, and values that it may have
# and that are near these.
RANGES = [
    (OPTIMIZERS.values(), "alpha", (-1e-9, "none", *NO_NUMBERS), (0, 1e9, "auto")),
    (OPTIMIZERS.values(), "max_grad_norm", (0, -1, "1", True, np.nan, np.inf), (None, 1e-9, 1e9)),
    (OPTIMIZERS.values(), "penalty", ("l3", "L2", None, 2, []), ("l2", "l1", "l1b", "group_lasso")),
    (OPTIMIZERS.values(), "schedule", ("steps", None, 1, []), ("constant", "exponential", abs)),
    ([SGD], "momentum", (-1e-9, 1, 1.5, *NO_NUMBERS), (0, 0.999)),
    ([NaturalGradient], "damping", (0, -1, *NO_NUMBERS), (1e-9, 1e9)),
    ([Adam], "decay", (-1e-9, 1, 1.5, *NO_NUMBERS), (0, 0.999)),
    ([Adam], "decay_squares", (-1e-9, 1, 1.5, *NO_NUMBERS), (0, 0.999)),
    ([Adam], "epsilon", (0, -1e-8, *NO_NUMBERS), (1e-300, 1)),
    ([Gibbs, Tempering], "n_steps", (0, -1, None, *NO_COUNTS), (1, 10**6)),
    ([Gibbs, Tempering], "n_chains", (0, -1, *NO_COUNTS), (None, 1, 10**6)),
    ([Gibbs, Tempering], "burn_in", (-1, 1, 2, *NO_COUNTS), (None, 0)),  # below n_steps, which is 1
    ([Gibbs], "start", ("nowhere", "chains", 1), (None, "weighted", "noise")),
    ([Tempering], "start", ("data", "weighted", 1), (None, "persistent")),
    ([TAP, AdaptiveTAP], "n_starts", (0, -1, *NO_COUNTS), (None, 1, 10**6)),
    ([TAP, AdaptiveTAP], "start", ("nowhere", "weighted", 1), (None, "data", "random")),
    ([TAP, AdaptiveTAP], "max_iter", (0, -1, None, *NO_COUNTS), (1, 10**6)),
    ([TAP, AdaptiveTAP], "tol", (-1e-9, *NO_NUMBERS), (0, 1e9)),
    ([TAP, AdaptiveTAP], "damping", (-1e-9, 1, 1.5, *NO_NUMBERS), (0, 0.999)),
    ([TAP], "order", (1, 4, "2", None), (2, 3)),
    ([Langevin], "step_size", (0, -1, 2.0, *NO_NUMBERS), (0.1, 1.9)),
    ([Langevin], "adjust_after", (-1, *NO_COUNTS), (None, 0, 10)),
    ([Langevin], "step_scale", ("median", None, 1), ("variance", "mean_variance")),
    ([GibbsLangevin], "n_inner_steps", (0, -1, None, *NO_COUNTS), (1, 10)),
    ([BeliefPropagation], "product", ("min", None), ("sum", "max", "mixed")),
    ([Tempering], "rungs", (1, "abc", [0.2, 1.0], [0.0, 0.7, 0.6, 1.0]), (2, (0.0, 1.0))),
    ([EarlyStopping], "patience", (0, -1, *NO_COUNTS), (1, 10**6, None)),
    ([EarlyStopping], "validation_fraction", (0, 1, -0.1, 1.5, *NO_NUMBERS), (1e-9, 0.999)),
    ([EarlyStopping], "tol", (-1e-9, "1", True, np.nan, np.inf), (None, 0, 1e9)),
]


@pytest.mark.parametrize(
    "kind, name, bad, good",
    [
        pytest.param(kind, *row, id=f"{kind.__name__}-{row[0]}")
        for kinds, *row in RANGES
        for kind in kinds
    ],
)
def test_parameters_of_objects_have_ranges(kind, name, bad, good):
    """An error says which parameter has what value, and changes nothing; all others are kept."""
    own = kind()
    for value in bad:
        for give in (kind, own.set_params):
            with pytest.raises(ValueError, match=name) as caught:
                give(**{name: value})
            assert str(value) in str(caught.value)
        assert own == kind()
    for value in good:
        assert kind(**{name: value}).get_params()[name] == value


@pytest.mark.parametrize("sampler", [Gibbs(start="weighted"), Gibbs(3, burn_in=1)])
def test_growth_has_persistent_chains_only(sampler):
    with pytest.raises(ValueError, match="persistent"):
        FrankWolfeRBM(2, inference=sampler).fit(X)
