"""Learning from rows of which visible units are missing, against enumeration."""

import math

import numpy as np
import pandas as pd
import pytest
from _exact import Exact
from _machines import bits, differences, gradient, parameters, random_machine
from numpy.testing import assert_allclose, assert_array_equal

from skrbm import RBM, TabularRBM
from skrbm.arrays import make_rng
from skrbm.inference import FIXED_POINTS, Gibbs
from skrbm.learning import CHAINS, FixedPointPhase, StepLength

ROW = np.array([1.0, np.nan, 0.0, np.nan])
KINDS = [
    ("bernoulli", "bernoulli"),
    ("gaussian", "bernoulli"),
    ("truncated_gaussian", "bernoulli"),
    ("truncated_gauss_bernoulli", "bernoulli"),
    ("bernoulli", "gaussian"),
]
N_COPIES = 20_000


def flat(machine, moments):
    """All expected statistics, in the order of the parameters of the machine."""
    return np.concatenate([np.ravel(part) for part in gradient(machine, moments)])


def slopes(machine, row):
    """Derivatives of log p(observed) + log Z by all parameters, by differences of the sums."""
    found = [
        differences(lambda m: Exact(m, observed=row).log_z, values, put)
        for _, values, put in parameters(machine)
    ]
    return np.concatenate([np.ravel(part) for part in found])


@pytest.mark.parametrize(
    "kinds", [KINDS[0], *(pytest.param(pair, marks=pytest.mark.law) for pair in KINDS[1:])]
)
@pytest.mark.parametrize("start", ["persistent", "data"])
def test_moments_of_drawn_rows_are_derivatives_of_the_log_likelihood(kinds, start):
    """The mean over 20 000 copies of a row.

    A statistic has a standard deviation of at most 1.5 here, its mean one of 0.011: one of 400 is
    off by 0.06 with a probability below 1e-4.
    """
    machine = random_machine(kinds, (4, 3), 3, 0.5)
    phase, X = CHAINS[start](Gibbs()), np.tile(np.nan_to_num(ROW), (N_COPIES, 1))
    rng, observed = make_rng(4, X), np.tile(ROW == ROW, (N_COPIES, 1))
    state = phase.init(machine, rng, 5, X)
    state, data, _ = phase.incomplete_phases(machine, state, X, observed, rng)
    assert_allclose(flat(machine, data), slopes(machine, ROW), atol=0.06)
    if start == "data":
        rows = phase.visible(state)
        assert len(rows) == N_COPIES and len(np.unique(rows[:, 1])) > 1


@pytest.mark.parametrize("name", sorted(FIXED_POINTS))
def test_moments_of_fixed_points_are_those_given_the_observed_values(name):
    """Of a full row, a row with holes and one of which nothing is known; weak weights."""
    machine = random_machine(("bernoulli", "bernoulli"), (4, 3), 5, 0.1)
    H = np.array([[1.0, 1, 0, 0], ROW, np.full(4, np.nan)])
    phase = FixedPointPhase(FIXED_POINTS[name])
    rng, X = make_rng(0, H), np.nan_to_num(H, nan=0.5)
    state = phase.init(machine, rng, 3, X)
    state, data, _ = phase.incomplete_phases(machine, state, X, H == H, rng)
    truth = np.mean([slopes(machine, row) for row in H], axis=0)
    atol = 0.02 if name == "naive_mean_field" else 2e-3
    assert_allclose(flat(machine, data), truth, atol=atol)
    starts = phase.visible(state)
    assert_array_equal(starts[H == H], H[H == H])
    assert ((starts > 0) & (starts < 1))[np.isnan(H)].all()


def with_holes(share, n=120):
    X = bits(n)
    X[np.random.default_rng(0).random(X.shape) > share] = np.nan
    return X


@pytest.mark.parametrize("share", [0.5, 0.1])
def test_few_known_values_are_learned_by_shorter_and_more_steps(share):
    X = with_holes(share)
    known = max(0.2, np.mean(X == X))
    full, rbm = (RBM(3, random_state=0).fit(rows) for rows in (bits(120), X))
    assert rbm.n_iter_ == math.ceil(full.n_iter_ / known)
    cap = StepLength.of_chains(rbm.units_, X.shape[1]).cap
    assert max(full.history_["learning_rate"]) > known * cap  # or there would be nothing to see
    assert max(rbm.history_["learning_rate"]) <= known * cap


def test_learning_continues_after_rows_of_which_nothing_is_known():
    rbm = RBM(3, random_state=0).partial_fit(with_holes(0.5))
    rbm.partial_fit(np.full((20, rbm.n_features_in_), np.nan))
    rbm.partial_fit(bits(120))
    assert rbm.history_["learning_rate"][-1] > 0


def test_few_known_texts_do_not_change_how_complete_real_columns_start():
    """The precision matrix of real columns has a prior as far as their own values are missing."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(200, 3)), columns=list("abc"))
    frame["text"] = np.where(rng.random(200) < 0.8, None, rng.choice(list("xyz"), 200))
    rbm = TabularRBM(4, covariance="full", n_iter=1, random_state=0).fit(frame)
    parameters = rbm._training.recipe.parameters
    assert parameters.known == 1.0 and parameters.prior == 0.0


def test_few_known_values_leave_more_of_the_covariance_to_the_columns():
    """Learning starts at a part 1 - 0.6 s of the variances, for a known share s."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3)) @ rng.normal(size=(3, 3))
    X[rng.random(X.shape) < 0.7] = np.nan
    rbm = RBM(4, visible="gaussian", learning_rate=1e-9, n_iter=1, random_state=0).fit(X)
    covariance = np.linalg.inv(rbm.density_.machine.thetas[0].joint)
    part = 1 - 0.6 * np.mean(X == X)
    assert_allclose(np.diag(covariance), part * np.nanvar(X, axis=0), rtol=1e-4)


@pytest.mark.law
def test_clusters_are_learned_from_two_fifths_of_the_values():
    """Persistent chains of this seed do not mix, which rows that are filled with means hide.

    The truth has -5.5 nats, this fit -7.2, and one by persistent chains -19.3.
    """
    rng = np.random.default_rng(1)
    centres = rng.random((6, 40)) < 0.5
    shares = [0.3, 0.25, 0.2, 0.12, 0.08, 0.05]
    X = (centres[rng.choice(6, 4000, p=shares)] ^ (rng.random((4000, 40)) < 0.02)).astype(float)
    train, test = X[:3000].copy(), X[3000:]
    train[np.random.default_rng(0).random(train.shape) < 0.6] = np.nan
    assert RBM(16, random_state=2).fit(train).score(test) > -9
