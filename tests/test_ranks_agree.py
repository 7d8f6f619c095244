"""Ranks that do not begin the same fit, which all of them tell."""

import numpy as np
import pytest
from _processes import on_ranks
from sklearn.exceptions import ConvergenceWarning
from test_ranks import data, parts

from skrbm import RBM, BernoulliRBM, DeepTAPMachine, RBMClassifier
from skrbm._ranks import Communicator, use
from skrbm.inference import Gibbs
from skrbm.learning import SGD
from skrbm.persistence import Checkpoint
from skrbm.units import Binomial


def refused(make):
    """Return what two ranks tell that fit ``make(rank)``, as one text."""

    def fitted(rank):
        return make(rank).fit(parts(data(), rank))

    errors = on_ranks(fitted)
    assert all(isinstance(error, ValueError) for error in errors), errors
    assert str(errors[0]) == str(errors[1])
    return str(errors[0])


def test_ranks_need_rows_of_the_same_kind():
    X = data()
    for found in on_ranks(lambda rank: RBM(3).fit(X[:, rank:])):
        assert isinstance(found, ValueError) and "4 features" in str(found)


def test_ranks_need_units_of_the_same_kind():
    for found in on_ranks(lambda rank: RBM(3, visible=Binomial(2 + rank)).fit(data())):
        assert isinstance(found, ValueError) and "rank 1 has the units (Binomial(" in str(found)


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize(
    "name, values", [("n_components", (3, 4)), ("optimizer__schedule", ("cosine", abs))]
)
def test_ranks_need_the_same_parameters(name, values, method):
    def fitted(rank):
        rbm = RBM(3, optimizer=SGD(), random_state=rank).set_params(**{name: values[rank]})
        return getattr(rbm, method)(parts(data(), rank))

    for found in on_ranks(fitted):
        assert isinstance(found, ValueError) and f"{name} is " in str(found)
        assert "rank 1" in str(found) and "rank 0" in str(found)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda r: [RBM, BernoulliRBM][r](3), "the class is 'BernoulliRBM' on rank 1 and 'RBM'"),
        (lambda r: DeepTAPMachine((4, 3 + r)), "n_components is [4, 4] on rank 1 and [4, 3] on"),
        (lambda r: DeepTAPMachine([(4,), (4, 3)][r]), "n_components is [4, 3] on rank 1 and [4]"),
        (lambda r: RBM(3, inference=Gibbs(n_steps=1 + r)), "inference__n_steps is 2 on rank 1"),
    ],
    ids=["classes", "sizes", "depths", "inference"],
)
def test_ranks_need_the_same_estimators(make, message):
    assert message in refused(make)


def test_ranks_need_the_same_classifiers():
    def fitted(rank):
        X = parts(data(), rank)
        rbm = RBM(3)
        return rbm.fit(X) if rank else RBMClassifier(rbm).fit(X, X[:, 0])

    for found in on_ranks(fitted):
        assert "the class is 'RBM' on rank 1 and 'RBMClassifier' on rank 0" in str(found)


def test_ranks_need_to_go_on_from_the_same():
    def fitted(rank, n_others):
        rbm = RBM(3, n_iter=1, warm_start=True)
        with use(Communicator()):
            if rank or n_others:
                rbm.fit(data()[:, : 5 if rank else n_others])
        return rbm.fit(parts(data(), rank))

    for n_others, other in ((0, "nothing"), (4, "a machine of [4, 3] units")):
        for found in on_ranks(lambda rank, n=n_others: fitted(rank, n)):
            message = f"fit is 'a machine of [5, 3] units' on rank 1 and {other!r} on rank 0"
            assert isinstance(found, ValueError) and message in str(found)


def test_ranks_need_the_same_checkpoints(tmp_path):
    def fitted(rank, every):
        rbm, callback = RBM(3, n_iter=2), Checkpoint(tmp_path, every=every)
        return (rbm.set_callbacks(callback) if rank else rbm).fit(parts(data(), rank))

    for found in on_ranks(lambda rank: fitted(rank, 2)):
        message = "callbacks is ['Checkpoint(every=2, minutes=None)'] on rank 1 and [] on rank 0"
        assert isinstance(found, ValueError) and message in str(found)


def test_a_callback_of_ones_own_may_be_on_one_rank():
    class Recorder:
        def setup(self, estimator, context):
            self.n_epochs = 0

        def teardown(self, estimator, context):
            pass

        def on_fit_task_begin(self, estimator, context):
            pass

        def on_fit_task_end(self, estimator, context):
            self.n_epochs += context.task_name == "epoch"

    def fitted(rank):
        recorder, rbm = Recorder(), RBM(3, n_iter=2)
        (rbm.set_callbacks(recorder) if rank else rbm).fit(parts(data(), rank))
        return recorder.n_epochs if rank else 2

    assert on_ranks(fitted) == [2, 2]


def test_ranks_need_first_parameters_of_the_same_shape():
    def fitted(rank):
        return DeepTAPMachine(np.array([4, 3 + rank])).fit(parts(data(), rank))

    for found in on_ranks(fitted):
        assert isinstance(found, ValueError) and "[5, 4, 4] of each, and rank 0 " in str(found)


def test_all_ranks_warn_of_chains_that_do_not_mix():
    rng = np.random.default_rng(0)
    X = ((rng.random((400, 1)) < 0.5) ^ (rng.random((400, 30)) < 0.02)).astype(float)

    def fitted(rank):
        with pytest.warns(ConvergenceWarning) as found:
            RBM(8, random_state=0).fit(parts(X, rank))
        return [str(warning.message) for warning in found]

    one, other = on_ranks(fitted)
    assert one == other and len(one) == 1
