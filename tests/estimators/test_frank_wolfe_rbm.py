"""FrankWolfeRBM: what it learns, against sums over all configurations, and what it refuses."""

import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from _estimators import binary_data, log_likelihoods, noisy_patterns
from _fractional import all_rows, row_numbers, unnormalised
from _libraries import OTHER_LIBRARIES
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.special import expit, logsumexp
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

from skrbm import TAPRBM, BernoulliRBM, FrankWolfeRBM, GaussianBernoulliRBM
from skrbm.arrays import to_numpy
from skrbm.estimators.frank_wolfe._growth import Growth
from skrbm.exceptions import DataRangeWarning
from skrbm.inference import AIS, ContrastiveDivergence, Gibbs
from skrbm.inputs import DistinctRows
from skrbm.inspection import HistoryDisplay
from skrbm.units import Fractional

LEVEL = 1e-6


def small(**params):
    given = {"n_chains": 200, "random_state": 0, "max_components": 6, **params}
    return FrankWolfeRBM(**given)


def law(fw, V):
    """log p(v) by Eq. (11) and a sum over all rows."""
    parts = (fw.components_, fw.intercept_hidden_, fw.intercept_visible_)
    parts = [np.asarray(part, dtype=np.float64) for part in parts]
    log_z = logsumexp(unnormalised(all_rows(V.shape[1]), *parts, fw.multiplicities_))
    return unnormalised(np.asarray(V, dtype=np.float64), *parts, fw.multiplicities_) - log_z


@pytest.fixture(scope="module")
def X():
    return noisy_patterns(600).astype(np.float64)


@pytest.fixture(scope="module")
def fw(X):
    """A machine with parts: one unit is made to count in part if none does."""
    fitted = small(alpha=0.02).fit(X)
    assert fitted.n_components_ >= 2
    if (fitted.multiplicities_ == 1).all():
        fitted = small(alpha=0.02, temperature=1.5).fit(X)
    assert (fitted.multiplicities_ % 1 != 0).any()
    return fitted


# ------------------------------------------------------------------------- learning


def test_it_learns(X):
    """Four patterns of 12 bits, 3.9 nats above independent bits: at least half of that is found."""
    held_out = noisy_patterns(2000, seed=1)
    independent = X.mean(axis=0)
    base = (held_out * np.log(independent) + (1 - held_out) * np.log(1 - independent)).sum(axis=1)
    fw = FrankWolfeRBM(n_chains=500, random_state=0).fit(X)
    assert fw.score(held_out) > base.mean() + 2
    assert 2 <= fw.n_components_ <= 40
    assert fw.path_["n_components"][-1] >= fw.n_components_


@pytest.mark.law
@pytest.mark.parametrize("n_hidden, strength, seed", [(6, 2.0, 0), (10, 2.0, 1)])
def test_known_machines_are_found(n_hidden, strength, seed):
    """Of the divergence of independent bits from a random machine, 75 % closed; 95 % after PCD."""
    generator, V = np.random.default_rng(seed), all_rows(10)
    W = strength * generator.standard_normal((n_hidden, 10))
    bias = -0.5 * W.sum(axis=0) + 0.3 * generator.standard_normal(10)
    log_p = unnormalised(V, W, -0.5 * W.sum(axis=1), bias, np.ones(n_hidden))
    log_p -= logsumexp(log_p)
    p = np.exp(log_p)
    mean = p @ V
    distance = p @ (log_p - V @ np.log(mean) - (1 - V) @ np.log(1 - mean))
    assert distance > 0.3
    X = V[generator.choice(len(V), 10_000, p=p)].astype(np.float32)
    fw = FrankWolfeRBM(alpha=0.003, insert_tol=2e-4, tol=2e-4, random_state=0).fit(X)
    assert p @ (log_p - law(fw, V)) < 0.25 * distance
    settings = {"n_iter": 80, "learning_rate": 0.1, "batch_size": 50, "schedule": "linear"}
    rbm = BernoulliRBM(fw.n_components_, init=fw, random_state=0, **settings).fit(X)
    assert p @ (log_p - log_likelihoods(rbm, V)) < 0.05 * distance


@pytest.mark.law
@pytest.mark.parametrize(("radius", "temperature"), [(0.5, 2.0), (1.0, 1.0)])
def test_growth_ends_where_the_duality_gap_says_that_nothing_is_better(radius, temperature):
    """With all else held, a ten times longer run adds less than the gap, which is below gap_tol."""
    generator = np.random.default_rng(0)
    first = generator.random((400, 1)) < 0.5
    X = (generator.random((400, 6)) < np.where(first, 0.9, 0.1)).astype(np.float32)
    settings = {"alpha": 0, "radius": radius, "temperature": temperature, "n_bias_steps": 0}
    settings |= {"inference": "exact", "early_stopping": False, "max_components": 60}
    fw = small(**settings, insert_tol=0.01, gap_tol=0.01).fit(X)
    assert fw.stop_reason_ == "duality gap" and fw.path_["duality_gap"][-1] <= 0.01
    assert min(fw.path_["duality_gap"][:-1]) > 0.01
    longer = small(**settings, insert_tol=1e-5, gap_tol=1e-5, n_iter_no_change=100).fit(X)
    assert fw.n_components_ >= 1 and longer.score(X) - fw.score(X) <= 0.01


class AfterTwoUnits:
    """A callback that stops a growth."""

    n_units = 0

    def setup(self, estimator, context):
        pass

    teardown = on_fit_task_begin = setup

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        self.n_units += context.task_name == "unit"
        return self.n_units == 2


def test_a_callback_ends_the_growth(X):
    fw = small(early_stopping=False).set_callbacks(AfterTwoUnits()).fit(X)
    assert fw.stop_reason_ == "callback" and fw.n_iter_ == fw.n_components_ == 2


def test_away_steps_without_end_are_ended(X, monkeypatch):
    """Of 100 steps and four for each unit that may be."""
    rows, step = [], Growth.step

    def shrink(self, progress=None):
        rows.append({**rows[0], "reason": "shrunk"} if rows else step(self))
        return rows[-1]

    monkeypatch.setattr(Growth, "step", shrink)
    fw = small(max_components=2, early_stopping=False).fit(X)
    assert fw.stop_reason_ == "max_steps" and fw.n_iter_ == 108
    assert fw.n_components_ == len(fw.components_) == 1


def test_the_path_says_what_happened(X):
    fw = small(max_components=4).fit(X)
    path = fw.path_
    assert {len(column) for column in path.values()} == {fw.n_iter_}
    assert set(path["reason"]) <= {"inserted", "refused", "no unit", "removed", "shrunk"}
    sizes = np.array(path["n_components"])
    inserted = np.array(path["reason"]) == "inserted"
    assert_array_equal(np.diff(sizes, prepend=0), inserted)
    assert fw.stop_reason_ in ("max_components", "refused", "no unit", "validation")
    assert_allclose(
        path["free_energy_gap"], np.subtract(path["score"], path["validation_score"]), atol=1e-10
    )


def recorded_splits(monkeypatch):
    """Record the rows that each fit learns from, and those set aside, as often as they count."""
    splits, original = [], DistinctRows.split

    def spy(self, *args):
        parts = original(self, *args)
        counts = [self.weights_of(part).astype(int) for part in parts]
        splits.append([np.repeat(self.index[i], n) for i, n in zip(parts, counts, strict=True)])
        return parts

    monkeypatch.setattr(DistinctRows, "split", spy)
    return splits


def test_the_best_machine_of_the_path_is_kept(X, monkeypatch):
    splits = recorded_splits(monkeypatch)
    fw = small(
        max_components=12, inference="exact", insert_tol=1e-6, tol=1e-6, n_iter_no_change=3
    ).fit(X[:60])
    scores = np.array(fw.path_["validation_score"])
    sizes = np.array(fw.path_["n_components"])
    assert fw.path_["n_components"][int(np.argmax(scores))] == fw.n_components_
    assert fw.n_components_ in sizes
    # The score is the log-likelihood of the rows set aside, exactly with exact expectations.
    step = np.flatnonzero(sizes == fw.n_components_)[-1]
    score = fw.path_["score"][step], fw.path_["validation_score"][step]
    # Copies of a row are on one side: not always are just 6 of the 60 set aside.
    mean = np.average(score, weights=[len(part) for part in splits[0]])
    assert fw.score(X[:60]) == pytest.approx(mean, abs=1e-8)


def test_no_machine_is_worse_than_the_first(monkeypatch):
    """On independent bits all units are overfitted, and kept only if held-out samples gain by them.

    There are four of these, which gain by chance with some of the seeds.
    """
    splits, kept = recorded_splits(monkeypatch), []
    for seed in range(8):
        X = (np.random.default_rng(seed).random((40, 8)) < 0.4).astype(float)
        fw = small(inference="exact", alpha=1e-3, n_iter_no_change=3, random_state=5)
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            fw.fit(X)
        if not fw.n_components_:
            (warning,) = found
            assert "no hidden unit" in str(warning.message)
            assert "held-out samples" in str(warning.message) and warning.filename == __file__
        assert "inserted" in fw.path_["reason"]
        train, held_out = (X[rows] for rows in splits[-1])
        mean = train.mean(axis=0)  # which the refitted biases come near to
        first = (held_out * np.log(mean) + (1 - held_out) * np.log(1 - mean)).sum(axis=1).mean()
        rise = law(fw, held_out).mean() - first
        assert rise > 0.01 if fw.n_components_ else abs(rise) < 0.01
        kept.append(fw.n_components_)
    assert 0 in kept


def test_a_second_fit_keeps_the_first_machine():
    """Unless its own are better on the same rows set aside."""
    X = noisy_patterns(60).astype(float)
    params = {"inference": "exact", "warm_start": True, "max_components": 30, "alpha": 1e-3}
    fw, kept = small(n_iter_no_change=3, **params).fit(X), []
    for _ in range(3):
        last = np.flatnonzero(np.array(fw.path_["n_components"]) == fw.n_components_)[-1]
        kept.append(fw.path_["validation_score"][last])
        fw.fit(X)
    assert np.diff(kept).min() > -1e-3  # the biases are refitted


@pytest.mark.wide
@pytest.mark.parametrize(
    "params",
    [
        {"step": "1/t", "alpha": 0.1},
        {"temperature": "learn"},
        {"temperature": 2.5},
        {"temperature": 2.5, "step": "1/t", "alpha": 0.1},
        {"away_steps": True},
        {"radius": 4.0, "alpha": 0.0},
        {"inference": "exact"},
        {"inference": Gibbs(3)},
        {"early_stopping": "free_energy_gap"},
        {"early_stopping": False},
        {"n_bias_steps": 0},
        {"n_restarts": 1},
    ],
    ids=str,
)
def test_options(X, params):
    fw = small(**params).fit(X)
    assert fw.n_components_ >= 1
    independent = small(max_components=1, alpha=1e3)
    with pytest.warns(UserWarning, match="no hidden unit"):
        independent.fit(X)
    assert fw.score(X) > independent.score(X) + 0.1
    if params.get("step") == "1/t" and "temperature" not in params:
        assert (fw.multiplicities_ == 1).all()
    if params.get("temperature") == 2.5:
        assert fw.multiplicities_.sum() <= 2.5 + 1e-6
    if "radius" in params:
        norms = np.hypot(np.linalg.norm(fw.components_, axis=1), fw.intercept_hidden_)
        assert (norms <= 4.0 + 1e-6).all()
    assert_allclose(fw.score_samples(X), law(fw, X), rtol=1e-6)


@pytest.mark.parametrize("inference", ["gibbs", "exact"])
def test_away_steps_remove_units(X, inference):
    """Two units that no data ask for are removed on the way, by chains as by sums."""
    W = 3 * np.resize([1.0, -1], 12) * np.array([[1], [-1]])
    init = W, np.zeros(2), np.zeros(12)
    params = {"inference": inference, "init": init, "early_stopping": False, "max_components": 8}
    fw = small(away_steps=True, **params).fit(X)
    assert "removed" in fw.path_["reason"]
    assert not any(np.allclose(w, W, atol=0.1) for w in fw.components_[:, None])
    assert fw.score(X) > small(max_components=1).fit(X).score(X)


@pytest.mark.parametrize("seed", range(3))
def test_full_steps_within_a_temperature(X, seed):
    """A first unit takes the whole temperature, so that a full step to another removes it."""
    fw = small(temperature=0.5, n_chains=100, n_gibbs_steps=3, random_state=seed).fit(X[:300])
    assert (fw.multiplicities_ > 0).all() and fw.multiplicities_.sum() <= 0.5 + 1e-9
    assert_allclose(fw.score_samples(X), law(fw, X), rtol=1e-6)


def test_a_temperature_bounds_what_growth_begins_with(X):
    init = BernoulliRBM.from_parameters(np.zeros((6, 12)))
    with pytest.raises(ValueError, match=r"temperature=2.5 bounds .* is 6 already; set"):
        small(init=init, temperature=2.5, max_components=8).fit(X)
    fw = small(init=init, temperature=6, max_components=7, early_stopping=False).fit(X)
    assert "inserted" in fw.path_["reason"] and fw.multiplicities_.sum() <= 6 + 1e-6
    with pytest.raises(ValueError, match="temperature=2 bounds"):
        fw.set_params(temperature=2).grow(X)


def test_random_state(X):
    one, same, other = (small(random_state=seed).fit(X) for seed in (1, 1, 2))
    assert_array_equal(one.components_, same.components_)
    assert_array_equal(one.path_["gain"], same.path_["gain"])  # NaN where one was refused
    assert one.components_.shape != other.components_.shape or not np.allclose(
        one.components_, other.components_
    )
    assert_array_equal(clone(one).fit(X).components_, one.components_)


def test_going_on(X):
    fw = small(max_components=3, warm_start=True).fit(X)
    first = fw.components_.copy()
    fw.set_params(max_components=5).fit(X)
    assert 3 <= fw.n_components_ <= 5
    assert_allclose(fw.components_[:3], first, rtol=1e-6)
    sizes = fw.path_["n_components"]
    assert sizes[0] == 1 and sizes[-1] >= 3


def test_grow(X):
    fw = small(max_components=2).fit(X)
    first, n = fw.components_.copy(), fw.n_components_
    same = fw.grow(X, 2)
    assert same is fw and fw.n_components_ == n + 2
    assert_allclose(fw.components_[:n], first)
    assert_allclose(fw.score_samples(X), law(fw, X), rtol=1e-6)
    with pytest.raises(ValueError, match="n_units must be an integer >= 1"):
        fw.grow(X, 0)
    with pytest.raises(ValueError, match="n_units must be an integer >= 1, got True"):
        fw.grow(X, True)
    with pytest.raises(NotFittedError):
        FrankWolfeRBM().grow(X)
    with pytest.raises(ValueError, match="features"):
        fw.grow(X[:, :5])


def test_each_growth_begins_with_the_given_penalty(X):
    """What refusals have raised it to is not what the next data pay."""
    fw = small(max_components=30, n_iter_no_change=3, inference="exact", warm_start=True).fit(X)
    n_steps, n_units = fw.n_iter_, fw.n_components_
    fw.grow(noisy_patterns(400, seed=7), 2)
    assert fw.path_["alpha"][n_steps] == fw.alpha and fw.n_components_ == n_units + 2
    n_steps = fw.n_iter_
    assert fw.fit(X).path_["alpha"][n_steps] == fw.alpha


def test_grow_says_that_it_ended_early():
    X = all_rows(4)  # independent
    with pytest.warns(UserWarning, match="no hidden unit"):
        fw = small(inference="exact", early_stopping=False).fit(X)
    with pytest.warns(UserWarning, match="0 units, 2 less than were asked for: no start") as found:
        fw.grow(X, 2)
    assert found[0].filename == __file__


def test_truncate(X):
    fw = small(max_components=5, early_stopping=False, inference="exact").fit(X)
    assert fw.n_components_ == 5
    one = fw.truncate(2)
    assert (one.n_components_, fw.n_components_) == (2, 5)
    assert_array_equal(one.components_, fw.components_[:2])
    assert_allclose(one.score_samples(X), law(one, X), rtol=1e-6)
    assert one.score(X) != fw.score(X)
    step = fw.path_["n_components"].index(2)
    assert one.score(X) == pytest.approx(fw.path_["score"][step], abs=1e-8)
    one.grow(X, 1)
    assert one.n_components_ == 3
    assert_array_equal(fw.truncate(5).components_, fw.components_)
    with pytest.raises(ValueError, match="no machine on the path has 9 units; its sizes are"):
        fw.truncate(9)


def test_truncate_reaches_the_beginning(X):
    fw = small(max_components=2, early_stopping=False, inference="exact").fit(X)
    none = fw.truncate(0)
    assert none.n_components_ == none.n_iter_ == 0 and none.path_["reason"] == []
    assert_allclose(none.score_samples(X), law(none, X), rtol=1e-6)
    assert none.grow(X, 1).n_components_ == 1
    init = BernoulliRBM.from_parameters(np.random.default_rng(0).standard_normal((3, 12)))
    fw = small(init=init, max_components=5, early_stopping=False).fit(X)
    three = fw.truncate(3)
    assert_allclose(three.components_, init.components_)
    with pytest.raises(ValueError, match=r"no machine .* has 0 units; its sizes are \[3, 4, 5\]"):
        fw.truncate(0)
    with pytest.raises(ValueError, match="init has 3 hidden units, more than max_components=2"):
        small(init=init, max_components=2).fit(X)
    as_it_is = small(init=init, max_components=3).fit(X)
    assert as_it_is.path_.keys() == fw.path_.keys() and as_it_is.path_["n_components"] == []
    assert as_it_is.truncate(3).n_components_ == 3


class Interrupted(Gibbs):
    """Gibbs sampling that ends as Ctrl-C does once the machine has two hidden units."""

    def step(self, machine, state, rng):
        if machine.n_units[1] == 2:
            raise KeyboardInterrupt
        return super().step(machine, state, rng)


def test_interruption_keeps_the_last_machine(X):
    fw = small(early_stopping=False, inference=Interrupted())
    with pytest.raises(KeyboardInterrupt):
        fw.fit(X)
    assert fw.n_components_ == 1
    assert np.isfinite(fw.score(X))


class InterruptedAtOnce(Gibbs):
    """Gibbs sampling that ends as Ctrl-C does before a unit is inserted."""

    def step(self, machine, state, rng):
        raise KeyboardInterrupt


def test_interruption_before_growth_keeps_the_machine_to_begin_with(X):
    fw = small(inference=InterruptedAtOnce(), early_stopping=False)
    with pytest.raises(KeyboardInterrupt):
        fw.fit(X)
    assert fw.n_components_ == 0 and fw.stop_reason_ == "interrupted" and fw.n_iter_ == 0
    p = fw.machine_.units[0].mean(fw.machine_.thetas[0])
    assert_allclose(p, X.mean(axis=0), atol=1 / len(X))
    rows = X * np.log(p) + (1 - X) * np.log(1 - p)
    assert fw.score(X) == pytest.approx(rows.sum(axis=1).mean(), abs=1e-6)
    assert fw.starts_.shape == (fw.n_chains, 12) and fw.sample(3).shape == (3, 12)
    fw.set_params(inference="gibbs", max_components=2, early_stopping=False)
    assert fw.grow(X).n_components_ == 1
    init = BernoulliRBM(3, n_iter=1, random_state=0).fit(X)
    fw = small(inference=InterruptedAtOnce(), init=init)
    with pytest.raises(KeyboardInterrupt):
        fw.fit(X)
    assert_array_equal(fw.components_, init.components_)


def test_interruption_before_growth_leaves_a_fitted_machine(X):
    fw = small(max_components=2).fit(X)
    W, starts, score = fw.components_.copy(), fw.starts_.copy(), fw.score(X)
    with pytest.raises(KeyboardInterrupt):
        fw.set_params(inference=InterruptedAtOnce()).fit(X)
    assert_array_equal(fw.components_, W)
    assert_array_equal(fw.starts_, starts)
    assert fw.score(X) == score


def test_chains_that_start_at_batches_are_refused(X):
    with pytest.raises(ValueError, match=r"ContrastiveDivergence.* use Gibbs\(3\)"):
        small(inference=ContrastiveDivergence(3)).fit(X)


@pytest.mark.parametrize(
    "params, n_features",
    [({"init": BernoulliRBM.from_parameters(np.ones((2, 12)))}, 9), ({"inference": "exact"}, 25)],
    ids=["init of another width", "too wide for sums"],
)
def test_a_fit_that_fails_leaves_the_last_machine(X, params, n_features):
    fw = small(max_components=2).fit(X)
    W, path, score = fw.components_.copy(), fw.path_, fw.score(X)
    with pytest.raises(ValueError, match=r"visible units, (but|and) X has"):
        fw.set_params(**params).fit(binary_data(n_features=n_features))
    assert_array_equal(fw.components_, W)
    assert fw.path_ is path and fw.n_features_in_ == 12 and fw.score(X) == score
    assert fw.set_params(inference="gibbs").grow(X).n_components_ == len(W) + 1


@pytest.mark.parametrize("kind", ["machine", "arrays", "fractional", "sklearn"])
def test_init(X, fw, kind):
    first = {
        "machine": BernoulliRBM(3, n_iter=5, random_state=0).fit(X),
        "fractional": fw,
    }.get(kind)
    if kind == "sklearn":
        neural_network = pytest.importorskip("sklearn.neural_network")
        first = neural_network.BernoulliRBM(3, n_iter=5, random_state=0).fit(X)
    if kind == "arrays":
        generator = np.random.default_rng(0)
        init = generator.standard_normal((3, 12)), np.zeros(3), np.zeros(12)
        W = init[0]
    else:
        init, W = first, first.components_
    n = len(W)
    grown = small(max_components=n + 2, init=init, early_stopping=False).fit(X)
    assert grown.n_components_ == n + 2
    assert_allclose(grown.components_[:n], W, rtol=1e-6)
    if kind == "fractional":
        assert_allclose(grown.multiplicities_[:n], fw.multiplicities_)
    with pytest.raises(ValueError, match="init has 12 visible units, but X has 5 features"):
        small(init=init).fit(X[:, :5])


# ------------------------------------------------------------------------- the machine


def test_likelihoods_of_a_fractional_machine(X, fw):
    assert_allclose(fw.score_samples(X), law(fw, X), rtol=1e-10)
    assert fw.score(X) == pytest.approx(law(fw, X).mean())
    exact = fw.log_partition()
    value, std = fw.log_partition(AIS(500), return_std=True)
    assert abs(value - exact) < 6 * std < 1
    fw = pickle.loads(pickle.dumps(fw))
    fw.units_[1].multiplicities[:] *= 0.5  # log Z belongs to these too
    fw.multiplicities_ *= 0.5
    assert_allclose(fw.score_samples(X), law(fw, X), rtol=1e-10)


def test_methods_that_do_not_apply(fw):
    """They say what to use instead."""
    for method in ("tap", "tap3", "adaptive_tap", "relaxed_bp", "bethe"):
        with pytest.raises(ValueError, match=r"Fractional.*'ais'.*rounding='absorb'"):
            fw.log_partition(method)


@pytest.mark.law
def test_sample_has_the_law_of_the_machine(X, fw):
    """Independent chains from rows of the data; rare rows are counted together."""
    V = fw.sample(20_000, n_steps=200, init=np.resize(X, (20_000, 12)), random_state=0)
    expected = 20_000 * np.exp(law(fw, all_rows(12)))
    counts = np.bincount(row_numbers(V), minlength=4096)
    rare = expected < 5
    counts, expected = (np.append(a[~rare], a[rare].sum()) for a in (counts, expected))
    assert stats.chisquare(counts, expected).pvalue > LEVEL
    one = fw.gibbs(X, random_state=1)
    assert_array_equal(one, fw.sample(len(X), init=X, n_steps=1, random_state=1))


def test_features(X, fw):
    H = fw.transform(X)
    fields = X @ fw.components_.T + fw.intercept_hidden_
    assert_allclose(H, fw.multiplicities_ * expit(fields), rtol=1e-10)
    V = fw.inverse_transform(H)
    assert_allclose(V, expit(H @ fw.components_ + fw.intercept_visible_), rtol=1e-10)
    assert_array_equal(fw.predict(X), V > 0.5)
    assert len(fw.get_feature_names_out()) == fw.n_components_


def test_impute_gives_conditional_means(X, fw):
    """Within 0.1: were the 100 states kept of each of 400 chains one draw, four standard errors."""
    x = X[0].copy()
    x[6:] = np.nan
    V = all_rows(12)
    agree = (V[:, :6] == x[:6]).all(axis=1)
    log_p = law(fw, V[agree])
    truth = np.exp(log_p - logsumexp(log_p)) @ V[agree]
    filled = fw.impute(np.tile(x, (400, 1)), random_state=0)
    assert_allclose(filled.mean(axis=0), truth, atol=0.1)


def test_kinds_of_data(X):
    dense = small().fit(X.astype(np.float32))
    sparse = small().fit(sp.csr_array(X.astype(np.float32)))
    assert dense.components_.dtype == sparse.components_.dtype == np.float32
    assert small().fit(X.astype(bool)).components_.dtype == np.float32
    assert sparse.n_components_ >= 1
    assert_allclose(dense.score_samples(sp.csr_array(X)), dense.score_samples(X), rtol=1e-5)
    bits = small(binarize=0.5).fit(0.8 * X)
    assert_array_equal(bits.components_, small().fit(X.astype(np.float64)).components_)


@pytest.mark.arrays
@pytest.mark.parametrize("library", OTHER_LIBRARIES)
def test_other_array_libraries(X, library):
    pytest.importorskip("array_api_compat")
    xp = pytest.importorskip(library)
    Z = xp.asarray(X[:200])
    fw = small(max_components=3).fit(Z)
    for value in (fw.components_, fw.transform(Z), fw.sample(3), fw.starts_, fw.visible_means_):
        assert type(value) is type(Z)
    parts = [to_numpy(a) for a in (fw.components_, fw.intercept_hidden_, fw.intercept_visible_)]
    log_z = logsumexp(unnormalised(all_rows(12), *parts, fw.multiplicities_))
    scores = unnormalised(X[:200], *parts, fw.multiplicities_) - log_z
    assert_allclose(to_numpy(fw.score_samples(Z)), scores, rtol=1e-8)


# ------------------------------------------------------------------------- ordinary machines


def test_rounding(X, fw):
    n_parts = int((fw.multiplicities_ % 1 != 0).sum())
    with pytest.raises(ValueError, match=f"{n_parts} of {fw.n_components_} units.*rounding='abs"):
        fw.to_bernoulli_rbm()
    rbm, loss = fw.to_bernoulli_rbm("absorb", return_loss=True, n_iter=7)
    assert isinstance(rbm, BernoulliRBM) and rbm.n_iter == 7
    V = all_rows(12)
    change = law(fw, V) - log_likelihoods(rbm, V)
    assert np.abs(change).max() <= loss.bound + 1e-9
    assert loss.divergence == pytest.approx(np.exp(law(fw, V)) @ change, abs=1e-8)
    with pytest.raises(ValueError, match="rounding must be"):
        fw.to_bernoulli_rbm("up")


def test_rounding_to_the_nearest(X, fw):
    rbm, loss = fw.to_bernoulli_rbm("nearest", return_loss=True)
    copies = np.round(fw.multiplicities_).astype(int)
    assert_allclose(rbm.components_, np.repeat(fw.components_, copies, axis=0))
    V = all_rows(12)
    change = law(fw, V) - log_likelihoods(rbm, V)
    assert np.isnan(loss.bound)
    assert loss.divergence == pytest.approx(np.exp(law(fw, V)) @ change, abs=1e-8)


def test_rounding_keeps_what_the_data_are(X):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(0.8 * X, columns=[f"bit {k}" for k in range(12)])
    fw = small(binarize=0.5, max_components=2).fit(frame)
    rbm = fw.to_bernoulli_rbm("absorb")
    assert rbm.binarize == 0.5 and list(rbm.feature_names_in_) == list(frame.columns)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rbm.set_params(n_iter=1, warm_start=True).fit(frame)
    with pytest.raises(ValueError, match=r"n_components is no choice: the machine has . whole"):
        fw.to_bernoulli_rbm("absorb", n_components=1)


def test_whole_machines_lose_nothing(X):
    fw = small(step="1/t", alpha=0.1).fit(X)
    rbm, loss = fw.to_bernoulli_rbm(return_loss=True)
    assert loss == (0.0, pytest.approx(0.0, abs=1e-12))
    assert_allclose(rbm.score_samples(X), fw.score_samples(X), rtol=1e-10)
    assert_allclose(rbm.transform(X), fw.transform(X), rtol=1e-10)


@pytest.mark.parametrize(
    ("RBM", "params"),
    # With one Gibbs step the last parameters have a noise of 0.3 nats, as large as the rise.
    [(BernoulliRBM, {"n_gibbs_steps": 10}), (TAPRBM, {})],
)
def test_training_goes_on_from_it(X, fw, RBM, params):
    whole = fw.to_bernoulli_rbm("absorb")
    rbm = RBM(whole.n_components, init=fw, n_iter=0).fit(X)
    assert_allclose(rbm.components_, whole.components_)
    assert_allclose(rbm.intercept_visible_, whole.intercept_visible_)
    params = params | {"n_iter": 20, "learning_rate": 0.02, "random_state": 0}
    rbm = RBM(whole.n_components, init=fw, **params).fit(X)
    assert log_likelihoods(rbm, X).mean() > log_likelihoods(whole, X).mean()


@pytest.mark.parametrize("RBM", [BernoulliRBM, TAPRBM])
def test_units_that_count_twice_become_copies(X, RBM):
    W = np.random.default_rng(0).standard_normal((2, 12))
    first = BernoulliRBM.from_parameters(W)
    fw = small(init=first, max_components=2, early_stopping=False).fit(X)
    fw.units_ = (fw.units_[0], Fractional(np.array([2.0, 0.5])))
    fw.multiplicities_ = fw.units_[1].multiplicities
    n = fw.to_bernoulli_rbm("absorb").n_components
    assert n == 3
    with pytest.raises(ValueError, match=r"3 hidden units, but .* n_components=2; set n_comp.*=3"):
        RBM(2, init=fw).fit(X)
    rbm = RBM(n, init=fw, n_iter=0).fit(X)
    assert_allclose(rbm.components_, [W[0], W[0], 0.5 * W[1]])


@pytest.mark.parametrize("RBM", [FrankWolfeRBM, BernoulliRBM, TAPRBM])
def test_init_with_other_units_is_refused(X, RBM):
    gaussian = GaussianBernoulliRBM(5, n_iter=1).fit(X)
    with pytest.raises(ValueError, match=r"GaussianBernoulliRBM has units Gaussian.*same kinds"):
        RBM(5, init=gaussian).fit(X)
    with pytest.raises(ValueError, match="PCA is fitted, but no machine with components_, interc"):
        RBM(5, init=PCA(5).fit(X)).fit(X)


def test_in_a_pipeline(X):
    from sklearn.linear_model import LogisticRegression

    y = X[:, :6].sum(axis=1) > X[:, 6:].sum(axis=1)
    pipeline = make_pipeline(small(), LogisticRegression()).fit(X, y)
    assert pipeline.score(X, y) > 0.8


# ------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    "params, message",
    [
        ({"max_components": 0}, "'max_components' parameter"),
        ({"alpha": 0}, "alpha=0 leaves the weights of a new unit without bound; set alpha > 0"),
        ({"alpha": -1}, "'alpha' parameter"),
        ({"radius": 0}, "'radius' parameter"),
        ({"step": "2/t"}, "'step' parameter"),
        ({"temperature": "cold"}, "'temperature' parameter"),
        ({"temperature": 0.0}, "'temperature' parameter"),
        ({"temperature": "learn", "step": "1/t"}, "temperature='learn' scales units that a line"),
        ({"inference": "tap"}, "'inference' parameter"),
        ({"init": "random"}, "'init' parameter"),
        ({"init": (np.zeros((2, 8)), np.zeros(2))}, "init must be 'independent'"),
        ({"init": BernoulliRBM()}, "not fitted"),
        ({"early_stopping": "always"}, "'early_stopping' parameter"),
        ({"n_chains": 1}, "'n_chains' parameter"),
        ({"learning_rate": "auto"}, "'learning_rate' parameter"),
    ],
    ids=str,
)
def test_bad_parameters(params, message):
    with pytest.raises(ValueError, match=message):
        FrankWolfeRBM(**params).fit(binary_data())


@pytest.mark.wide
@pytest.mark.parametrize("alpha", [1e-300, 1e300])
def test_absurd_penalties(X, alpha):
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.filterwarnings("ignore", message="the machine has no hidden unit")
        fw = small(alpha=alpha, max_components=2, n_iter_no_change=2).fit(X)
    assert np.isfinite(fw.score(X))


def test_there_is_no_history_of_epochs(fw):
    with pytest.raises(ValueError, match="FrankWolfeRBM has no history_ of epochs; plot the col"):
        HistoryDisplay.from_estimator(fw)


def test_exact_inference_has_a_limit():
    with pytest.raises(ValueError, match="at most 20 visible units, and X has 25 features"):
        small(inference="exact").fit(binary_data(n_features=25))


def test_one_row_and_one_column():
    X = binary_data(n=1)
    with pytest.warns(UserWarning, match="no hidden unit"):  # one kind of row needs none
        fw = small().fit(X)
    assert fw.transform(X).shape == (1, 0) and fw.predict(X).tolist() == X.tolist()
    with pytest.raises(ValueError, match="of 2 samples, of which 2 differ, leaves no row"):
        small(validation_fraction=0.9).fit(binary_data(n=2))
    for params in ({}, {"early_stopping": False}):
        with pytest.warns(UserWarning, match="no hidden unit"):
            fw = small(**params).fit(binary_data(n_features=1))
        assert fw.transform(binary_data(n_features=1)).shape == (60, 0)


@pytest.mark.parametrize("n_features", [1, 3])
def test_few_distinct_rows_are_fitted_whole(n_features):
    """Independent bits, of which no pattern is left out: their means are the best machine.

    The biases come within a hundredth of a nat of them. Without a tenth of the patterns they would
    be some tenths of a nat away. A unit may gain 0.003 nats, the mutual information in the rows.
    """
    means = np.array([0.2, 0.4, 0.6])[:n_features]
    X = (np.random.default_rng(0).random((1000, n_features)) < means) * 1.0
    with pytest.warns(UserWarning, match="no hidden unit"):
        fw = FrankWolfeRBM(5, random_state=0).fit(X)
    p = X.mean(axis=0)
    assert fw.score(X) == pytest.approx((p * np.log(p) + (1 - p) * np.log(1 - p)).sum(), abs=0.01)
    assert np.isnan(fw.path_["validation_score"]).all()


@pytest.mark.parametrize("copies, held_out", [(4, True), (5, False)])
def test_rows_are_held_out_unless_each_is_there_five_times(copies, held_out, monkeypatch):
    X = np.repeat(all_rows(6)[:50].astype(float), copies, axis=0)
    splits = recorded_splits(monkeypatch)
    small(validation_fraction=0.2, alpha=1e-3).fit(X)
    assert bool(splits) == held_out


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_constant_data(value):
    with pytest.warns(UserWarning, match=r"no hidden unit.*constant"):
        fw = small().fit(np.full((50, 4), value))
    assert fw.n_components_ == 0 and fw.components_.shape == (0, 4)
    assert fw.stop_reason_ in ("no unit", "refused")
    X = np.full((3, 4), value)
    assert fw.transform(X).shape == (3, 0)
    assert fw.score(X) > -0.2
    assert fw.sample(5, random_state=0).shape == (5, 4)
    assert fw.predict(X).tolist() == X.tolist()
    means = fw.inverse_transform(fw.transform(X))
    assert_allclose(means, np.tile(expit(fw.intercept_visible_), (3, 1)))
    with pytest.raises(ValueError, match="H has 1 columns, but the machine has 0"):
        fw.inverse_transform(np.zeros((3, 1)))
    with pytest.raises(ValueError, match="no hidden unit"):
        fw.to_bernoulli_rbm()
    with pytest.raises(ValueError, match="FrankWolfeRBM has no hidden unit to start from"):
        BernoulliRBM(2, init=fw).fit(X)


@pytest.mark.parametrize(
    "params, n",
    [
        ({"alpha": 0.0, "radius": 3.0}, 50),
        ({"temperature": 2.0}, 50),
        ({"insert_tol": 0.0}, 50),
        ({"n_bias_steps": 0}, 50),
        ({"away_steps": True}, 2),
        ({"early_stopping": False}, 1),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array, np.float32, bool])
def test_rows_that_are_the_same_need_no_unit(params, n, kind):
    C = np.tile(np.array([[0.0, 1.0]]), (n, 6))
    C = C.astype(kind) if isinstance(kind, type) and kind is not sp.csr_array else kind(C)
    with pytest.warns(UserWarning, match=r"no hidden unit.*constant"):
        fw = small(**params).fit(C)
    assert fw.n_components_ == 0 and fw.path_["reason"] == ["no unit"]


@pytest.mark.parametrize(
    "params", [{}, {"early_stopping": False, "insert_tol": 0.0, "alpha": 1e-4}]
)
def test_one_column_needs_no_unit(X, params):
    with pytest.warns(UserWarning, match="no hidden unit"):
        fw = small(**params).fit(X[:, :1])
    assert fw.n_components_ == 0
    assert fw.predict([[0.0], [1.0]]).shape == (2, 1)


def test_data_outside_of_the_range():
    with pytest.warns(DataRangeWarning, match="binarize"):
        small(max_components=1).fit(3 * binary_data())
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataRangeWarning)
        small(max_components=1, binarize=1.0).fit(3 * binary_data())
    with pytest.raises(ValueError, match="NaN"):
        small().fit(np.full((5, 3), np.nan))


def test_there_is_no_partial_fit():
    """Streams are taken by grow; nothing pretends otherwise."""
    assert not hasattr(FrankWolfeRBM(), "partial_fit")
