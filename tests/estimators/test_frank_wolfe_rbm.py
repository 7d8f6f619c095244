"""FrankWolfeRBM: what it learns, against sums over all configurations, and what it refuses."""

import pickle

import numpy as np
import pytest
from _estimators import log_likelihoods, noisy_patterns
from _fractional import all_rows, unnormalised
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, logsumexp
from sklearn.exceptions import NotFittedError

from skrbm import RBM, BernoulliRBM, FrankWolfeRBM
from skrbm.estimators.frank_wolfe import _growth
from skrbm.inference import AIS, Gibbs
from skrbm.learning import EarlyStopping


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
    """A machine whose units count in part."""
    fitted = small(alpha=0.02, step="line_search", temperature=1.5).fit(X)
    assert fitted.n_components_ >= 2 and (fitted.multiplicities_ % 1 != 0).any()
    return fitted


# ------------------------------------------------------------------------- learning


def test_it_learns(X):
    """Four patterns of 12 bits, 3.9 nats above independent bits: nearly all of that is found."""
    held_out = noisy_patterns(2000, seed=1)
    independent = X.mean(axis=0)
    base = (held_out * np.log(independent) + (1 - held_out) * np.log(1 - independent)).sum(axis=1)
    fw = FrankWolfeRBM(inference=Gibbs(n_steps=10, n_chains=500), random_state=0).fit(X)
    assert fw.score(held_out) > base.mean() + 3
    assert 2 <= fw.n_components_ <= 40
    assert fw.path_["n_components"][-1] >= fw.n_components_


@pytest.mark.law
@pytest.mark.parametrize("alpha", [1e-3, 1e-5])
def test_a_weak_penalty_leads_to_units_of_moderate_weights(alpha):
    """Of three units that share no columns: 0.2 nats from the truth at most, from 2 000 draws.

    Thirty fits were 0.013 to 0.058 nats away: if the logarithms are normal, 0.2 is 6 standard
    deviations above their mean, exceeded with a probability of about 1e-9. Independent bits are 0.8
    nats away, where growth ended if units were inserted as they were found.
    """
    V, W = all_rows(12), 4 * np.kron(np.eye(3), np.ones(4))
    log_p = unnormalised(V, W, np.full(3, -6.0), np.full(12, -2.0), np.ones(3))
    p = np.exp(log_p - logsumexp(log_p))
    X = V[np.random.default_rng(0).choice(len(V), 2000, p=p)]
    fw = FrankWolfeRBM(30, alpha=alpha, random_state=0).fit(X)
    assert p @ (np.log(p) - law(fw, V)) < 0.2


@pytest.mark.parametrize("inference", ["gibbs", "exact"])
def test_steps_of_one_over_t_are_whole_for_every_penalty(inference):
    X = np.repeat(np.random.default_rng(0).integers(2, size=(200, 6)), 2, axis=1)
    params = {"step": "1/t", "early_stopping": False, "inference": inference, "random_state": 0}
    for alpha in (1e-4, 1e-3):
        fw = FrankWolfeRBM(2, alpha=alpha, **params).fit(X)
        assert_array_equal(fw.multiplicities_, [1.0, 1.0])


@pytest.mark.law
def test_growth_ends_where_the_duality_gap_says_that_nothing_is_better(monkeypatch):
    """With all else held, a longer run adds less than the gap, which is below tol."""
    monkeypatch.setattr(_growth, "_RIDGE", 1e15)
    generator = np.random.default_rng(0)
    first = generator.random((400, 1)) < 0.5
    X = (generator.random((400, 6)) < np.where(first, 0.9, 0.1)).astype(np.float32)
    settings = {"alpha": 0.1, "temperature": 1.0, "step": "line_search"}
    settings |= {"inference": "exact", "early_stopping": False, "max_components": 60}
    fw = small(**settings, tol=0.01).fit(X)
    assert fw.stop_reason_ == "duality gap" and fw.path_["duality_gap"][-1] <= 0.01
    assert min(fw.path_["duality_gap"][:-1]) > 0.01
    longer = small(**settings, tol=1e-5).fit(X)
    assert fw.n_components_ >= 1 and longer.score(X) - fw.score(X) <= 0.01


@pytest.mark.parametrize("step", ["joint", "line_search"])
def test_the_best_machine_of_the_path_is_kept(X, step):
    stopping = EarlyStopping(patience=3, tol=1e-6)
    params = {"max_components": 8, "inference": "exact", "tol": 1e-6, "step": step}
    fw = small(early_stopping=stopping, **params).fit(X[:60])
    scores, sizes = np.array(fw.path_["validation_score"]), fw.path_["n_components"]
    assert sizes[int(np.argmax(scores))] == fw.n_components_
    # The scores are log-likelihoods, exactly with exact expectations: 6 of 60 rows are held out.
    step = sizes.index(fw.n_components_)
    mean = 0.9 * fw.path_["score"][step] + 0.1 * scores[step]
    assert fw.score(X[:60]) == pytest.approx(mean, abs=1e-8)


@pytest.mark.parametrize("inference", ["gibbs", "exact"])
def test_away_steps_remove_units(X, inference):
    """Two units that no data ask for are removed on the way, by chains as by sums."""
    W = 3 * np.resize([1.0, -1], 12) * np.array([[1], [-1]])
    init = W, np.zeros(2), np.zeros(12)
    params = {"inference": inference, "init": init, "early_stopping": False, "max_components": 8}
    fw = small(step="line_search", away_steps=True, **params).fit(X)
    assert "removed" in fw.path_["reason"]
    assert not any(np.allclose(w, W, atol=0.1) for w in fw.components_[:, None])
    assert fw.score(X) > small(max_components=1).fit(X).score(X)


@pytest.mark.parametrize("step", ["joint", "line_search"])
def test_grow(X, step):
    fw = small(max_components=2, step=step).fit(X)
    first, n = fw.components_.copy(), fw.n_components_
    same = fw.grow(X, 2)
    assert same is fw and fw.n_components_ == n + 2
    if step == "line_search":
        assert_allclose(fw.components_[:n], first)
    assert_allclose(fw.score_samples(X), law(fw, X), rtol=1e-6)
    for n_units in (0, True):
        with pytest.raises(ValueError, match="n_units"):
            fw.grow(X, n_units)
    with pytest.raises(NotFittedError):
        FrankWolfeRBM().grow(X)
    with pytest.raises(ValueError, match="features"):
        fw.grow(X[:, :5])


def test_truncate(X):
    fw = small(max_components=5, early_stopping=False, inference="exact").fit(X)
    assert fw.n_components_ == 5 and fw.stop_reason_ == "max_components"
    one, last = fw.truncate(2), fw.components_.copy()
    assert (one.n_components_, fw.n_components_) == (2, 5)
    assert_allclose(one.score_samples(X), law(one, X), rtol=1e-6)
    step = fw.path_["n_components"].index(2)
    assert one.score(X) == pytest.approx(fw.path_["score"][step], abs=1e-8)
    one.grow(X, 1)
    assert one.n_components_ == 3
    assert_array_equal(fw.truncate(5).components_, last)
    with pytest.raises(ValueError, match="has 9 units"):
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
    n, params = len(W), {"init": init, "early_stopping": False}
    grown = small(max_components=n + 2, step="line_search", **params).fit(X)
    assert grown.n_components_ == n + 2
    assert_allclose(grown.components_[:n], W, rtol=1e-6)
    if kind == "fractional":
        assert_allclose(grown.multiplicities_[:n], fw.multiplicities_)
    n = fw.ordinary_machine().n_units[1] if kind == "fractional" else n
    assert small(max_components=n + 1, **params).fit(X).n_components_ == n + 1
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


def test_features(X, fw):
    H = fw.transform(X)
    fields = X @ fw.components_.T + fw.intercept_hidden_
    assert_allclose(H, fw.multiplicities_ * expit(fields), rtol=1e-10, atol=1e-14)
    V = fw.inverse_transform(H)
    assert_allclose(V, expit(H @ fw.components_ + fw.intercept_visible_), rtol=1e-10)
    assert_array_equal(fw.predict(X), V > 0.5)
    assert len(fw.get_feature_names_out()) == fw.n_components_


# ------------------------------------------------------------------------- ordinary machines


def test_rounding(X, fw):
    """No log-likelihood changes by more than Prop. 3.2 says."""
    rbm = BernoulliRBM.from_parameters(fw, n_iter=7)
    assert isinstance(rbm, BernoulliRBM) and rbm.n_iter == 7
    V, part = all_rows(12), fw.multiplicities_ % 1
    change = law(fw, V) - log_likelihoods(rbm, V)
    assert np.abs(change).max() <= (1 - part)[part > 0].sum() * np.log(2) + 1e-9


# ------------------------------------------------------------------------- bad input


def test_warnings_say_in_which_direction_to_change_alpha(X):
    """A large penalty allows no unit; with a small one whole units overshoot."""
    with pytest.warns(UserWarning, match="gains more than tol.*lower alpha"):
        small(alpha=10.0).fit(X)
    with pytest.warns(UserWarning, match="raised the validation score.*raise alpha"):
        small(alpha=1e-3, step="1/t", max_components=1).fit(X)


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
    with pytest.raises(ValueError, match="H has 1 columns, but"):
        fw.inverse_transform(np.zeros((3, 1)))
    with pytest.raises(ValueError, match="FrankWolfeRBM has no hidden units"):
        RBM(2, init=fw).fit(X)
