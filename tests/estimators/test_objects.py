"""Parameters that hold objects: inference methods, optimizers and early stopping."""

import traceback

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.model_selection import GridSearchCV

from skrbm import RBM, TAPRBM, ConditionalRBM, FrankWolfeRBM
from skrbm.inference import (
    TAP,
    AdaptiveTAP,
    FixedPoint,
    Gibbs,
    Langevin,
    Sampler,
    Tempering,
    resolve,
)
from skrbm.learning import SGD, Adam, EarlyStopping, NaturalGradient
from skrbm.units import Bernoulli

X = np.random.default_rng(0).integers(2, size=(60, 6)).astype(float)
X[:, 3:] = X[:, :3]


@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("gibbs", Gibbs()),
        ("pcd", Gibbs(start="persistent")),
        ("cd", Gibbs(start="data")),
        ("langevin", Langevin()),
        ("tap", TAP()),
    ],
)
def test_names_stand_for_objects_with_defaults(name, method):
    assert resolve(name, FixedPoint, Sampler) == method


def test_a_name_and_its_object_learn_the_same():
    named = RBM(3, inference="cd", optimizer="adam", n_iter=3, random_state=0).fit(X)
    given = RBM(3, inference=Gibbs(start="data"), optimizer=Adam(), n_iter=3, random_state=0)
    assert_array_equal(named.components_, given.fit(X).components_)


@pytest.mark.parametrize("start", ["persistent", "weighted", "tempered", "noise", "annealed"])
def test_chains_are_as_many_as_asked_for(start):
    rbm = RBM(3, inference=Gibbs(2, n_chains=7, start=start), n_iter=2, random_state=0).fit(X)
    assert len(rbm.starts_) == 7


def test_solutions_are_as_many_as_asked_for():
    assert len(TAPRBM(3, inference=TAP(n_starts=4), n_iter=2).fit(X).starts_) == 4


def test_a_search_sets_parameters_of_objects():
    rbm = RBM(
        2,
        inference=Gibbs(),
        optimizer=SGD(),
        early_stopping=EarlyStopping(),
        n_iter=2,
        random_state=0,
    )
    grid = {
        "inference__n_steps": [1, 3],
        "optimizer__momentum": [0.5],
        "early_stopping__patience": [2],
    }
    best = GridSearchCV(rbm, grid, cv=2).fit(X).best_estimator_
    assert best.inference.n_steps in (1, 3)
    assert best.optimizer.momentum == 0.5 and best.early_stopping.patience == 2
    assert rbm.inference == Gibbs()  # searches work on clones


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: Gibbs(0), "n_steps"),
        (lambda: Gibbs(n_chains=0), "n_chains"),
        (lambda: Gibbs(start="nowhere"), "start"),
        (lambda: Gibbs(3, burn_in=3), "burn_in"),
        (lambda: Tempering(start="data"), "start"),
        (lambda: TAP(start="weighted"), "start"),
        (lambda: AdaptiveTAP(n_starts=0), "n_starts"),
        (lambda: SGD(schedule="steps"), "schedule"),
        (lambda: SGD(max_grad_norm=0), "max_grad_norm"),
        (lambda: NaturalGradient(damping=0), "damping"),
        (lambda: EarlyStopping(patience=0), "patience"),
        (lambda: EarlyStopping(validation_fraction=1.0), "validation_fraction"),
        (lambda: EarlyStopping(tol=-1), "tol"),
    ],
)
def test_objects_check_their_parameters(make, name):
    with pytest.raises(ValueError, match=name):
        make()


@pytest.mark.parametrize("sampler", [Gibbs(start="weighted"), Gibbs(3, burn_in=1)])
def test_growth_has_persistent_chains_only(sampler):
    with pytest.raises(ValueError, match="persistent"):
        FrankWolfeRBM(2, inference=sampler).fit(X)


def test_early_stopping_stops_by_its_patience():
    """A fit whose steps are too short to gain a nat stops when its patience ends."""
    stopping = EarlyStopping(patience=2, validation_fraction=0.5, tol=1.0)
    rbm = RBM(2, learning_rate=1e-6, n_iter=50, early_stopping=stopping, random_state=0).fit(X)
    assert rbm.n_iter_ == 3  # the first is the best so far
    targets = X[:, :2].astype(int)
    stopping = EarlyStopping(patience=3, tol=1.0)
    crbm = ConditionalRBM(2, n_iter=50, early_stopping=stopping, random_state=0)
    assert crbm.fit(X[:, 2:], targets).n_iter_ == 4


def test_a_fit_is_few_calls_deep(monkeypatch):
    """From ``fit`` to the draw of the visible units of a chain there are at most 12 calls."""
    depths, sample = [], Bernoulli.sample

    def counted(self, theta, rng):
        frames = [frame for frame in traceback.extract_stack() if "skrbm" in frame.filename]
        names = [frame.name for frame in frames]
        if "run" in names and "fit" in names:
            depths.append(len(names) - names.index("fit"))
        return sample(self, theta, rng)

    monkeypatch.setattr(Bernoulli, "sample", counted)
    RBM(3, n_iter=2, random_state=0).fit(X)
    assert depths and max(depths) <= 12
