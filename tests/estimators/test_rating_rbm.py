"""Ratings: effects, the machines of rated items, predictions, and what a sparse X means."""

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from skrbm import RatingRBM
from skrbm.arrays import make_rng
from skrbm.inputs import Effects, SeenRows, seen_entries
from skrbm.learning import SGD, SeenPhase
from skrbm.machine import Machine
from skrbm.units import Bernoulli, Gaussian, Theta


def ratings(n_users=300, n_items=40, seen=0.4, seed=0):
    """Ratings of two tastes, of which some are known: all of them, and those with NaN."""
    generator = np.random.default_rng(seed)
    tastes, kinds = generator.choice([-1, 1], (n_users, 1)), generator.choice([-1, 1], n_items)
    noise = generator.normal(size=(n_users, n_items))
    items, users = generator.normal(size=n_items), generator.normal(size=(n_users, 1))
    whole = 3 + 0.5 * items + 0.5 * users + 1.5 * tastes * kinds + 0.5 * noise
    return whole, np.where(generator.random(whole.shape) < seen, whole, np.nan)


def sparse(X):
    rows, columns = np.nonzero(~np.isnan(X))
    return sp.coo_array((X[rows, columns], (rows, columns)), shape=X.shape)


def error(found, whole, X):
    return np.sqrt(np.mean((found - whole)[np.isnan(X)] ** 2))


# Errors for seeds 0 to 19 of the fit were at most 0.66, and those of effects alone are 1.5.
def test_tastes_are_learnt():
    whole, X = ratings()
    rbm = RatingRBM(n_components=5, random_state=0).fit(X)
    found = rbm.impute(X)
    assert error(found, whole, X) < 0.8
    assert_array_equal(found[~np.isnan(X)], X[~np.isnan(X)])
    assert np.nanmin(X) <= found.min() <= found.max() <= np.nanmax(X)


def test_ratings_that_are_spread_evenly_are_learnt():
    """By the correlation of predictions with expected ratings, of four factors.

    It is 0.64 with a standard deviation of 0.01 over 12 seeds, and 0.55 with the penalty of data
    without missing values, which larger data of this kind leaves with weights of 0.
    """
    generator = np.random.default_rng(0)
    means = generator.normal(size=(400, 4)) @ generator.normal(size=(4, 800)) / 2
    found = means + 0.5 * generator.normal(size=means.shape)
    X = np.where(generator.random(means.shape) < 0.05, found, np.nan)
    filled, new = RatingRBM(10, random_state=0).fit(X).impute(X), np.isnan(X)
    assert np.corrcoef(filled[new], means[new])[0, 1] > 0.6


def test_few_users_at_a_time_do_not_undo_what_is_learnt():
    """The penalty is that of all users so far.

    Errors for six seeds are 0.59 to 0.61, and 0.73 to 0.77 with the penalty of five users.
    """
    whole, X = ratings()
    rbm = RatingRBM(n_components=5, random_state=0).fit(X[:150])
    for start in [*range(150, 300, 5)] * 3:
        rbm.partial_fit(X[start : start + 5])
    assert error(rbm.impute(X), whole, X) < 0.68


def test_mean_share_is_that_of_the_other_users():
    seen = np.random.default_rng(0).random((12, 5)) < 0.4
    weights = np.arange(12) % 3
    repeated = np.repeat(seen, weights, axis=0)
    shares = [np.delete(repeated, u, axis=0)[:, i].mean() for u, i in np.argwhere(repeated)]
    rows = SeenRows(sp.csr_array(seen.astype(float)), weights.astype(float))
    assert_allclose(rows.mean_share, np.mean(shares))


def test_a_sparse_array_stores_what_is_rated():
    X = np.round(ratings(50, 10)[1])
    X[np.isnan(X)] = np.nan
    X[0, :2] = 0.0, np.nan
    stored = sparse(X)
    assert stored.nnz == np.sum(~np.isnan(X))
    dense = RatingRBM(3, n_iter=3, random_state=0).fit(X)
    other = RatingRBM(3, n_iter=3, random_state=0).fit(stored)
    assert_array_equal(dense.components_, other.components_)
    assert_array_equal(dense.transform(X), other.transform(stored))
    assert_array_equal(dense.impute(X), other.impute(stored))


def test_a_data_frame_comes_back():
    X = pd.DataFrame({"one": [5, 4, np.nan], "two": [1, np.nan, 2]}, index=["x", "y", "z"])
    rbm = RatingRBM(2, n_iter=2, random_state=0).fit(X)
    filled = rbm.impute(X)
    assert filled.notna().all(axis=None)
    pd.testing.assert_frame_equal(filled.where(X.notna()), X)
    values = X.to_numpy()
    rbm = RatingRBM(2, n_iter=2, random_state=0).fit(values)
    assert_array_equal(filled, rbm.impute(values))


def test_an_epoch_and_a_part_are_two_epochs():
    X = ratings(60, 10)[1]
    optimizer = SGD(alpha=0.01, schedule="constant", centered=False)
    common = {"learning_rate": 0.1, "optimizer": optimizer, "random_state": 0}
    one = RatingRBM(3, n_iter=1, **common).fit(X).partial_fit(X)
    two = RatingRBM(3, n_iter=2, **common)
    assert_allclose(one.components_, two.fit(X).components_, rtol=1e-9)
    assert one.history_["epoch"] == [1, 2] and one.n_iter_ == 2
    before, effects = one.components_.copy(), one.effects_
    one.partial_fit(X[:20])
    assert (one.components_ != before).any() and one.effects_ is effects
    fresh = RatingRBM(3, learning_rate=0.1, random_state=0).partial_fit(X)
    assert fresh.n_iter_ == 1


def test_weights_of_rows_are_repetitions():
    X = ratings(30, 8)[1]
    weights = np.arange(30) % 3
    weighed = RatingRBM(3, n_iter=3, random_state=0).fit(X, sample_weight=weights)
    repeated = RatingRBM(3, n_iter=3, random_state=0).fit(np.repeat(X, weights, axis=0))
    assert_allclose(weighed.components_, repeated.components_, rtol=1e-9, atol=1e-12)


def test_rows_and_columns_without_ratings_are_expected_to_be_as_others():
    X = ratings(50, 10)[1]
    X[0], X[:, 0] = np.nan, np.nan
    rbm = RatingRBM(3, n_iter=3, random_state=0).fit(X)
    assert rbm.effects_.columns[0] == 0
    bare = rbm.effects_.mean + rbm.effects_.columns
    assert_allclose(rbm.impute(X)[0], bare, atol=0.5)
    assert np.isfinite(rbm.impute(X)).all()


def test_choices_that_are_taken_for_ratings_warn():
    chosen = sp.csr_array(np.isfinite(ratings(60, 10)[1]).astype(float))
    with pytest.warns(UserWarning, match="all ratings are 1.*use RBM"):
        RatingRBM(2, n_iter=1).fit(chosen)


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_zeros_for_what_is_missing_warn(method):
    holes = np.clip(np.rint(ratings(60, 10)[1]), 1, 5)
    zeros = np.nan_to_num(holes)
    fit = getattr(RatingRBM(2, n_iter=1), method)
    with pytest.warns(UserWarning, match="zeros are treated as ratings"):
        fit(zeros)
    centred = np.where(zeros == 0, 0, zeros - 3)  # zero is one of the answers
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for X in (holes, sparse(holes), np.where(holes > 0, zeros, 3), centred):
            getattr(RatingRBM(2, n_iter=1), method)(X)


def test_effects_minimize_penalized_squares():
    X = seen_entries(ratings(40, 10)[1])
    effects = Effects.fitted(X)
    dense = sparse_to_nan(X)
    apart = dense - effects.mean - effects.columns - effects.of_rows(X)[:, None]
    assert_allclose(np.nansum(apart, axis=0), 10 * effects.columns, atol=1e-3)
    assert_allclose(np.nansum(apart, axis=1), 5 * effects.of_rows(X), atol=1e-3)
    assert_allclose(effects.scale, np.sqrt(np.nanmean(apart**2)))


def sparse_to_nan(X):
    dense = np.full(X.shape, np.nan)
    stored = X.tocoo()
    dense[stored.row, stored.col] = stored.data
    return dense


# The mean of n draws of a rating is normal with a standard deviation of sigma / sqrt(n): one of
# eight means is more than 5 of these away by chance with a probability of 5e-6.
def test_chains_stay_at_the_distribution_of_the_rated_items():
    generator, n = np.random.default_rng(0), 20_000
    W, c = generator.normal(size=(2, 4)), generator.normal(size=2)
    precision = 2.0
    machine = Machine(
        (Gaussian(), Bernoulli()),
        (Theta(np.zeros(4), np.full(4, precision)), Theta(c)),
        (W,),
    )
    seen = np.array([0, 2])
    # p(h) of the machine of the two items alone, and exact draws of it
    states = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    fields = states @ W[:, seen]
    p = np.exp(states @ c + (fields**2).sum(axis=1) / (2 * precision))
    p /= p.sum()
    drawn = generator.choice(4, n, p=p)
    V = fields[drawn] / precision + generator.normal(size=(n, 2)) / precision**0.5
    X = sp.csr_array((V.ravel(), np.tile(seen, n), np.arange(0, 2 * n + 1, 2)), shape=(n, 4))
    phase, rng = SeenPhase(2.0), make_rng(0, W)
    state = phase.init(machine, rng, 0, X)
    state, data, model = phase.phases(machine, state, X, rng)
    assert_array_equal(state.rows.indices, X.indices)
    means, squares = (p @ (fields / precision) ** k for k in (1, 2))
    found = state.rows.toarray()[:, seen]
    sigma = np.sqrt(1 / precision + squares - means**2)
    assert (abs(found.mean(axis=0) - means) < 5 * sigma / n**0.5).all()
    for moments in (data, model):
        pair = moments.matrices[0][1]
        assert_array_equal(pair[:, [1, 3]], 0)
    expected = (p[:, None, None] * states[:, :, None] * (fields / precision)[:, None, :]).sum(
        axis=0
    )
    spread = np.abs(found).std() + np.abs(found).mean()  # hidden means are at most 1
    for moments in (data, model):
        assert (abs(moments.matrices[0][1][:, seen] - expected) < 5 * spread / n**0.5).all()


def test_free_energies_change_as_sums_over_hidden_states_do():
    X = seen_entries(ratings(20, 6)[1] - 3)
    generator = np.random.default_rng(0)
    W, c = generator.normal(size=(2, 6)), generator.normal(size=2)
    machine = Machine(
        (Gaussian(), Bernoulli()), (Theta(np.zeros(6), np.full(6, 1.5)), Theta(c)), (W,)
    )
    states = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    squares = np.asarray(X.power(2).sum(axis=1)).ravel()
    free = 0.75 * squares - np.log(np.exp((X @ W.T + c) @ states.T).sum(axis=1))
    counts = np.diff(X.indptr) - np.diff(X.indptr).mean()
    free -= counts * (counts @ free) / (counts @ counts)
    assert_allclose(SeenPhase(3.0).free_energy(machine, X), free)


@pytest.mark.parametrize("make", [np.asarray, sparse])
def test_the_score_is_the_error_of_each_rating_given_the_others(make):
    X = ratings(30, 8)[1]
    X[0], X[1] = np.nan, [3.5, *[np.nan] * 7]
    rbm = RatingRBM(3, n_iter=5, random_state=0).fit(X)
    errors = []
    for i, j in zip(*np.nonzero(~np.isnan(X)), strict=True):
        row = X[i : i + 1].copy()
        row[0, j] = np.nan
        errors.append(rbm.impute(row)[0, j] - X[i, j])
    assert_allclose(rbm.score(make(X)), -np.sqrt(np.mean(np.square(errors))))


@pytest.mark.law
def test_few_users_get_enough_steps():
    """The error of effects alone is 1.05, and that of 60 epochs as well."""
    generator = np.random.default_rng(0)
    tastes, traits = generator.normal(size=(100, 3)), generator.normal(size=(80, 3))
    R = 3 + 0.5 * tastes @ traits.T + 0.5 * generator.normal(size=(100, 80))
    is_known = generator.random(R.shape) < 0.3
    rbm = RatingRBM(random_state=0).fit(np.where(is_known, R, np.nan))
    error = (rbm.impute(np.where(is_known, R, np.nan)) - R)[~is_known]
    assert np.sqrt(np.mean(error**2)) < 0.85 * R.std()
