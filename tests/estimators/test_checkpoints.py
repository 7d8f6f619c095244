"""Checkpoints: fits that were interrupted end as those that were not, to the last bit."""

import os

import numpy as np
import pytest
import scipy.sparse as sp
from _estimators import PATHS, binary_data, noisy_patterns, small, targets
from _same import assert_same, attributes
from sklearn.base import clone, is_classifier

from skrbm import (
    RBM,
    TAPRBM,
    ConditionalRBM,
    DeepTAPMachine,
    FrankWolfeRBM,
)
from skrbm.inference import TAP, Gibbs
from skrbm.learning import EarlyStopping
from skrbm.persistence import Checkpoint, load, resume

X = binary_data()
REAL = np.random.default_rng(0).standard_normal((60, 5)) @ np.diag([1, 2, 3, 1, 1])
HOLES = np.where(np.random.default_rng(1).random(X.shape) < 0.2, np.nan, X)
WEIGHTS = np.random.default_rng(2).random(len(X)) * 3
STOPS = {"early_stopping": EarlyStopping(validation_fraction=0.3)}
SOON = {"early_stopping": EarlyStopping(2, validation_fraction=0.3)}
SETTINGS = {
    **{Estimator.__name__: (Estimator, {}, (X,)) for Estimator in PATHS},
    "tempered": (
        RBM,
        {"inference": Gibbs(start="tempered"), "n_iter": 6, "learning_rate": 0.5},
        (X,),
    ),
    "tempered solutions": (TAPRBM, {"inference": TAP(start="tempered"), "n_iter": 6}, (X,)),
    "annealed": (RBM, {"inference": Gibbs(3, start="annealed"), "schedule": "cosine"}, (X,)),
    "tap": (RBM, {"inference": TAP(damping=0.5, start="chains"), "momentum": 0.5}, (X,)),
    "langevin": (RBM, {"inference": "gibbs_langevin", "visible": "gaussian"}, (REAL,)),
    "stopped": (
        RBM,
        {**SOON, "n_components": 13, "learning_rate": 1.0, "n_iter": 12},
        (binary_data(40, 14, p=0.7),),
    ),
    "missing": (RBM, {"alpha": 0.01}, (HOLES,)),
    "sparse": (RBM, {"inference": "gibbs"}, (sp.csr_array(X),)),
    "weights": (RBM, {}, (X, None, WEIGHTS)),
    "adam by layers": (DeepTAPMachine, {"optimizer": "adam", "learning_rate": 0.01}, (X,)),
    "deep with missing values": (DeepTAPMachine, STOPS, (HOLES,)),
    "labels": (
        ConditionalRBM,
        {**SOON, "inference": "gibbs", "n_iter": 6, "learning_rate": 1.0},
        (X, X.sum(axis=1) > 3),
    ),
    "outputs": (ConditionalRBM, {"momentum": 0.5}, (X, X[:, :3].astype(int))),
    "growth": (FrankWolfeRBM, {**STOPS, "max_components": 4}, (noisy_patterns(100),)),
    "growth with refusals": (
        FrankWolfeRBM,
        {"max_components": 6, "tol": 0.02, "alpha": 0.01, "step": "line_search"},
        (noisy_patterns(60),),
    ),
    "growth with missing values": (
        FrankWolfeRBM,
        {"early_stopping": EarlyStopping(9), "max_components": 3},
        (np.where(np.random.default_rng(1).random((60, 12)) < 0.2, np.nan, noisy_patterns(60)),),
    ),
    "exact growth": (
        FrankWolfeRBM,
        {"inference": "exact", "step": "line_search", "temperature": "learn"},
        (X,),
    ),
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


@pytest.mark.parametrize("name", SETTINGS)
def test_a_resumed_fit_ends_as_one_without_interruption(name, tmp_path):
    """All that is fitted is the same, and so is the state of training."""
    unbroken, data = fitted(name, tmp_path)
    assert len(files(tmp_path)) >= 3
    for path in files(tmp_path):
        assert_same(attributes(resume(path, *data)), attributes(unbroken))
    Estimator, params, _ = SETTINGS[name]  # files change nothing
    assert_same(attributes(small(Estimator, **params).fit(*data)), attributes(unbroken))


def test_a_fit_whose_chains_are_replaced(tmp_path):
    """Checkpoints before and after the restart with other chains lead to the same result.

    A warm start continues with these chains.
    """
    rng = np.random.default_rng(0)
    groups = (rng.random((400, 1)) < 0.5) ^ (rng.random((400, 30)) < 0.02)
    rbm = RBM(8, n_iter=30, random_state=0)
    checkpoint = Checkpoint(tmp_path, every=2, keep=100)
    unbroken = clone(rbm).set_callbacks(checkpoint).fit(groups)
    assert unbroken._training.recipe.phase.start != "persistent"
    assert_same(attributes(clone(rbm).fit(groups)), attributes(unbroken))
    for path in [files(tmp_path)[0], *files(tmp_path)[4::5]]:
        assert_same(attributes(resume(path, groups)), attributes(unbroken))
    unbroken.set_params(warm_start=True, n_iter=1).fit(groups)
    assert unbroken._training.recipe.phase.start != "persistent"


@pytest.mark.parametrize("name", ["RBM", "FrankWolfeRBM", "ConditionalRBM"])
@pytest.mark.parametrize("which", [1, -1], ids=["in the middle", "at the end"])
def test_other_data_are_rejected(name, which, tmp_path):
    """One value, one weight, one row more, or another target."""
    _, (_, *y) = fitted(name, tmp_path)
    path, other = files(tmp_path)[which], X.copy()
    other[7, 2] = 1 - other[7, 2]
    cases = [(other, *y, None), (X, *y, np.append(np.ones(len(X) - 1), 2.0))]
    cases += [(np.vstack([X, X[:1]]), *(np.vstack([part, part[:1]]) for part in y), None)]
    cases += [(X, 1 - part, None) for part in y]
    for other, *target, weights in cases:
        with pytest.raises(ValueError, match="had other rows"):
            resume(path, other, *target, sample_weight=weights)
    with pytest.raises(ValueError, match="features"):
        resume(path, X[:, 1:], *y)


def test_which_files_are_written_and_kept(tmp_path):
    small(RBM, n_iter=9).set_callbacks(Checkpoint(tmp_path, every=4, keep=2)).fit(X)
    names = [f"checkpoint-{number:06d}.npz" for number in (3, 4)]
    assert sorted(os.listdir(tmp_path)) == names
    assert [load(tmp_path / name).n_iter_ for name in names] == [8, 9]
    small(RBM, n_iter=1).set_callbacks(Checkpoint(tmp_path)).fit(X)  # which continues counting
    assert [load(path).n_iter_ for path in files(tmp_path)] == [9, 0, 1]


def test_what_cannot_be_written_is_rejected_before_the_first_epoch(tmp_path):
    rbm = small(RBM, schedule=lambda progress: 1.0).set_callbacks(Checkpoint(tmp_path))
    with pytest.raises(TypeError, match=r"RBM.optimizer.schedule is of type builtins.function"):
        rbm.fit(X)
    assert not hasattr(rbm, "components_") and not os.listdir(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        small(RBM).set_callbacks(Checkpoint(tmp_path / "file")).fit(X)


def test_a_full_disk_does_not_stop_the_fit(tmp_path, monkeypatch):
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


def test_incomplete_files_are_removed_or_skipped(tmp_path):
    unbroken, _ = fitted("RBM", tmp_path)
    (tmp_path / ".checkpoint-000002.npz.abc").touch()
    whole = (tmp_path / "checkpoint-000003.npz").read_bytes()
    wrong = bytearray(whole)
    wrong[whole.index(b"0.npy") + 200] ^= 1  # in the numbers of an array
    for number, content in ((4, bytes(wrong)), (5, whole[:-100])):
        (tmp_path / f"checkpoint-{number:06d}.npz").write_bytes(content)
    (tmp_path / "checkpoint-of-mine.npz").touch()
    with pytest.warns(UserWarning, match="000005.npz .*000003.npz is used"):
        found = resume(tmp_path, X, callbacks=[Checkpoint(tmp_path)])
    assert_same(attributes(found), attributes(unbroken))
    assert not (tmp_path / ".checkpoint-000002.npz.abc").exists()


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
