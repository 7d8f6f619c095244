"""What every estimator with ``optimizer`` keeps to: names, objects, and fits that go on.

An estimator is in each test whose methods and parameters it has.
"""

import numpy as np
import pytest
from _estimators import (
    COMPOSED,
    DENSITIES,
    ESTIMATORS,
    NUMERIC,
    assert_same_state,
    binary_data,
    copied_state,
    learn,
    noisy_patterns,
    small,
    with_parameters,
)
from _exact import log_likelihood
from numpy.testing import assert_allclose
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from skrbm import RBM, TAPRBM, ConditionalRBM, GaussianBernoulliRBM, ReplicatedSoftmaxRBM
from skrbm.inference import TAP
from skrbm.learning import SGD, Adam

pytestmark = pytest.mark.filterwarnings("ignore:the machine has no hidden unit")
optimized = pytest.mark.parametrize("Estimator", with_parameters("optimizer"))
# These two take their steps in other coordinates than those of the published parameters.
MAPPED = GaussianBernoulliRBM, ReplicatedSoftmaxRBM
NATURAL = [E for E in with_parameters("optimizer", among=NUMERIC) if E not in MAPPED]
BITS = with_parameters("optimizer", "binarize", among=DENSITIES)


def test_all_that_learn_in_batches_take_an_optimizer():
    assert set(with_parameters("optimizer")) == set(with_parameters("batch_size", "momentum"))


def known(Estimator, **params):
    """Those of the parameters that an estimator has."""
    return {name: value for name, value in params.items() if name in Estimator().get_params()}


def steps(estimator):
    """All parameters in one array."""
    kept = ("components", "intercept", "coef")
    found = copied_state(estimator)
    return np.concatenate([found[name].ravel() for name in sorted(found) if name.startswith(kept)])


@pytest.mark.wide
@optimized
@pytest.mark.parametrize("penalty", ["l2", "l1", "group_lasso"])
@pytest.mark.parametrize("name", ["sgd", "adam"])
def test_an_object_is_what_a_name_and_its_parameters_stand_for(Estimator, name, penalty):
    """Bit for bit. What the estimator has of its own is nothing to an object."""
    given = known(Estimator, penalty=penalty, max_grad_norm=0.5)
    own = {"penalty": given.get("penalty", "l2"), "max_norm": given.get("max_grad_norm")}
    own["alpha"] = 1e-4
    made = {"sgd": SGD(momentum=0.5, **own), "adam": Adam(**own)}[name]
    X, rate = binary_data(), {"learning_rate": 0.02}
    by_name = small(Estimator, optimizer=name, momentum=0.5, alpha=1e-4, **given, **rate)
    by_object = small(Estimator, optimizer=made, momentum=0.9, alpha=0.3, **rate)
    for method in ("fit", "partial_fit"):
        learn(by_name, X, method)
        assert_same_state(by_name, learn(by_object, X, method))
    other = learn(small(Estimator, momentum=0.9, alpha=0.3, **rate), X)
    assert np.count_nonzero(steps(by_name)) > 40  # not all weights are 0
    assert not np.array_equal(steps(by_name), steps(other))


@pytest.mark.parametrize("Estimator", NATURAL)
def test_the_first_step_of_adam_has_the_length_of_the_rate(Estimator):
    """Along each parameter it is rate g / (|g| + epsilon), where plain ascent has rate g."""
    X, rate = binary_data(), 1e-3
    plain = known(Estimator, centered=False, average=False, max_grad_norm=None, n_iter_pretrain=0)
    params = {"momentum": 0.0, "alpha": 0.0, "learning_rate": rate, "batch_size": 60, **plain}
    before = steps(learn(small(Estimator, n_iter=0, **params), X))
    plain, adam = (
        steps(learn(small(Estimator, n_iter=1, optimizer=name, **params), X)) - before
        for name in ("sgd", "adam")
    )
    slopes = plain / rate
    assert_allclose(adam, rate * slopes / (np.abs(slopes) + 1e-8), rtol=1e-4, atol=1e-4 * rate)
    assert (np.abs(slopes) > 1e-4).mean() > 0.5


@pytest.mark.parametrize("Estimator", BITS)
def test_adam_learns_what_independent_bits_do_not_have(Estimator):
    """The exact likelihood rises from that of independent bits, where training starts.

    Over four seeds it rose by 0.49 to 0.93 nats.
    """
    X = noisy_patterns(300)[:, 3:9]
    params = {"learning_rate": 0.02, **known(Estimator, n_iter_pretrain=0)}
    machines = [
        learn(small(Estimator, n_iter=n_iter, optimizer="adam", **params), X).machine_
        for n_iter in (0, 20)
    ]
    before, after = (log_likelihood(machine, X).mean() for machine in machines)
    assert after > before + 0.2


@optimized
def test_fits_go_on_when_the_optimizer_changes(Estimator):
    """What one rule remembers is nothing to the other, which begins anew."""
    X = binary_data()
    params = {"n_iter": 2, "learning_rate": 0.01, "warm_start": True}
    estimator = learn(small(Estimator, optimizer="adam", **params), X)
    n_steps = estimator._training.optimizer_state.n_steps
    assert learn(estimator, X)._training.optimizer_state.n_steps == 2 * n_steps > 0
    learn(estimator.set_params(optimizer="sgd", momentum=0.5), X)
    assert not hasattr(estimator._training.optimizer_state, "n_steps")
    learn(estimator.set_params(optimizer=Adam(decay=0.5)), X)
    assert estimator._training.optimizer_state.n_steps == n_steps
    learn(estimator.set_params(optimizer="sgd", momentum=0.0), X)
    assert estimator._training.optimizer_state is None
    assert estimator.n_iter_ == 10 and np.isfinite(steps(estimator)).all()


@optimized
@pytest.mark.parametrize("kind", [SGD, Adam])
def test_the_automatic_penalty_of_an_object_is_for_all_rows_learnt_from(Estimator, kind):
    X, rate = binary_data(n=40, n_features=2), {"learning_rate": 0.02}
    ours, theirs = (
        learn(small(Estimator, optimizer=kind(alpha=a), **rate), X) for a in ("auto", 1 / 40)
    )
    assert_same_state(ours, theirs)
    ours, theirs = (small(Estimator, **rate) for _ in range(2))
    for n, n_rows in ((30, 30), (30, 60), (40, 100)):
        learn(ours.set_params(optimizer=kind(alpha="auto")), X[:n], "partial_fit")
        learn(theirs.set_params(optimizer=kind(alpha=1 / n_rows)), X[:n], "partial_fit")
        assert_same_state(ours, theirs)
    assert not np.array_equal(steps(ours), steps(learn(small(Estimator, **rate), X)))


# ------------------------------------------------- parameters of objects, in searches too


@pytest.mark.parametrize("Estimator", [*ESTIMATORS, *COMPOSED])
def test_a_name_has_no_parameters_to_set(Estimator):
    """The error names the parameter, and what to pass instead of the name."""
    own, words = Estimator().get_params(deep=False), {}
    if isinstance(own.get("inference"), str):
        words["inference__damping"] = rf"not the name '{own['inference']}': pass .*skrbm\.inference"
    if "optimizer" in own:
        words["optimizer__decay"] = r"not the name 'sgd': pass optimizer=skrbm\.learning\.SGD\("
    words |= dict.fromkeys(("random_state__a", "visible__n"), "has no parameters of its own")
    for key, expected in words.items():
        name = key.partition("__")[0]
        with pytest.raises(ValueError, match=f"{key} .*{expected}" if name in own else "Invalid"):
            Estimator().set_params(**{key: 0.5})


@pytest.mark.parametrize(
    "params, written",
    [
        ({"inference": "tap3"}, r"inference=skrbm.inference.TAP\(max_iter=2, order=3\)$"),
        ({"optimizer": "sgd"}, r"optimizer=skrbm.learning.SGD\(momentum=0.5, alpha=0.005\)$"),
        ({"optimizer": "adam"}, r"optimizer=skrbm.learning.Adam\(alpha=0.005\)$"),
    ],
)
def test_the_object_to_pass_is_what_the_name_stands_for(params, written):
    (name,) = params
    with pytest.raises(ValueError, match=written):
        TAPRBM(**params).set_params(**{f"{name}__tol": 0.1})
    with pytest.raises(ValueError, match=written):  # the name is set first
        TAPRBM().set_params(**{f"{name}__tol": 0.1, **params})


def test_values_that_stand_for_no_object():
    with pytest.raises(
        ValueError, match=r"not the name 'auto': pass an object of skrbm\.inference"
    ):
        ConditionalRBM().set_params(inference__damping=0.5)
    with pytest.raises(ValueError, match=r"optimizer must be one of .*, got 'foo'"):
        RBM(optimizer="foo").set_params(optimizer__decay=0.5)
    with pytest.raises(ValueError, match="optimizer=None has no parameters of its own"):
        RBM().set_params(optimizer=None, optimizer__decay=0.5)


@pytest.mark.parametrize("prefix", ["", "taprbm__"], ids=["estimator", "pipeline"])
def test_searches_inside_of_objects(prefix):
    X = binary_data()

    def search(key, **params):
        rbm = small(TAPRBM, **params)
        model = make_pipeline(MinMaxScaler(), rbm) if prefix else rbm
        grid = {f"{prefix}{key}": [0.0, 0.5]}
        return GridSearchCV(model, grid, cv=2, error_score="raise").fit(X).best_params_

    assert list(search("inference__damping", inference=TAP())) == [f"{prefix}inference__damping"]
    assert list(search("optimizer__decay", optimizer=Adam())) == [f"{prefix}optimizer__decay"]
    for key in ("inference__damping", "optimizer__momentum"):
        with pytest.raises(ValueError, match=f"^{key} needs an object"):
            search(key)


@pytest.mark.parametrize("kind", [SGD, Adam])
@pytest.mark.parametrize("Estimator", [RBM, ConditionalRBM])
def test_an_automatic_penalty_knows_the_rows_and_the_columns(Estimator, kind):
    """80 rows of 100 columns, which are few; outputs count as well. Half the penalty differs."""
    X = np.random.default_rng(0).integers(2, size=(80, 100)).astype(float)
    y, n_columns = ((), 100) if Estimator is RBM else ((X[:, :20],), 120)

    def fitted(alpha):
        machine = Estimator(3, learning_rate=0.1, n_iter=2, optimizer=kind(alpha=alpha))
        return machine.set_params(random_state=0).fit(X, *y).components_

    automatic = fitted("auto")
    assert_allclose(fitted(4 * n_columns / 50 / 80), automatic, rtol=1e-10)
    assert abs(fitted(2 * n_columns / 50 / 80) - automatic).max() > 1e-6
