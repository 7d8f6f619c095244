"""FrankWolfeRBM: what it learns, against sums over all configurations, and what it refuses."""

import pickle

import numpy as np
import pytest
from _estimators import log_likelihoods, noisy_patterns
from _fractional import all_rows, row_numbers, unnormalised
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.special import expit, logsumexp
from sklearn.exceptions import NotFittedError

from skrbm import RBM, BernoulliRBM, FrankWolfeRBM
from skrbm.estimators.frank_wolfe import _growth
from skrbm.inference import AIS, Gibbs
from skrbm.inputs import DistinctRows
from skrbm.learning import SGD, EarlyStopping

LEVEL = 1e-6


def small(**params):
    given = {
        "inference": Gibbs(n_steps=10, n_chains=200),
        "random_state": 0,
        "max_components": 6,
        **params,
    }
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
    fw = FrankWolfeRBM(inference=Gibbs(n_steps=10, n_chains=500), random_state=0).fit(X)
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
    fw = FrankWolfeRBM(
        alpha=0.003, tol=2e-4, early_stopping=EarlyStopping(patience=10, tol=2e-4), random_state=0
    ).fit(X)
    assert p @ (log_p - law(fw, V)) < 0.25 * distance
    settings = {
        "n_iter": 80,
        "learning_rate": 0.1,
        "batch_size": 50,
        "optimizer": SGD(schedule="linear"),
    }
    rbm = RBM(fw.n_components_, init=fw, random_state=0, **settings).fit(X)
    assert p @ (log_p - log_likelihoods(rbm, V)) < 0.05 * distance


@pytest.mark.law
@pytest.mark.parametrize(("radius", "temperature"), [(0.5, 2.0), (1.0, 1.0)])
def test_growth_ends_where_the_duality_gap_says_that_nothing_is_better(
    radius, temperature, monkeypatch
):
    """With all else held, a ten times longer run adds less than the gap, which is below gap_tol."""
    monkeypatch.setattr(_growth, "_RIDGE", 1e15)
    generator = np.random.default_rng(0)
    first = generator.random((400, 1)) < 0.5
    X = (generator.random((400, 6)) < np.where(first, 0.9, 0.1)).astype(np.float32)
    settings = {"alpha": 0, "radius": radius, "temperature": temperature}
    settings |= {"inference": "exact", "early_stopping": False, "max_components": 60}
    fw = small(**settings, tol=0.01).fit(X)
    assert fw.stop_reason_ == "duality gap" and fw.path_["duality_gap"][-1] <= 0.01
    assert min(fw.path_["duality_gap"][:-1]) > 0.01
    longer = small(**settings, tol=1e-5).fit(X)
    assert fw.n_components_ >= 1 and longer.score(X) - fw.score(X) <= 0.01


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
        max_components=12,
        inference="exact",
        tol=1e-6,
        early_stopping=EarlyStopping(patience=3, tol=1e-6),
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
        {"inference": Gibbs(n_steps=3)},
        {"early_stopping": "free_energy_gap"},
        {"early_stopping": False},
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


def test_whole_machines_lose_nothing(X):
    fw = small(step="1/t", alpha=0.1).fit(X)
    rbm, loss = fw.to_bernoulli_rbm(return_loss=True)
    assert loss == (0.0, pytest.approx(0.0, abs=1e-12))
    assert_allclose(rbm.score_samples(X), fw.score_samples(X), rtol=1e-10)
    assert_allclose(rbm.transform(X), fw.transform(X), rtol=1e-10)


# ------------------------------------------------------------------------- bad input


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
        RBM(2, init=fw).fit(X)
