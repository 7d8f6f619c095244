"""Frank-Wolfe on rows with missing values, against sums over what is missing."""

import numpy as np
import pytest
import scipy.sparse as sp
from _estimators import (
    assert_same_state,
    binary_data,
    divergence_from_noisy_patterns,
    noisy_patterns,
    small,
    with_holes,
)
from _exact import Exact
from _fractional import all_rows, unnormalised
from _machines import differences
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, logsumexp

from skrbm import FrankWolfeRBM
from skrbm.arrays import make_rng
from skrbm.estimators.frank_wolfe._growth import Growth, Plan
from skrbm.estimators.frank_wolfe._incomplete import IncompleteRows
from skrbm.estimators.frank_wolfe._mixture import Mixture
from skrbm.estimators.frank_wolfe._samples import ExactModel, SampledModel
from skrbm.inference import Gibbs

LIKE, NAN, SEED = np.zeros((1, 1)), np.nan, np.random.SeedSequence(3)
HOLES = np.array(
    [[1, NAN, 0, NAN, 1], [NAN] * 5, [NAN, 0, 1, 1, 0], [0, 1, 1, 0, 0], [0, 1, NAN, NAN, NAN]]
)
WEIGHTS = np.array([0.1, 0.1, 0.3, 0.2, 0.3])


def patterned(n=60, d=5, seed=0):
    """Rows of three noisy patterns, of which 30 % is missing; no two of them are equal."""
    generator = np.random.default_rng(seed)
    patterns = np.array([np.ones(d), np.zeros(d), np.arange(d) % 2])
    X = patterns[generator.integers(3, size=n)]
    X = np.abs(X - (generator.random(X.shape) < 0.05))
    return np.unique(np.where(generator.random(X.shape) < 0.3, NAN, X), axis=0)


def incomplete(H, weights=None, n_scored=1000):
    weights = np.full(len(H), 1 / len(H)) if weights is None else weights
    return IncompleteRows(H, weights, np.float64, np.full(H.shape[1], 0.5), SEED, n_scored)


def some_mixture(seed=0, d=5):
    generator = np.random.default_rng(seed)
    atoms, counts = generator.standard_normal((3, d + 1)), np.array([1.0, 0.4, 2.3])
    return Mixture(tuple(2 * atoms), counts, generator.standard_normal(d))


def observed_log_weights(mixture, H):
    """log p(observed) + log Z of each row, summed here over all rows that agree with it."""
    V, (atoms, counts, bias) = all_rows(H.shape[1]), (mixture.atoms, mixture.counts, mixture.bias)
    log_weights = unnormalised(V, atoms[:, :-1], atoms[:, -1], bias, counts)
    agree = np.array([(np.isnan(row) | (row == V)).all(axis=1) for row in H])
    return np.array([logsumexp(log_weights[rows]) for rows in agree])


def likelihood(mixture, H, weights=None, alpha=0.0):
    """The penalised mean log-likelihood of what is observed."""
    log_z = observed_log_weights(mixture, np.full((1, H.shape[1]), NAN))[0]
    mean = np.average(observed_log_weights(mixture, H), weights=weights) - log_z
    return mean - 0.5 * alpha * mixture.counts @ np.square(mixture.atoms).sum(axis=1)


def growth(H, plan=None, mixture=None, model=None, held_out=None):
    d = H.shape[1]
    mixture = Mixture((), np.zeros(0), np.zeros(d)) if mixture is None else mixture
    model = ExactModel(d, LIKE) if model is None else model
    held_out = None if held_out is None else incomplete(held_out)
    generator = np.random.default_rng(0)
    made = Growth(plan or Plan(), incomplete(H), model, mixture, generator, held_out)
    made.begin()
    return made


def followed(model, mixture, H=HOLES, weights=WEIGHTS):
    """What growth follows of some rows, complete."""
    found = incomplete(H, weights).followed(mixture.atoms)
    assert found.complete(model, mixture)
    return found


# ------------------------------------------------------------------------ expectations


def test_expectations_are_derivatives_of_the_likelihood_of_what_is_observed():
    """By the multiplicities and by the biases; the machine's own are those of a row of NaN."""
    mixture, nothing = some_mixture(), np.full((1, 5), NAN)
    model = ExactModel(5, LIKE)
    data, own = followed(model, mixture), followed(model, mixture, nothing, np.ones(1))

    def put(counts, bias):
        return Mixture(mixture.units, counts, bias)

    def of_counts(counts):
        return likelihood(put(counts, mixture.bias), HOLES, WEIGHTS)

    def of_bias(bias):
        return likelihood(put(mixture.counts, bias), HOLES, WEIGHTS)

    for found, function, values in [
        (data.values - own.values, of_counts, mixture.counts),
        (data.means - own.means, of_bias, mixture.bias),
    ]:
        slopes = differences(function, values, lambda value: value)
        assert_allclose(found, slopes, atol=1e-7)
    samples = model.samples(mixture).training
    assert_allclose(own.values, samples.softplus_means(mixture.atoms))


@pytest.mark.parametrize("mixture", [some_mixture(), some_mixture()._replace(counts=np.ones(3))])
def test_draws_have_the_expectations(mixture):
    """4 000 copies of rows with holes: a mean softplus has a standard error of at most 0.03, that
    of a bit one of 0.008. One of 8 is off by six of these with a probability below 1e-7."""
    model = SampledModel(Gibbs(10), 4000, LIKE, make_rng(0, LIKE))
    model.anneal(mixture, np.zeros(5))
    drawn, exact = followed(model, mixture), followed(ExactModel(5, LIKE), mixture)
    assert_allclose(drawn.values, exact.values, atol=0.18)
    assert_allclose(drawn.means, exact.means, atol=0.05)


def test_copies_share_the_weight_of_their_row():
    model = SampledModel(Gibbs(2), 100, LIKE, make_rng(0, LIKE))
    model.anneal(some_mixture(), np.zeros(5))
    rows = model.completed(some_mixture(), incomplete(HOLES, WEIGHTS))
    V = rows.dense(np.arange(rows.n))
    assert rows.weights.sum() == pytest.approx(1)
    # As many as both sets of chains have, by the weights; the complete one comes once.
    assert rows.n == 20 + 20 + 60 + 1 + 60
    for row, weight in zip(HOLES, WEIGHTS, strict=True):
        agree = (np.isnan(row) | (row == V)).all(axis=1)
        assert rows.weights[agree].sum() >= weight - 1e-12
    assert (V[20:40].std(axis=0) > 0).all()


def test_first_means_are_those_of_what_is_observed():
    H = HOLES[[0, 3]].copy()
    rows = IncompleteRows(H, np.array([0.25, 0.75]), np.float64, np.full(5, 0.3), SEED, 10)
    assert_allclose(rows.average(), [0.25, 1, 0.75, 0, 0.25])
    H[:, 2] = NAN
    assert_allclose(rows.average(), [0.25, 1, 0.3, 0, 0.25])


# ------------------------------------------------------------------------------- growth


@pytest.mark.parametrize(
    "plan", [Plan(temperature="learn"), pytest.param(Plan(temperature=3.0), marks=pytest.mark.law)]
)
def test_scores_are_of_what_is_observed(plan):
    H, held_out = patterned(), patterned(seed=5)
    made = growth(H, plan, held_out=held_out)
    first = likelihood(made.mixture, H)
    for _ in range(3):
        made.step()
        scores = made.scores()
        assert scores["score"] == pytest.approx(likelihood(made.mixture, H), abs=1e-9)
        expected = likelihood(made.mixture, held_out)
        assert scores["validation_score"] == pytest.approx(expected, abs=1e-9)
    assert likelihood(made.mixture, H) > first + 0.1


def test_each_step_raises_the_likelihood_at_least_by_what_it_promises():
    """The gain with completed rows is a bound of the gain, whatever is missing."""
    H = patterned()
    made = growth(H, Plan(n_bias_steps=0))
    before, gains = likelihood(made.mixture, H, alpha=0.01), []
    for _ in range(5):
        row = made.step()
        now = likelihood(made.mixture, H, alpha=0.01)
        if row["reason"] == "inserted":
            assert now - before >= row["gain"] - 1e-9
            gains.append(row["gain"])
        before = now
    assert len(gains) >= 4


@pytest.mark.law
def test_chains_do_as_sums_do():
    """After four steps the likelihoods are within 0.15 nats.

    Over 12 seeds of the chains these differed by 0.018 on average, with a standard deviation of
    0.015, and their estimates by -0.006 and 0.009.
    """
    H = patterned(400)
    sampled = SampledModel(Gibbs(10), 2000, LIKE, make_rng(0, LIKE))
    made = [growth(H), growth(H, model=sampled)]
    first = likelihood(made[0].mixture, H)
    for _ in range(4):
        for each in made:
            each.step()
    exact, drawn = (likelihood(each.mixture, H) for each in made)
    assert drawn == pytest.approx(exact, abs=0.15)
    assert drawn > first + 0.1
    assert made[1].scores()["score"] == pytest.approx(drawn, abs=0.15)


def test_growth_goes_on_from_its_state():
    """The same steps, as missing values are drawn from the state alone."""

    def begun():
        return growth(patterned(), model=SampledModel(Gibbs(2), 50, LIKE, make_rng(0, LIKE)))

    one, other = begun(), begun()
    one.step()
    other.model.rng, other.proposer.rng = make_rng(5, LIKE), np.random.default_rng(5)
    other.set_state(one.get_state())
    for made in (one, other):
        made.model.rng, made.proposer.rng = make_rng(7, LIKE), np.random.default_rng(7)
        made.step()
    assert_array_equal(one.mixture.atoms, other.mixture.atoms)
    assert_array_equal(one.mixture.counts, other.mixture.counts)


# ---------------------------------------------------------------------------- estimators


@pytest.mark.parametrize(
    "params", [{"early_stopping": True}, {"inference": "exact"}], ids=["stops", "sums"]
)
def test_weights_are_repeated_rows_in_any_order(params):
    H = with_holes(binary_data())
    weights = np.random.default_rng(0).integers(0, 3, len(H))
    repeated = np.random.default_rng(1).permutation(np.repeat(H, weights, axis=0))
    one = small(FrankWolfeRBM, **params).fit(H, sample_weight=weights)
    assert_same_state(one, small(FrankWolfeRBM, **params).fit(repeated))
    assert one.n_components_ > 0
    known = np.average(np.nan_to_num(H), axis=0, weights=weights)
    known /= np.average(~np.isnan(H), axis=0, weights=weights)
    if not one.early_stopping:  # else some rows are set aside
        assert_allclose(one.visible_means_, known)


def test_likelihoods_and_hidden_means_are_exact():
    """Units that count in part have no configurations, and what is missing has."""
    params = {"inference": "exact", "temperature": 2.5, "random_state": 0}
    rbm = FrankWolfeRBM(5, **params).fit(patterned())
    mixture = Mixture(
        np.column_stack([rbm.components_, rbm.intercept_hidden_]),
        rbm.multiplicities_,
        rbm.intercept_visible_,
    )
    assert (rbm.multiplicities_ % 1 != 0).any()
    expected = observed_log_weights(mixture, HOLES)
    assert_allclose(rbm.free_energy(HOLES), -expected, rtol=1e-9)
    log_z = observed_log_weights(mixture, np.full((1, 5), NAN))[0]
    assert_allclose(rbm.score_samples(HOLES), expected - log_z, atol=1e-8)
    V = all_rows(5)
    means = rbm.multiplicities_ * expit(V @ rbm.components_.T + rbm.intercept_hidden_)
    log_p = observed_log_weights(mixture, V)
    for row, found in zip(HOLES, rbm.transform(HOLES), strict=True):
        agree = (np.isnan(row) | (row == V)).all(axis=1)
        p = np.exp(log_p[agree] - logsumexp(log_p[agree]))
        assert_allclose(found, p @ means[agree], rtol=1e-8)


def test_whole_units_have_exact_likelihoods():
    atoms = some_mixture().atoms
    init = atoms[:, :-1], atoms[:, -1], np.zeros(5)
    rbm = FrankWolfeRBM(3, init=init, early_stopping=False, random_state=0).fit(patterned())
    assert rbm.n_components_ == 3 and (rbm.multiplicities_ == 1).all()
    log_z = Exact(rbm.machine_).log_z
    expected = [Exact(rbm.machine_, observed=row).log_z - log_z for row in HOLES]
    assert_allclose(rbm.score_samples(HOLES), expected, atol=1e-8)


def test_methods_take_missing_values():
    X = binary_data(dtype=np.float32)
    H = with_holes(X)
    before, rbm = H.copy(), small(FrankWolfeRBM).fit(H)
    assert rbm.__sklearn_tags__().input_tags.allow_nan
    size = rbm.n_components_
    rbm.grow(H)
    assert rbm.n_components_ == size + 1
    for result in (rbm.transform(H), rbm.predict(H), rbm.sample(given=H, n_steps=2), rbm.impute(H)):
        assert result.dtype == np.float32 and np.isfinite(result).all()
    assert np.isfinite(rbm.truncate(1).score_samples(H)).all()
    H[:, 2] = NAN  # a column may be missing in later rows
    means = rbm.visible_means_.copy()
    assert rbm.grow(H).visible_means_[2] == means[2]
    rbm.set_params(warm_start=True, max_components=9).fit(before)
    assert_array_equal(with_holes(X), before)


def test_what_is_refused():
    X, rbm = binary_data(), small(FrankWolfeRBM)
    H = with_holes(X)
    with pytest.raises(ValueError, match=r"sparse X contains NaN.*toarray"):
        rbm.fit(sp.csr_array(H))
    H[:, [2, 5]] = NAN
    with pytest.raises(ValueError, match=r"no observed value in columns \[2, 5\]"):
        rbm.fit(H)
    with pytest.raises(ValueError, match=r"in rows of 0 and 1.*set binarize"):
        small(FrankWolfeRBM, inference="exact").fit(with_holes(0.5 * X))
    small(FrankWolfeRBM, inference="exact", binarize=0.3).fit(with_holes(0.5 * X))


@pytest.mark.filterwarnings("ignore:the machine has no hidden unit")
def test_a_column_may_be_known_in_held_out_rows_alone():
    X = binary_data(20)
    for i in range(0, 20, 4):
        H = X.copy()
        H[np.arange(20) != i, 3] = NAN
        params = {"early_stopping": True, "validation_fraction": 0.2, "max_components": 1}
        rbm = small(FrankWolfeRBM, **params, n_chains=20).fit(H)
        assert np.isfinite(rbm.intercept_visible_).all()


@pytest.mark.law
def test_rows_with_holes_teach_nearly_as_much_and_more_than_filled_ones():
    """30 % of the entries of 2 000 rows are missing at random, and the divergence is a sum.

    It was 0.23, 0.37 and 0.27 with full rows, 0.42, 0.42 and 0.39 with holes, and 1.9 to 2.0 with
    means in the holes, for three sets of rows.
    """
    X = noisy_patterns(2000).astype(float)
    H = np.where(np.random.default_rng(100).random(X.shape) < 0.3, NAN, X)
    means = np.where(np.isnan(H), np.nanmean(H, axis=0), H)
    full, holes, filled = (
        divergence_from_noisy_patterns(FrankWolfeRBM(random_state=0).fit(rows).score_samples)
        for rows in (X, H, means)
    )
    assert full < 0.5
    assert holes < full + 0.4
    assert filled > holes + 1
