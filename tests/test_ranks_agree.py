"""Ranks that do not begin the same fit, which all of them tell."""

import numpy as np
import pytest
from _processes import on_ranks
from test_ranks import data, parts

from skrbm import RBM, BernoulliRBM, DeepTAPMachine, RBMClassifier
from skrbm._ranks import Communicator, use
from skrbm.inference import Gibbs
from skrbm.learning import SGD
from skrbm.persistence import Checkpoint
from skrbm.units import Binomial


def fit(estimator, rank):
    estimator.fit(parts(data(), rank))


def fit_classifier(rank):
    X = parts(data(), rank)
    RBM(3).fit(X) if rank else RBMClassifier(RBM(3)).fit(X, X[:, 0])


def go_on(rank, n_others):
    """Rank 1 continues a fit to 5 columns, rank 0 another fit or none."""
    rbm = RBM(3, n_iter=1, warm_start=True)
    with use(Communicator()):
        if rank or n_others:
            rbm.fit(data()[:, : 5 if rank else n_others])
    fit(rbm, rank)


def fit_with_checkpoints(rank):
    rbm = RBM(3, n_iter=2)
    fit(rbm.set_callbacks(Checkpoint("unused", every=2)) if rank else rbm, rank)


@pytest.mark.parametrize(
    "begin, difference",
    [
        (lambda r: RBM(3).fit(data()[:, r:]), "4 features"),
        (lambda r: fit(RBM(3, visible=Binomial(2 + r)), r), "units"),
        (lambda r: fit(RBM(3 + r), r), "n_components"),
        (lambda r: RBM(3 + r).partial_fit(data()), "n_components"),
        (lambda r: fit(RBM(3, optimizer=SGD(schedule=["cosine", abs][r])), r), "schedule"),
        (lambda r: fit(RBM(3, inference=Gibbs(n_steps=1 + r)), r), "inference__n_steps"),
        (lambda r: fit([RBM, BernoulliRBM][r](3), r), "class"),
        (lambda r: fit(DeepTAPMachine((4, 3 + r)), r), "n_components"),
        (lambda r: fit(DeepTAPMachine([(4,), (4, 3)][r]), r), "n_components"),
        (lambda r: fit(DeepTAPMachine(np.array([4, 3 + r])), r), r"\[5, 4, 4\]"),
        (fit_classifier, "class"),
        (lambda r: go_on(r, 0), "nothing"),
        (lambda r: go_on(r, 4), "machine of"),
        (fit_with_checkpoints, "callbacks"),
    ],
    ids=range(14),
)
def test_ranks_need_to_begin_the_same_fit(begin, difference):
    for error in on_ranks(begin):
        with pytest.raises(ValueError, match=f"(?s){difference}.*rank"):
            raise error
