"""Parameters that hold objects: inference methods, optimizers and early stopping."""

import traceback

import numpy as np
import pytest

from skrbm import RBM, FrankWolfeRBM
from skrbm.inference import (
    TAP,
    AdaptiveTAP,
    Gibbs,
    Tempering,
)
from skrbm.learning import SGD, EarlyStopping, NaturalGradient
from skrbm.units import Bernoulli

X = np.random.default_rng(0).integers(2, size=(60, 6)).astype(float)
X[:, 3:] = X[:, :3]


@pytest.mark.parametrize("start", ["persistent", "weighted", "tempered", "noise", "annealed"])
def test_chains_are_as_many_as_asked_for(start):
    rbm = RBM(3, inference=Gibbs(2, n_chains=7, start=start), n_iter=2, random_state=0).fit(X)
    assert len(rbm.starts_) == 7


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
