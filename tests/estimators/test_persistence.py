"""Files of estimators: what comes back, what is refused, and what is left if writing fails."""

import copy
import io
import json
import os
import pickle

import numpy as np
import pytest
from _estimators import PATHS, binary_data, read_only, small
from _same import assert_same
from numpy.testing import assert_array_equal
from sklearn.base import is_classifier
from sklearn.neural_network import BernoulliRBM as Sklearn

from skrbm import (
    RBM,
    TAPRBM,
    ConditionalRBM,
    DeepTAPMachine,
    GaussianBernoulliRBM,
    RatingRBM,
    TabularRBM,
)
from skrbm.inference import TAP, Gibbs, GibbsLangevin
from skrbm.learning import SGD, Adam
from skrbm.persistence import load, save

X = binary_data()


def given(estimator):
    return (X, (X[:, :3] > 0).astype(int)) if is_classifier(estimator) else (X,)


TEMPERED = Gibbs(start="tempered")
SETTINGS = {
    **{Estimator.__name__: (Estimator, {}) for Estimator in [*PATHS, TabularRBM, RatingRBM]},
    "ladder": (RBM, {"inference": TEMPERED, "visible": "gaussian"}),
    "ladder of solutions": (TAPRBM, {"inference": TAP(start="tempered")}),
    "ladder of real units": (GaussianBernoulliRBM, {"inference": GibbsLangevin(start="tempered")}),
    "messages": (RBM, {"inference": "relaxed_bp", "optimizer": Adam(decay=0.5)}),
    "outputs": (ConditionalRBM, {"optimizer": Adam(alpha="auto")}),
    "layers": (DeepTAPMachine, {"optimizer": "adam"}),
    "momentum": (RBM, {"momentum": 0.5, "visible": "gaussian", "inference": "langevin"}),
    "nested": (RBM, {"init": RBM(5, n_iter=1, random_state=1).fit(X), "random_state": None}),
    "numbers": (RBM, {"random_state": np.random.RandomState(3), "n_iter": np.int64(2)}),
    "names": (RBM, {"optimizer": SGD(alpha="auto"), "learning_rate": np.float64(0.1)}),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_loaded_estimator_is_the_saved_one(name, tmp_path):
    """It has the same parts, and training continues with the same numbers."""
    Estimator, params = SETTINGS[name]
    saved = small(Estimator, **params)
    data = given(saved)
    saved.fit(*data)
    save(saved, tmp_path / "machine")
    loaded = load(tmp_path / "machine")
    assert_same(vars(saved), vars(loaded))
    assert_array_equal(loaded.transform(X), saved.transform(X))
    score = "score_samples" if hasattr(saved, "score_samples") else "score"
    assert_array_equal(getattr(loaded, score)(*data), getattr(saved, score)(*data))
    for estimator in (saved, loaded):
        if hasattr(estimator, "partial_fit"):
            estimator.partial_fit(*data)
        else:
            estimator.set_params(warm_start=True).fit(*data)
    components = [e.components_ for e in (saved, loaded)]
    assert_same(*components)
    assert os.listdir(tmp_path) == ["machine"]


@pytest.mark.parametrize(
    "estimator, message",
    [
        (Sklearn(), "got sklearn.neural_network._rbm.BernoulliRBM"),
        (SGD(), "got skrbm.learning._optimizers.SGD"),
        (RBM, "estimator of skrbm"),
        (
            RBM(optimizer=SGD(schedule=lambda progress: 1.0)),
            "RBM.optimizer.schedule is of type builtins.function",
        ),
        (RBM(init=Sklearn()), "RBM.init is of type sklearn.neural_network._rbm.BernoulliRBM"),
    ],
    ids=["of scikit-learn", "an optimiser", "a class", "a function", "a part of scikit-learn"],
)
def test_what_cannot_be_saved(estimator, message, tmp_path):
    with pytest.raises(TypeError, match=message):
        save(estimator, tmp_path / "machine")
    assert not os.listdir(tmp_path)


def written(path, **changes):
    """Write a file with other entries of its JSON."""
    save(small(RBM), path)
    with np.load(path) as archive:
        arrays = dict(archive)
    tree = json.loads(arrays["tree"].tobytes()) | changes
    arrays["tree"] = np.frombuffer(json.dumps(tree).encode(), np.uint8)
    with open(path, "wb") as file:
        np.savez(file, **arrays)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"format": 99, "skrbm": "7.0"}, "later release"),
        ({"estimator": {"type": "Popen", "state": {"args": "ls"}}}, "a Popen, which is not part"),
        (
            {"estimator": {"type": "Checkpoint", "state": {"folder": "victim"}}},
            "a Checkpoint, which is not part",
        ),
        ({"estimator": {"type": "RBM", "state": {"_skl_callbacks": []}}}, "'_skl_callbacks'"),
        ({"estimator": {"type": "RBM", "state": {"transform": 3}}}, "'transform'"),
        ({"estimator": None}, "no estimator"),
        ({"estimator": {"eval": "1"}}, "was written by skrbm"),
        ({"estimator": {"array": 77}}, "was written by skrbm"),
        ({"estimator": {"type": "SGD", "state": {"speed": 1}}}, "unexpected keyword .*'speed'"),
        ({"estimator": {"array": 0, "library": "os", "device": "cpu"}}, "arrays of os"),
        ({"estimator": {"generator": {"dict": [["bit_generator", "seed"]]}}}, "generator seed"),
    ],
    ids=str,
)
def test_files_of_others(changes, message, tmp_path):
    written(tmp_path / "machine", **changes)
    with pytest.raises(ValueError, match=message):
        load(tmp_path / "machine")


JUNK = [("n_iter", "x"), ("init", "/etc/hosts"), ("early_stopping", "folder")]
JUNK += [("components_", 3), ("components_", np.ones((2, 2))), ("units_", (3, 4))]
JUNK += [("intercept_hidden_", np.full(5, np.nan)), ("intercept_visible_", np.ones(7))]
JUNK += [("intercepts_", [None] * 3), ("coef_visible_", np.ones((2, 2)))]
JUNK += [("starts_", np.ones((2, 7)))]


@pytest.mark.parametrize("Estimator", PATHS)
def test_files_with_invalid_parameters_or_arrays(Estimator, tmp_path):
    for name, value in JUNK:
        estimator = copy.copy(read_only(Estimator))
        if name in vars(estimator):
            setattr(estimator, name, value)
            save(estimator, tmp_path / "machine")
            with pytest.raises(ValueError, match="cannot be read"):
                load(tmp_path / "machine")


def test_compressed_files(tmp_path):
    """A small file must not take much memory."""
    with open(tmp_path / "machine", "wb") as file:
        np.savez_compressed(file, tree=np.zeros(10**8, np.uint8))
    with pytest.raises(ValueError, match="it is compressed"):
        load(tmp_path / "machine")


def test_files_of_other_kinds(tmp_path):
    """Nothing is unpickled."""

    class Bomb:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "harm"),)

    file = io.BytesIO()
    np.savez(file, tree=np.array([Bomb()], dtype=object))
    save(small(RBM).fit(X), tmp_path / "good")
    good = (tmp_path / "good").read_bytes()
    for content in (b"", b"text", pickle.dumps(Bomb()), file.getvalue(), good[: len(good) // 2]):
        (tmp_path / "bad").write_bytes(content)
        with pytest.raises(ValueError, match="not written by skrbm") as error:
            load(tmp_path / "bad")
        assert "unsafe" not in str(error.value)
    assert not (tmp_path / "harm").exists()
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "missing")


def test_a_write_that_fails_leaves_the_last_file(tmp_path, monkeypatch):
    path = tmp_path / "machine"
    save(small(RBM, n_components=4), path)

    def full(descriptor):
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        save(small(RBM, n_components=5), path)
    assert load(path).n_components == 4
    assert os.listdir(tmp_path) == ["machine"]
