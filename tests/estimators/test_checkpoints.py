"""Checkpoints: fits that were interrupted end as those that were not, to the last bit."""

import os
import subprocess
import sys
import time

import numpy as np
import pytest
import scipy.sparse as sp
from _estimators import ESTIMATORS, binary_data, noisy_patterns, small, targets, with_parameters
from _same import assert_same, attributes
from numpy.testing import assert_array_equal
from sklearn.base import clone, is_classifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from skrbm import (
    RBM,
    TAPRBM,
    BernoulliRBM,
    ConditionalRBM,
    DeepTAPMachine,
    FrankWolfeRBM,
    GaussianBernoulliRBM,
)
from skrbm.inference import TAP, Langevin
from skrbm.inputs import rows_of
from skrbm.learning import Adam
from skrbm.persistence import Checkpoint, _checkpoint, load, resume, save, trusted_types
from skrbm.persistence._files import write
from skrbm.units import Gaussian

X = binary_data()
REAL = np.random.default_rng(0).standard_normal((60, 5)) @ np.diag([1, 2, 3, 1, 1])
HOLES = np.where(np.random.default_rng(1).random(X.shape) < 0.2, np.nan, X)
WEIGHTS = np.random.default_rng(2).random(len(X)) * 3
stops = {"early_stopping": True, "validation_fraction": 0.3}
SETTINGS = {
    **{Estimator.__name__: (Estimator, {}, (X,)) for Estimator in ESTIMATORS},
    "tempered": (RBM, {"starts": "tempered", "n_iter": 6, "learning_rate": 0.5}, (X,)),
    "tempered solutions": (TAPRBM, {"starts": "tempered", "n_iter": 6}, (X,)),
    "tempered, real": (GaussianBernoulliRBM, {"starts": "tempered", "n_steps": 3}, (REAL,)),
    "annealed": (RBM, {"starts": "annealed", "n_steps": 3, "schedule": "cosine"}, (X,)),
    "tap": (RBM, {"inference": TAP(damping=0.5), "starts": "chains", "momentum": 0.5}, (X,)),
    "messages": (RBM, {"inference": "relaxed_bp", "optimizer": "adam"}, (X,)),
    "langevin": (RBM, {"inference": "gibbs_langevin", "visible": "gaussian"}, (REAL,)),
    "stopped by score": (
        BernoulliRBM,
        {**stops, "n_components": 13, "learning_rate": 1.0, "n_iter": 12, "n_iter_no_change": 2},
        (binary_data(40, 14, p=0.7),),
    ),
    "stops by TAP": (TAPRBM, {"early_stopping": True}, (X,)),
    "shallow": (DeepTAPMachine, {"n_components": (4,)}, (binary_data(30, 24),)),
    "missing": (RBM, {"alpha": 0.01}, (HOLES,)),
    "sparse": (BernoulliRBM, {"persistent": "tempered"}, (sp.csr_array(X),)),
    "weights": (BernoulliRBM, {"centered": True, "average": True}, (X, None, WEIGHTS)),
    "float32": (TAPRBM, {"starts": "persistent", "learning_rate": "auto"}, (X.astype("f4"),)),
    "tuned": (GaussianBernoulliRBM, {"inference": Langevin(target_acceptance=0.6)}, (REAL,)),
    "adam": (GaussianBernoulliRBM, {"optimizer": "adam", "starts": "persistent"}, (REAL,)),
    "adam by layers": (DeepTAPMachine, {"optimizer": "adam", "learning_rate": 0.01}, (X,)),
    "adam of labels": (ConditionalRBM, {"optimizer": Adam(alpha="auto")}, (X, X[:, 0])),
    "labels": (
        ConditionalRBM,
        {**stops, "inference": "gibbs", "n_iter": 6, "learning_rate": 1.0, "n_iter_no_change": 2},
        (X, X.sum(axis=1) > 3),
    ),
    "logistic": (ConditionalRBM, {"init": "logistic", "momentum": 0.5}, (X, X[:, :3].astype(int))),
    "growth": (FrankWolfeRBM, {**stops, "max_components": 4}, (noisy_patterns(100),)),
    "growth that is refused": (
        FrankWolfeRBM,
        {"max_components": 6, "n_iter_no_change": 4, "insert_tol": 0.02, "alpha": 0.01},
        (noisy_patterns(60),),
    ),
    "growth in a ball": (
        FrankWolfeRBM,
        {"step": "1/t", "alpha": 0.0, "radius": 0.5, "n_iter_no_change": 4, "max_components": 3},
        (noisy_patterns(60),),
    ),
    "growth of whole units": (
        FrankWolfeRBM,
        {"step": "1/t", "temperature": 3.0, "n_iter_no_change": 4, "max_components": 4},
        (noisy_patterns(60),),
    ),
    "growth with holes": (
        FrankWolfeRBM,
        {"early_stopping": True, "max_components": 3, "n_iter_no_change": 9},
        (np.where(np.random.default_rng(1).random((60, 12)) < 0.2, np.nan, noisy_patterns(60)),),
    ),
    "deep with holes": (DeepTAPMachine, stops, (HOLES,)),
    "exact growth": (FrankWolfeRBM, {"inference": "exact", "temperature": "learn"}, (X,)),
    "no seed": (BernoulliRBM, {"random_state": None}, (X,)),
}


def given(estimator, data):
    """The data of a setting; classifiers without targets get some."""
    return (X, targets(len(X))) if is_classifier(estimator) and len(data) == 1 else data


def fitted(name, folder, **more):
    """A checkpointed fit of a setting, and its data."""
    Estimator, params, data = SETTINGS[name]
    estimator = small(Estimator, **{**params, **more})
    data = given(estimator, data)
    return estimator.set_callbacks(Checkpoint(folder, keep=100)).fit(*data), data


def files(folder):
    return sorted(os.path.join(folder, name) for name in os.listdir(folder))


@pytest.mark.wide
@pytest.mark.parametrize("name", SETTINGS)
def test_a_fit_goes_on_from_each_file_as_if_nothing_had_happened(name, tmp_path):
    """All that is fitted is the same, and all that learning would go on from."""
    unbroken, data = fitted(name, tmp_path)
    assert len(files(tmp_path)) >= 3
    for path in files(tmp_path):
        assert_same(attributes(resume(path, *data)), attributes(unbroken))
    if name != "no seed":  # files change nothing
        Estimator, params, _ = SETTINGS[name]
        assert_same(attributes(small(Estimator, **params).fit(*data)), attributes(unbroken))


@pytest.mark.parametrize("name", [E.__name__ for E in with_parameters("n_iter")])
def test_a_loaded_file_is_an_estimator_fitted_so_far(name, tmp_path):
    """It is what a fit of so few epochs leaves, and has no trace of the fit that went on.

    But a fit ends with an estimate of log Z, which a file in its middle has not.
    """

    def known(estimator):
        found = attributes(estimator)
        last = {"log_likelihood", "log_likelihood_std"}
        history = {k: v for k, v in found.get("history_", {}).items() if k not in last}
        return found | {"history_": history}

    Estimator, _, data = SETTINGS[name]
    fitted(name, tmp_path)
    for n_iter, path in enumerate(files(tmp_path)):
        loaded, short = load(path), small(Estimator, n_iter=n_iter)
        data = given(short, data)
        short.fit(*data)
        assert_same(known(loaded.set_params(n_iter=n_iter)), known(short))
    for estimator in (loaded, short):
        estimator.set_params(warm_start=True).fit(*data)
    assert_same(known(loaded), known(short))


def test_a_loaded_growth_goes_on(tmp_path):
    fitted("FrankWolfeRBM", tmp_path)
    loaded = load(files(tmp_path)[1])
    assert loaded.n_components_ == loaded.n_iter_ == 1
    assert loaded.set_params(warm_start=True).fit(X).n_components_ == 2


def interrupted(estimator, data, folder, n_epochs):
    """Interrupt a checkpointed fit in the middle of the next epoch."""
    seen = []

    class Interrupting(Checkpoint):
        def on_fit_task_begin(self, estimator, context, *, fitted_estimator=None):
            super().on_fit_task_begin(estimator, context, fitted_estimator=fitted_estimator)
            seen.append(context.task_name)
            if seen.count("epoch") > n_epochs:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        if isinstance(estimator, str):
            resume(estimator, *data, callbacks=[Interrupting(folder)])
        else:
            estimator.set_callbacks(Interrupting(folder)).fit(*data)


@pytest.mark.parametrize("name", ["RBM", "ConditionalRBM", "tempered"])
def test_a_fit_that_is_interrupted_again_and_again(name, tmp_path):
    Estimator, params, data = SETTINGS[name]
    estimator = small(Estimator, **{**params, "n_iter": 5})
    data = given(estimator, data)
    interrupted(small(Estimator, **{**params, "n_iter": 5}), data, tmp_path, 2)
    interrupted(str(tmp_path), data, tmp_path, 1)
    interrupted(str(tmp_path), data, tmp_path, 0)
    found = resume(tmp_path, *data)
    assert_same(attributes(found), attributes(estimator.fit(*data)))


def test_a_fit_whose_chains_are_replaced(tmp_path):
    """Checkpoints before and after the restart with weighted chains lead to the same result.

    A warm start continues with weighted chains.
    """
    rng = np.random.default_rng(0)
    groups = (rng.random((400, 1)) < 0.5) ^ (rng.random((400, 30)) < 0.02)
    rbm = RBM(8, n_iter=30, random_state=0)
    checkpoint = Checkpoint(tmp_path, every=2, keep=100)
    unbroken = clone(rbm).set_callbacks(checkpoint).fit(groups)
    assert unbroken._training.parts.phase.start == "weighted"
    assert_same(attributes(clone(rbm).fit(groups)), attributes(unbroken))
    for path in [files(tmp_path)[0], *files(tmp_path)[4::5]]:
        assert_same(attributes(resume(path, groups)), attributes(unbroken))
    unbroken.set_params(warm_start=True, n_iter=1).fit(groups)
    assert unbroken._training.parts.phase.start == "weighted"


def test_a_fit_that_goes_on_from_another(tmp_path):
    """With warm_start it has epochs of its own, and a schedule over them."""
    first = small(RBM, warm_start=True, schedule="linear").fit(X)
    save(first, tmp_path / "first")
    unbroken = first.set_callbacks(Checkpoint(tmp_path / "files")).fit(X)
    assert unbroken.n_iter_ == 6
    for path in files(tmp_path / "files"):
        assert_same(attributes(resume(path, X)), attributes(unbroken))
    assert_same(attributes(load(tmp_path / "first").fit(X)), attributes(unbroken))


def test_rows_in_another_order_are_the_same_data(tmp_path):
    unbroken, _ = fitted("BernoulliRBM", tmp_path)
    order = np.random.default_rng(3).permutation(len(X))
    assert_same(attributes(resume(files(tmp_path)[1], X[order])), attributes(unbroken))


@pytest.mark.parametrize("name", ["RBM", "FrankWolfeRBM", "ConditionalRBM"])
@pytest.mark.parametrize("which", [1, -1], ids=["in the middle", "at the end"])
def test_other_data_are_refused(name, which, tmp_path):
    """One value, one weight, one row more, or another target."""
    _, (_, *y) = fitted(name, tmp_path)
    path, other = files(tmp_path)[which], X.copy()
    other[7, 2] = 1 - other[7, 2]
    cases = [(other, *y, None), (X, *y, np.append(np.ones(len(X) - 1), 2.0))]
    cases += [(np.vstack([X, X[:1]]), *(np.vstack([part, part[:1]]) for part in y), None)]
    cases += [(X, 1 - part, None) for part in y]
    for other, *target, weights in cases:
        with pytest.raises(ValueError, match="had other data"):
            resume(path, other, *target, sample_weight=weights)
    with pytest.raises(ValueError, match="features"):
        resume(path, X[:, 1:], *y)


def test_files_that_hold_something_else(tmp_path):
    """The one before is taken; of no file is there an error that says so."""
    unbroken, data = fitted("RBM", tmp_path)
    path = files(tmp_path)[-1]
    for estimator, progress in ((None, None), (5, None), (unbroken, 5), (X, None)):
        write(path, estimator=estimator, progress=progress)
        with pytest.raises(ValueError, match="no estimator, or no progress"):
            resume(path, *data)
        with pytest.warns(UserWarning, match="is taken instead"):
            assert_same(attributes(resume(tmp_path, *data)), attributes(unbroken))
    with pytest.raises(TypeError, match="a list of callbacks, got Checkpoint"):
        resume(tmp_path, *data, callbacks=Checkpoint(tmp_path))


def test_each_row_of_many_tells_data_from_others():
    rows, found = np.random.default_rng(0).standard_normal((3000, 2)), set()
    for row in (0, 1, 1500, 2999):
        other = rows.copy()
        other[row, 1] += 1e-9
        found.add(rows_of(other, Gaussian(), np.float64).fingerprint)
    assert len(found | {rows_of(rows, Gaussian(), np.float64).fingerprint}) == 5


def test_which_files_are_written_and_kept(tmp_path):
    small(RBM, n_iter=9).set_callbacks(Checkpoint(tmp_path, every=4, keep=2)).fit(X)
    names = [f"checkpoint-{number:06d}.npz" for number in (3, 4)]
    assert sorted(os.listdir(tmp_path)) == names
    assert [load(tmp_path / name).n_iter_ for name in names] == [8, 9]
    small(RBM, n_iter=1).set_callbacks(Checkpoint(tmp_path)).fit(X)  # another fit goes on counting
    assert [load(path).n_iter_ for path in files(tmp_path)] == [9, 0, 1]


def test_files_by_the_clock(tmp_path, monkeypatch):
    """Epochs take 20 s: a file is written when a minute has passed."""
    clock = iter(range(0, 10**6, 20))
    monkeypatch.setattr(_checkpoint.time, "monotonic", lambda: next(clock))
    small(RBM, n_iter=11).set_callbacks(Checkpoint(tmp_path, minutes=1, keep=9)).fit(X)
    assert [load(path).n_iter_ for path in files(tmp_path)] == [0, 3, 6, 9, 11]


@pytest.mark.parametrize("params", [{"every": 0}, {"minutes": 0.0}, {"keep": 0}])
def test_what_a_checkpoint_refuses(params):
    with pytest.raises(ValueError, match=next(iter(params))):
        Checkpoint("folder", **params)


def test_what_cannot_be_written_is_refused_before_the_first_epoch(tmp_path):
    rbm = small(RBM, schedule=lambda progress: 1.0).set_callbacks(Checkpoint(tmp_path))
    with pytest.raises(TypeError, match=r"RBM.schedule is of type builtins.function"):
        rbm.fit(X)
    assert not hasattr(rbm, "components_") and not os.listdir(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        small(RBM).set_callbacks(Checkpoint(tmp_path / "file")).fit(X)


def test_a_full_disk_does_not_end_the_fit(tmp_path, monkeypatch):
    small(RBM).set_callbacks(Checkpoint(tmp_path)).fit(X)
    before = files(tmp_path)

    def full(descriptor):
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", full)
    rbm = small(RBM).set_callbacks(Checkpoint(tmp_path, keep=1))
    with pytest.warns(UserWarning, match="could not be written: no space left"):
        rbm.fit(X)
    assert_same(attributes(rbm), attributes(small(RBM).fit(X)))
    assert files(tmp_path) == before


def test_what_is_half_written_is_removed_and_passed_over(tmp_path):
    unbroken, _ = fitted("RBM", tmp_path)
    (tmp_path / ".checkpoint-000002.npz.abc").touch()
    whole = (tmp_path / "checkpoint-000003.npz").read_bytes()
    wrong = bytearray(whole)
    wrong[whole.index(b"0.npy") + 200] ^= 1  # in the numbers of an array
    for number, content in ((4, bytes(wrong)), (5, whole[:-100])):
        (tmp_path / f"checkpoint-{number:06d}.npz").write_bytes(content)
    (tmp_path / "checkpoint-of-mine.npz").touch()
    with pytest.warns(UserWarning, match="000005.npz is no file .*000003.npz is taken"):
        found = resume(tmp_path, X, callbacks=[Checkpoint(tmp_path)])
    assert_same(attributes(found), attributes(unbroken))
    assert not (tmp_path / ".checkpoint-000002.npz.abc").exists()


def test_what_is_no_fit_to_go_on_with(tmp_path):
    with pytest.raises(FileNotFoundError, match="no checkpoint in"):
        resume(tmp_path, X)
    save(small(RBM).fit(X), tmp_path / "checkpoint-000001.npz")
    with pytest.raises(ValueError, match="written by save, not by Checkpoint"):
        resume(tmp_path, X)
    (tmp_path / "checkpoint-000001.npz").write_bytes(b"")
    with pytest.raises(ValueError, match="no file of skrbm"):
        resume(tmp_path, X)
    with pytest.raises(FileNotFoundError):
        resume(tmp_path / "checkpoint-000009.npz", X)


def test_checkpoints_of_a_step_of_a_pipeline(tmp_path):
    rbm = small(RBM).set_callbacks(Checkpoint(tmp_path))
    make_pipeline(rbm, LogisticRegression()).fit(X, X[:, 0])
    assert_array_equal(load(files(tmp_path)[-1]).components_, rbm.components_)


def test_skops_takes_an_estimator_with_a_checkpoint(tmp_path):
    skops_io = pytest.importorskip("skops.io")
    rbm = small(RBM).set_callbacks(Checkpoint(tmp_path, minutes=1.5)).fit(X)
    loaded = skops_io.loads(skops_io.dumps(rbm), trusted=trusted_types())
    assert_same(attributes(loaded.fit(X)), attributes(rbm))


@pytest.mark.arrays
@pytest.mark.parametrize("name", ["RBM", "tempered", "TAPRBM", "FrankWolfeRBM", "ConditionalRBM"])
def test_tensors(name, tmp_path):
    torch = pytest.importorskip("torch")
    Estimator, params, _ = SETTINGS[name]
    estimator = small(Estimator, **params)
    data = tuple(map(torch.asarray, given(estimator, (X,))))
    unbroken = estimator.set_callbacks(Checkpoint(tmp_path, keep=100)).fit(*data)
    for path in files(tmp_path):
        assert_same(attributes(resume(path, *data)), attributes(unbroken))


PROGRAM = """
import sys
import numpy as np
from skrbm import RBM
from skrbm.persistence import Checkpoint, resume

X = (np.random.default_rng(0).random((400, 40)) < 0.3).astype(float)
checkpoint = Checkpoint(sys.argv[1])
try:
    rbm = resume(checkpoint.folder, X, callbacks=[checkpoint])
except FileNotFoundError:
    rbm = RBM(30, n_iter=60, random_state=0).set_callbacks(checkpoint).fit(X)
"""


def test_a_script_that_is_killed_and_run_again(tmp_path, monkeypatch):
    """It ends as the one that was not, which here runs in another process."""
    command = [sys.executable, "-W", "error", "-c", PROGRAM, str(tmp_path)]
    with subprocess.Popen(command) as process:
        while not (tmp_path / "checkpoint-000009.npz").exists():
            assert process.poll() is None
            time.sleep(0.003)
        process.kill()
    assert 8 <= load(files(tmp_path)[-1]).n_iter_ < 60
    monkeypatch.setattr(sys, "argv", ["", str(tmp_path)])
    found = [{}, {}]
    exec(PROGRAM, found[0])
    monkeypatch.setattr(sys, "argv", ["", str(tmp_path / "unbroken")])
    exec(PROGRAM, found[1])
    assert_same(*(attributes(names["rbm"]) for names in found))
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]
