"""Steps that are replayed learn what steps that are taken one by one learn, to the last bit.

A GPU replays what was recorded; here the processor does, by operations that were written down.
"""

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor
from threading import Thread
from time import sleep

import pytest
from _estimators import binary_data, learn, small
from _libraries import GPU
from numpy.testing import assert_array_equal
from sklearn.base import clone

import skrbm
from skrbm.arrays import make_rng, to_numpy
from skrbm.exceptions import DivergenceError
from skrbm.inference import TAP, Gibbs, GibbsLangevin

torch = pytest.importorskip("torch")
from _recorded import recorded_on_the_processor  # noqa: E402

from skrbm.arrays._replay import Replayed  # noqa: E402

pytestmark = [
    pytest.mark.arrays,
    pytest.mark.filterwarnings("ignore:.*learning has diverged"),
]


@pytest.fixture(autouse=True)
def persistent_chains(monkeypatch):
    """Chains that are the same as on a GPU, where they are not compared, on the processor too."""
    monkeypatch.setattr("skrbm.learning._balanced.is_on_device", lambda x: True)


def case(Estimator, **params):
    name = "-".join([Estimator.__name__, *(f"{k}={v}" for k, v in params.items())])
    return pytest.param(small(Estimator, **params), id=name)


RBM, Bernoulli, Gaussian = skrbm.RBM, skrbm.BernoulliRBM, skrbm.GaussianBernoulliRBM
REPLAYED = [
    case(RBM),
    case(RBM, schedule="linear", n_components=6),
    case(RBM, optimizer="adam"),
    case(RBM, learning_rate=0.1, schedule="constant", momentum=0.5, centered=False),
    case(RBM, learning_rate=0.1, schedule="constant", optimizer="adam", average=False),
    case(RBM, learning_rate=0.1, penalty="l1", alpha=0.02),
    case(RBM, learning_rate=0.1, inference="cd", max_grad_norm=0.5),
    case(RBM, visible="gaussian", inference=GibbsLangevin(step_size=0.1), learning_rate=0.02),
    case(RBM, inference="tempering", learning_rate=0.1),
    case(RBM, hidden="relu", learning_rate=0.1),
    case(Bernoulli, learning_rate=0.1),
    case(RBM, learning_rate=0.1, inference="cd", early_stopping=True),
    case(skrbm.TAPRBM, learning_rate=0.05),
    case(skrbm.TAPRBM, learning_rate=0.05, inference=TAP(max_iter=3, damping=0.3)),
    case(skrbm.DeepTAPMachine, learning_rate=0.05),
    case(Gaussian, learning_rate=0.02),
]


def attributes(estimator):
    """Return parameters and history."""
    names = ("components_", "intercept_hidden_", "intercept_visible_")
    found = {name: getattr(estimator, name) for name in names if hasattr(estimator, name)}
    history = {f"history {k}": v for k, v in estimator.history_.items() if k != "time"}
    return found | history


def assert_same(one, other):
    one, other = attributes(one), attributes(other)
    assert one.keys() == other.keys()
    for name, value in one.items():
        for a, b in zip(layers(value), layers(other[name]), strict=True):
            assert_array_equal(a, b, err_msg=name)


def layers(value):
    """Return arrays: those of each layer of a deep machine, or one."""
    parts = value if isinstance(value, tuple | list) and torch.is_tensor(value[0]) else [value]
    return [to_numpy(part) for part in parts]


def rows(n=97):
    """Return rows that make batches of two sizes."""
    return torch.asarray(binary_data(n=n))


@pytest.mark.parametrize("estimator", REPLAYED)
def test_replayed_steps_are_the_same(estimator, monkeypatch):
    X = rows()
    estimator.set_params(n_iter=5, batch_size=10, random_state=3)
    plain = learn(clone(estimator), X)
    with recorded_on_the_processor(monkeypatch) as graphs:
        replayed = learn(clone(estimator), X)
    assert graphs.n_replayed > 10
    assert_same(plain, replayed)


if GPU:

    class Counted(torch.cuda.CUDAGraph):
        """A graph of a GPU that counts the replays of all."""

        n_replayed = 0

        def replay(self):
            Counted.n_replayed += 1
            super().replay()

    @pytest.mark.parametrize("estimator", REPLAYED)
    def test_a_gpu_replays_the_same_steps(estimator, monkeypatch):
        X = rows().to("cuda")
        estimator.set_params(n_iter=5, batch_size=10, random_state=3)
        monkeypatch.setattr(torch.cuda, "CUDAGraph", Counted)
        monkeypatch.setattr(Counted, "n_replayed", 0)
        replayed = learn(clone(estimator), X)
        assert Counted.n_replayed > 10
        monkeypatch.setattr("skrbm.learning._learner.can_replay", lambda x: False)
        assert_same(learn(clone(estimator), X), replayed)

    def test_threads_of_a_gpu_learn_what_one_does(monkeypatch):
        """Each records its graphs and destroys them while others do."""
        X, estimator = rows().to("cuda"), small(RBM, n_iter=3, batch_size=10)

        def learnt(seed):
            return learn(clone(estimator).set_params(random_state=seed), X)

        def learnt_apart(seed):
            with torch.cuda.stream(torch.cuda.Stream()):
                return learnt(seed)

        monkeypatch.setattr(torch.cuda, "CUDAGraph", Counted)
        monkeypatch.setattr(Counted, "n_replayed", 0)
        plain, counts = [learnt(seed) for seed in range(24)], [Counted.n_replayed]
        with ThreadPoolExecutor(8) as pool:
            for function in (learnt, learnt_apart):
                for one, other in zip(plain, pool.map(function, range(24)), strict=True):
                    assert_same(one, other)
                counts.append(Counted.n_replayed - sum(counts))
        assert counts[0] > 10 and counts == 3 * counts[:1]

    def test_a_failed_recording_leaves_the_generator_of_torch_alone():
        small(RBM, hidden="truncated_gaussian", n_iter=3, batch_size=10).fit(rows().to("cuda"))
        assert torch.rand(3, device="cuda").shape == (3,)


def test_divergence_in_a_replay_leaves_the_last_good_parameters(monkeypatch):
    X, found = rows(), []
    for is_replayed in (False, True):
        estimator = small(RBM, visible="gaussian", learning_rate=0.1, average=False)
        with recorded_on_the_processor(monkeypatch) if is_replayed else monkeypatch.context():
            estimator.fit(X).set_params(learning_rate=1e30, warm_start=True)
            with pytest.raises(DivergenceError) as error:
                estimator.fit(X)
        found.append((estimator, str(error.value)))
    assert found[0][1] == found[1][1]
    assert_same(found[0][0], found[1][0])


@pytest.mark.parametrize("learning_rate", [0.1, "auto"])
@pytest.mark.parametrize(
    "params", [{"inference": Gibbs(start="tempered")}, {"hidden": "truncated_gaussian"}], ids=str
)
def test_steps_that_read_numbers_are_taken_one_by_one(monkeypatch, params, learning_rate):
    X = rows()
    options = {"learning_rate": learning_rate, "n_iter": 4, "schedule": "linear"}
    estimator = small(RBM, **options, **params)
    plain = learn(clone(estimator), X)
    with recorded_on_the_processor(monkeypatch) as graphs:
        replayed = learn(clone(estimator), X)
    assert_same(plain, replayed)
    assert graphs.n_begun == 0  # torch keeps the memory of a recording that fails


def test_one_graph_at_a_time_is_recorded(monkeypatch):
    """torch keeps a set of graphs that is no thread's own, and the collector is one for all."""
    within = []

    def record():
        calls = iter(range(2))

        def step(state, x):
            if next(calls) == 1:  # the second call is recorded
                within.append("begins")
                sleep(0.2)
                within.append(gc.isenabled())
            return (state[0] + x,), {"sum": state[0].sum()}

        steps, state = Replayed(step, make_rng(0, torch.zeros(1))), (torch.zeros(2),)
        for _ in range(2):
            state, _ = steps("", state, torch.ones(2))

    threads = [Thread(target=record) for _ in range(2)]
    with recorded_on_the_processor(monkeypatch) as graphs:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert graphs.n_recorded == 2
    assert within == 2 * ["begins", False]
    assert gc.isenabled()


def test_recordings_end_with_the_fit(monkeypatch):
    """Without a collection: their memory on a GPU is not to grow from fit to fit."""
    X, estimator, made = rows(), small(RBM, learning_rate=0.1, n_iter=2, batch_size=10), []
    with recorded_on_the_processor(monkeypatch) as graphs:
        monkeypatch.setattr(graphs, "__init__", lambda self: made.append(weakref.ref(self)))
        gc.disable()
        try:
            estimator.fit(X)
            assert made and all(graph() is None for graph in made)
        finally:
            gc.enable()
