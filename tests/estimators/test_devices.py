"""Estimators on a device: nothing is created elsewhere, and batches do not synchronize.

The second device computes on the processor, and refuses and counts what a GPU refuses and waits
for. What deterministic fits learn there equals NumPy's numbers.
"""

import numpy as np
import pytest
from _estimators import (
    PAPER,
    PATHS,
    answers,
    binary_data,
    copied_state,
    learn,
    small,
    state,
)
from numpy.testing import assert_allclose

import skrbm
from skrbm.arrays import Rng
from skrbm.exceptions import DivergenceError
from skrbm.inference import TAP, AdaptiveTAP, Gibbs, GibbsLangevin

torch = pytest.importorskip("torch")
from _second_device import NAME, second_device  # noqa: E402

pytestmark = [
    pytest.mark.arrays,
    pytest.mark.filterwarnings("ignore:the model has no hidden unit"),
    pytest.mark.filterwarnings("ignore:.*learning has diverged"),
]
BATCH = 10


def placed(X):
    return torch.asarray(X, device=NAME)


def waits_of_an_epoch(estimator, n_batches):
    """How often an epoch waits: fits of two epochs and of one, without what they share."""
    X, counts = binary_data(n=BATCH * n_batches, dtype=np.float32), []
    for n_iter in (1, 2):
        with second_device() as waits:
            Z = placed(X)
            waits.clear()
            learn(estimator.set_params(n_iter=n_iter), Z)
            counts.append(waits.copy())
    return counts[1].total() - counts[0].total(), counts[1]


def case(Estimator, an_epoch, a_batch=0, **params):
    name = "-".join([Estimator.__name__, *(f"{k}={v}" for k, v in params.items())])
    return pytest.param(small(Estimator, **params), an_epoch, a_batch, id=name)


RBM, Gaussian, Conditional = skrbm.RBM, skrbm.GaussianBernoulliRBM, skrbm.ConditionalRBM
CASES = [
    case(RBM, 15),
    case(RBM, 15, optimizer="adam", max_grad_norm=1.0),
    case(RBM, 15, momentum=0.5, inference="cd"),
    case(RBM, 25, early_stopping=True),
    case(RBM, 18, inference="tap"),
    case(RBM, 15, inference=TAP(max_iter=12), learning_rate=0.01, a_batch=8),
    case(RBM, 15, inference=AdaptiveTAP(max_iter=2), learning_rate=0.01, a_batch=10),
    case(RBM, 15, inference=Gibbs(start="tempered"), a_batch=6),
    case(RBM, 18, visible="gaussian", inference="gibbs_langevin"),
    case(RBM, 45, hidden="gaussian"),  # log Z takes chains
    case(skrbm.BernoulliRBM, 15),
    case(skrbm.TAPRBM, 16),
    case(skrbm.DeepTAPMachine, 25),
    case(Gaussian, 18, max_grad_norm=1.0),
    case(Gaussian, 19, inference=GibbsLangevin(step_scale="mean_variance", step_size=0.1)),
    case(Conditional, 19, a_batch=9, learning_rate=0.05),
    case(Conditional, 19, objective="perceptron", learning_rate=0.05),
]


@pytest.mark.parametrize("estimator, an_epoch, a_batch", CASES)
def test_epochs_wait_as_often_for_few_batches_as_for_many(estimator, an_epoch, a_batch):
    few, _ = waits_of_an_epoch(estimator, 2)
    many, found = waits_of_an_epoch(estimator, 6)
    assert few <= an_epoch + 2 * a_batch
    assert many <= few + 4 * a_batch, found


@pytest.mark.parametrize("Estimator", PATHS)
def test_everything_is_created_on_the_device(Estimator):
    X = binary_data(n=20, dtype=np.float32)
    with second_device():
        estimator = learn(small(Estimator), placed(X))
        found = {**state(estimator), **answers(estimator, X, placed)}
        found.pop("multiplicities_0", None)  # belongs to a unit, not to the data
        assert {name for name, x in found.items() if x.device.type != NAME} == set()


ADAM = {"learning_rate": 0.05, "optimizer": "adam", "max_grad_norm": 0.1}
DETERMINISTIC = [
    (skrbm.TAPRBM, {"inference": TAP(2, start="data")}, 1e-5),
    (skrbm.TAPRBM, PAPER | {"inference": TAP(tol=1e-4, start="data")}, 1e-5),
    (skrbm.TAPRBM, {"inference": AdaptiveTAP(2, start="data")}, 1e-5),
    (RBM, {"inference": "tap", **ADAM}, 1e-5),
    # Rates of up to 6 multiply rounding: 2e-5, and NumPy is 1e-5 from its own result in float64.
    (RBM, {"inference": "tap", "n_iter": 8, "alpha": 0.1}, 1e-4),
]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("Estimator, params, tolerance", DETERMINISTIC)
def test_fits_without_sampling_are_those_of_numpy(Estimator, params, tolerance, dtype, monkeypatch):
    """From the same first parameters. In float32 rounding grows from step to step."""
    tolerance = tolerance if dtype == "float32" else 1e-10
    X = binary_data(dtype=dtype)
    # Streams of other libraries give another order.
    monkeypatch.setattr(Rng, "order", lambda self, n: np.arange(n))
    first = 0.1 * np.random.default_rng(0).standard_normal((5, 8)).astype(dtype)
    init = first, np.zeros(5, dtype), np.zeros(8, dtype)
    ours = small(Estimator, init=init, **params).fit(X)
    theirs = small(Estimator, init=init, **params).fit(torch.asarray(X))
    expected, found = copied_state(ours), copied_state(theirs)
    for name in expected:
        assert_allclose(found[name], expected[name], rtol=0, atol=tolerance, err_msg=name)
    for name in set(ours.history_) - {"time", "pseudo_log_likelihood"}:
        if "likelihood" not in name:
            # Of a sweep more or less rounding decides.
            rtol = 0.01 if name == "n_sweeps" and dtype == "float32" else 1e-3
            assert_allclose(theirs.history_[name], ours.history_[name], rtol=rtol, err_msg=name)


def test_a_diverging_fit_names_its_batch_at_the_end_of_the_epoch():
    with second_device(), pytest.raises(DivergenceError, match=r"after batch \d of epoch 1"):
        small(skrbm.BernoulliRBM, learning_rate=1e38).fit(placed(binary_data(dtype=np.float32)))
