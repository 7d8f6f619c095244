"""Fits of rows in groups between which persistent chains do not pass."""

import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.stats import norm
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from skrbm import RBM, BernoulliRBM, CategoricalRBM, TabularRBM
from skrbm.estimators._anew import learnt_by_better_chains
from skrbm.exceptions import DivergenceError

REAL = RBM(8, visible="gaussian", random_state=0)


def real_groups(n=400):
    """Return rows around -2 and 2, and their mean log-likelihood by that distribution."""
    rng = np.random.default_rng(0)
    X = 4.0 * (rng.random((n, 1)) < 0.5) - 2 + 0.5 * rng.standard_normal((n, 6))
    density = np.logaddexp(*(norm.logpdf(X, side, 0.5).sum(axis=1) for side in (-2, 2)))
    return X, density.mean() - np.log(2)


def bits_in_groups(n=400):
    rng = np.random.default_rng(0)
    X = (rng.random((n, 1)) < 0.5) ^ (rng.random((n, 30)) < 0.02)
    on, p = X.sum(axis=1), np.log([0.02, 0.98])
    density = np.logaddexp(on * p[0] + (30 - on) * p[1], on * p[1] + (30 - on) * p[0])
    return X.astype(float), density.mean() - np.log(2)


@pytest.mark.parametrize(
    "rbm, data",
    [
        (REAL, real_groups()),
        (RBM(8, random_state=0), bits_in_groups()),
        (TabularRBM(8, random_state=0), real_groups()),
        (CategoricalRBM(8, random_state=0), bits_in_groups()),
    ],
    ids=["real", "bits", "table", "categories"],
)
def test_a_fit_begins_anew_by_tempered_chains(rbm, data):
    """It is the fit by tempered chains. That of persistent ones is told to be wrong, and is."""
    X, truth = data
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        found = clone(rbm).fit(X)
    tempered = clone(rbm).set_params(starts="tempered").fit(X)
    assert_array_equal(found.components_, tempered.components_)
    assert found.history_["epoch"] == tempered.history_["epoch"] and len(found.ladder_) > 1
    assert found.score(X) > truth - 1.5
    assert found.starts is None
    with pytest.warns(ConvergenceWarning, match='wrong weights. Use starts="tempered"'):
        persistent = clone(rbm).set_params(starts="persistent").fit(X)
    assert not hasattr(persistent, "ladder_")
    assert persistent.score(X) < found.score(X) - 2


def test_a_print_tells_of_the_new_fit(capsys):
    clone(REAL).set_params(verbose=1).fit(real_groups()[0])
    printed = capsys.readouterr().out.splitlines()
    at = printed.index(
        "[RBM] Chains stay in groups of rows; the fit begins anew by tempered chains"
    )
    assert printed[at + 1].startswith("[RBM] Iteration 1, ") and at == len(printed) // 2


def test_rows_without_groups_are_learnt_by_persistent_chains():
    X, _ = real_groups()
    rbm = clone(REAL).fit(X)
    rbm.fit(np.random.default_rng(0).standard_normal((400, 6)))  # of a fit before nothing is kept
    assert not hasattr(rbm, "ladder_") and "exchange" not in rbm.history_


def test_later_learning_goes_on_by_tempered_chains():
    X, _ = real_groups()
    rbm = clone(REAL).fit(X)
    for other in (rbm, pickle.loads(pickle.dumps(rbm))):
        n_epochs = len(other.history_["epoch"])
        other.partial_fit(X).set_params(warm_start=True, n_iter=2).fit(X)
        assert len(other.history_["epoch"]) == n_epochs + 3
        assert len(other.ladder_) > 1 and other.history_["exchange"][-1] > 0


class Told:
    """A callback that writes down what it is told of, and stops after ``most`` epochs."""

    def __init__(self, most=None):
        self.names, self.most = [], most

    def setup(self, estimator, context):
        self.names.append("setup")

    def on_fit_task_begin(self, estimator, context, *, fitted_estimator=None):
        self.names.append(context.task_name)

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        self.names += ["end"] * (context.task_name == "fit")
        return self.names.count("epoch") == self.most

    def teardown(self, estimator, context):
        self.names.append("teardown")


def test_callbacks_are_told_of_two_fits():
    X, _ = real_groups()
    told = Told()
    rbm = clone(REAL).set_callbacks(told).fit(X)
    assert_array_equal(rbm.components_, clone(REAL).fit(X).components_)
    fit = ["setup", "fit", *["epoch"] * rbm.n_iter_, "end", "teardown"]
    assert told.names == fit + fit


def test_an_interruption_at_the_very_end_keeps_what_was_chosen():
    class Interrupts(Told):
        def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
            super().on_fit_task_end(estimator, context)
            if self.names.count("end") == 2:
                raise KeyboardInterrupt

    X, _ = bits_in_groups()
    rbm = RBM(8, n_iter=50, random_state=0).set_callbacks(Interrupts())
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        with pytest.raises(KeyboardInterrupt):
            rbm.fit(X)
    assert hasattr(rbm, "ladder_")


def test_a_callback_that_stops_a_fit_ends_it():
    X, _ = real_groups()
    told = Told(most=100)
    rbm = clone(REAL).set_params(n_iter=150).set_callbacks(told)
    with pytest.warns(ConvergenceWarning, match="wrong weights"):
        rbm.fit(X)
    assert told.names.count("setup") == 1 and not hasattr(rbm, "ladder_")


def test_fits_with_a_learning_rate_of_their_own_warn():
    X, _ = real_groups()
    rbm = clone(REAL).set_params(learning_rate=0.1, n_iter=300)
    with pytest.warns(ConvergenceWarning, match="wrong weights"):
        rbm.fit(X)
    assert not hasattr(rbm, "ladder_")


def test_fits_with_a_given_learning_rate_warn():
    X, _ = bits_in_groups()
    with pytest.warns(ConvergenceWarning, match='persistent="tempered"'):
        BernoulliRBM(8, learning_rate=0.1, n_iter=400, random_state=0).fit(X)


class Watch:
    """Stands for the monitor of a fit: its failure, and the log-likelihood of some rows."""

    shown = np.arange(4), np.ones(4)

    def __init__(self, failure, log_likelihood=0.0):
        self.failure, self.log_likelihood = failure, log_likelihood

    def told(self):
        return self.failure and f"{self.failure} Do this."

    def estimated(self, shown):
        assert shown is Watch.shown
        return self.log_likelihood, 0.5


@pytest.mark.parametrize(
    "ends, told",
    [
        (Watch(None), None),
        (Watch(None, -1.4), None),  # which may be chance
        (Watch(None, -1.5), "stuck. Tempered chains were tried, but led to a log-likelihood of"),
        (Watch("fails"), "stuck. Do this."),
        (DivergenceError("too long"), "stuck. Do this."),
        (KeyboardInterrupt(), "stuck. Do this."),
    ],
)
def test_a_new_fit_that_is_worse_changes_nothing(ends, told):
    rbm, calls = RBM(3, n_iter=1, random_state=0).fit(np.eye(4)), []
    rbm.set_callbacks(Told())
    before = dict(vars(rbm))

    def learn(goes_on, progress, *, concluded, begins, first):
        assert not goes_on and progress is None and begins
        calls.append(first)
        monitor = Watch("stuck.") if first is None else ends
        if first is not None:
            rbm.components_, rbm.more_ = rbm.components_ + 1, 0
        if isinstance(monitor, BaseException):
            raise monitor
        assert concluded(monitor, "n_iter") == (first is not None)

    if isinstance(ends, KeyboardInterrupt):
        with pytest.raises(KeyboardInterrupt), pytest.warns(ConvergenceWarning, match=told):
            learnt_by_better_chains(rbm, learn, False, None)
    else:
        found = learnt_by_better_chains(rbm, learn, False, None)
        assert found is None if told is None else found.startswith(told)
    assert (vars(rbm) == before) == (told is not None)
    assert len(calls) == 2 and calls[0] is None


def test_the_better_of_both_fits_is_kept():
    """Of a few steps, those of persistent chains lead further."""
    X, _ = bits_in_groups()
    rbm = RBM(8, n_iter=5, random_state=0)
    with pytest.warns(ConvergenceWarning, match=r"were tried, but led to .* this fit is kept"):
        rbm.fit(X)
    with pytest.warns(ConvergenceWarning, match='Use starts="tempered"'):
        persistent = clone(rbm).set_params(starts="persistent").fit(X)
    tempered = clone(rbm).set_params(starts="tempered").fit(X)
    assert_array_equal(rbm.components_, persistent.components_)
    assert not hasattr(rbm, "ladder_") and rbm.score(X) > tempered.score(X) + 1


def test_tempering_passes_between_groups():
    """Its chains are exchanged with those at other temperatures, and may stay where they are."""
    X, truth = real_groups()
    rbm = RBM(8, visible="gaussian", inference="tempering", random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        rbm.fit(X)
    assert rbm.score(X) > truth - 1.5


def test_pipelines_and_searches_begin_anew_as_well():
    X, _ = bits_in_groups()
    expected = RBM(8, random_state=0).fit(X).score(X)
    model = make_pipeline(RBM(8, random_state=0)).fit(X)
    assert model.score(X) == expected
    search = GridSearchCV(RBM(random_state=0), {"n_components": [8]}, cv=2).fit(X)
    assert search.best_estimator_.score(X) == expected
    assert search.best_score_ > expected - 1
