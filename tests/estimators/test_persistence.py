"""Files of estimators: what comes back, what is refused, and what is left if writing fails."""

import io
import json
import os
import pickle
import subprocess
import sys
import time
import zipfile
from inspect import isclass
from pathlib import Path

import numpy as np
import pandas
import pytest
from _estimators import ESTIMATORS, binary_data, small
from _same import assert_same
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.base import clone, is_classifier
from sklearn.neural_network import BernoulliRBM as Sklearn

from skrbm import RBM, TAPRBM, ConditionalRBM, DeepTAPMachine, GaussianBernoulliRBM
from skrbm.arrays import make_rng
from skrbm.learning import SGD, Adam
from skrbm.persistence import load, save, trusted_types
from skrbm.persistence._files import _types

X = binary_data()


def given(estimator):
    return (X, (X[:, :3] > 0).astype(int)) if is_classifier(estimator) else (X,)


SETTINGS = {
    **{Estimator.__name__: (Estimator, {}) for Estimator in ESTIMATORS},
    "ladder": (RBM, {"starts": "tempered", "visible": "gaussian"}),
    "ladder of solutions": (TAPRBM, {"starts": "tempered"}),
    "ladder of real units": (GaussianBernoulliRBM, {"starts": "tempered"}),
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
    """It has the same parts, and learning goes on with the same numbers."""
    Estimator, params = SETTINGS[name]
    saved = small(Estimator, **params)
    data = given(saved)
    saved.fit(*data)
    save(saved, tmp_path / "machine")
    loaded = load(tmp_path / "machine")
    assert_same(vars(saved), vars(loaded))
    assert_array_equal(loaded.transform(X), saved.transform(X))
    assert_array_equal(loaded.score_samples(*data), saved.score_samples(*data))
    for estimator in (saved, loaded):
        if hasattr(estimator, "partial_fit"):
            estimator.partial_fit(*data)
        else:
            estimator.set_params(warm_start=True).fit(*data)
    components = [e.components_ for e in (saved, loaded)]
    assert_same(*components)
    assert os.listdir(tmp_path) == ["machine"]


def test_arrays_that_were_shared_are_shared(tmp_path):
    """As are the weights of the rungs of a ladder by temperatures, which are written once."""
    strong = 4.0 * np.tile([-1, 1], (3, 4))
    saved = RBM(3, n_iter=0, starts="tempered", init=(strong, None, None)).fit(X)
    save(saved, tmp_path / "machine")
    first, last = (
        [machine.weights[0] for machine in rbm.ladder_.machines]
        for rbm in (saved, load(tmp_path / "machine"))
    )
    same = [[one is other for one in weights for other in weights] for weights in (first, last)]
    assert same[0] == same[1] and sum(same[0]) > len(first)


def test_what_is_not_fitted_and_names_of_columns(tmp_path):
    path = str(tmp_path / "machine.npz")
    save(RBM(3, alpha=float("inf")), path)
    loaded = load(path)
    assert vars(loaded) == vars(RBM(3, alpha=float("inf")))
    frame = pandas.DataFrame(X, columns=[f"column {i}" for i in range(X.shape[1])])
    save(small(RBM).fit(frame), path)
    assert_array_equal(load(path).feature_names_in_, frame.columns)


@pytest.mark.arrays
def test_tensors_come_back_as_tensors(tmp_path):
    torch = pytest.importorskip("torch")
    T = torch.asarray(X)
    saved = small(RBM).fit(T)
    save(saved, tmp_path / "machine")
    loaded = load(tmp_path / "machine")
    assert isinstance(loaded.components_, torch.Tensor)
    for estimator in (saved, loaded):
        estimator.partial_fit(T)
    assert torch.equal(saved.components_, loaded.components_)


@pytest.mark.parametrize(
    "estimator, message",
    [
        (Sklearn(), "got sklearn.neural_network._rbm.BernoulliRBM"),
        (SGD(), "got skrbm.learning._optimizers.SGD"),
        (RBM, "save takes an estimator of skrbm"),
        (RBM(schedule=lambda progress: 1.0), "RBM.schedule is of type builtins.function"),
        (RBM(init=Sklearn()), "RBM.init is of type sklearn.neural_network._rbm.BernoulliRBM"),
    ],
    ids=["of scikit-learn", "an optimiser", "a class", "a function", "a part of scikit-learn"],
)
def test_what_is_refused(estimator, message, tmp_path):
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
        ({"estimator": {"type": "Popen", "state": {"args": "ls"}}}, "there is no Popen"),
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


def test_a_file_of_an_earlier_release(tmp_path):
    """A parameter that came later has its default: here one is taken out of the file."""
    saved = small(RBM, momentum=0.5).fit(X)
    save(saved, tmp_path / "machine")
    with np.load(tmp_path / "machine") as archive:
        arrays = dict(archive)
    text = arrays["tree"].tobytes()
    for written in (b'"momentum": 0.5, ', b'"alpha": "auto", '):
        assert written in text
        text = text.replace(written, b"")
    with open(tmp_path / "machine", "wb") as file:
        np.savez(file, **arrays | {"tree": np.frombuffer(text, np.uint8)})
    loaded = load(tmp_path / "machine")
    assert (loaded.momentum, loaded.alpha) == (0.0, "auto")
    assert_array_equal(loaded.transform(X), saved.transform(X))
    assert "n_components=" in repr(clone(loaded).fit(X))


def test_a_file_of_more_than_2_gib(tmp_path, monkeypatch):
    """Which has another end; here at a smaller limit."""
    saved = small(RBM).fit(X)
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 1000)
    save(saved, tmp_path / "machine")
    assert_same(vars(load(tmp_path / "machine")), vars(saved))


def test_a_stored_file_is_read():
    """It was written in format 1, by ``RBM(3, n_iter=4, random_state=0)`` fitted to ``X``."""
    path = Path(__file__).parent / "format_1.npz"
    loaded = load(path)
    with np.load(path) as archive:
        stored = [array for name, array in archive.items() if array.dtype == np.float64]
    assert loaded.components_.shape == (3, X.shape[1]) and loaded.n_iter_ == 4
    assert any(np.array_equal(loaded.components_, array) for array in stored)
    field = X @ loaded.components_.T + loaded.intercept_hidden_
    assert_allclose(loaded.transform(X), 1 / (1 + np.exp(-field)), rtol=1e-12)
    assert loaded.partial_fit(X).n_iter_ == 5 and np.isfinite(loaded.score(X))


def test_requests_of_metadata_are_not_kept(tmp_path):
    with config_context(enable_metadata_routing=True):
        rbm = small(RBM).set_fit_request(sample_weight=True).fit(X)
        save(rbm, tmp_path / "machine")
        assert load(tmp_path / "machine").get_metadata_routing().fit.requests == {
            "sample_weight": None
        }


def test_files_that_are_none(tmp_path):
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
        with pytest.raises(ValueError, match="no file of skrbm") as error:
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


def test_a_process_that_is_killed_leaves_a_whole_file(tmp_path):
    """At 20 moments of writing one file after the other."""
    program = (
        "import sys, numpy as np; from skrbm import RBM; from skrbm.persistence import save\n"
        "rbm = RBM(200, n_iter=0).fit(np.eye(300)); save(rbm, sys.argv[1]); print(flush=True)\n"
        "while True: save(rbm, sys.argv[1])"
    )
    path = tmp_path / "machine"
    rng = np.random.default_rng(0)
    command = [sys.executable, "-c", program, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        for _ in range(20):
            time.sleep(rng.random() * 0.02)
            assert load(path).components_.shape == (200, 300)
        process.kill()
    assert load(path).components_.shape == (200, 300)


def test_names_of_types_are_unique():
    """A file has the names of classes without those of modules, which may change."""
    names = [name.rpartition(".") for name in trusted_types()]
    assert len({name for *_, name in names}) == len(names)
    assert all(isclass(cls) for cls in _types().values())
    modules = [module for name, module in sys.modules.items() if name.startswith("skrbm.")]
    classes = {
        cls
        for module in modules
        for cls in vars(module).values()
        if isclass(cls) and cls.__module__.startswith("skrbm.") and "<" not in cls.__qualname__
    }
    exceptions = {cls for cls in classes if issubclass(cls, BaseException)}
    assert classes - exceptions == set(_types().values())


@pytest.mark.parametrize("name", SETTINGS)
def test_skops_takes_the_trusted_types(name):
    """What it loads scores and learns with the same numbers."""
    skops_io = pytest.importorskip("skops.io")
    Estimator, params = SETTINGS[name]
    saved = small(Estimator, **params)
    data = given(saved)
    untrusted = {"numpy.random.mtrand.RandomState"} & set(
        skops_io.get_untrusted_types(data=skops_io.dumps(saved.fit(*data)))
    )
    loaded = skops_io.loads(skops_io.dumps(saved), trusted=[*trusted_types(), *untrusted])
    assert_array_equal(loaded.score_samples(*data), saved.score_samples(*data))
    for estimator in (saved, loaded):
        if hasattr(estimator, "partial_fit"):
            estimator.partial_fit(*data)
        else:
            estimator.set_params(warm_start=True).fit(*data)
    pairs = [model.components_ for model in (saved, loaded)]
    for one, other in zip(*(c if isinstance(c, list | tuple) else [c] for c in pairs), strict=True):
        assert_array_equal(one, other)


def test_a_link_leads_to_what_is_saved(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "file")
    for n in (2, 3):
        save(RBM(n), tmp_path / "link")
        assert (tmp_path / "link").is_symlink() and load(tmp_path / "file").n_components == n


def test_a_file_has_the_permissions_of_any_new_file(tmp_path):
    save(small(RBM), tmp_path / "machine")
    (tmp_path / "plain").touch()
    modes = [(tmp_path / name).stat().st_mode for name in ("machine", "plain")]
    assert modes[0] == modes[1]


def test_files_that_are_damaged(tmp_path):
    """Of 200 files with a wrong bit, a third of them cut there, none is read as something else."""
    saved, rng = small(RBM).fit(X), np.random.default_rng(0)
    save(saved, tmp_path / "good")
    good, n_refused = (tmp_path / "good").read_bytes(), 0
    for i in range(200):
        place, bad = rng.integers(len(good)), bytearray(good)
        bad[place] ^= 1 << rng.integers(8)
        (tmp_path / "bad").write_bytes(bad[: place + 1] if i % 3 == 0 else bad)
        try:
            loaded = load(tmp_path / "bad")
        except ValueError:
            n_refused += 1
        else:  # the wrong bit is in what zipfile does not need
            assert_same(vars(loaded), vars(saved))
    assert n_refused > 100
    np.save(tmp_path / "array.npy", X)
    with pytest.raises(ValueError, match="no file of skrbm"):
        load(tmp_path / "array.npy")


@pytest.mark.arrays
def test_a_file_of_a_device_that_is_not_there(tmp_path):
    torch = pytest.importorskip("torch")
    saved = small(RBM).fit(torch.asarray(X))
    save(saved, tmp_path / "machine")
    with np.load(tmp_path / "machine") as archive:
        arrays = dict(archive)
    text = arrays["tree"].tobytes().replace(b'"device": "cpu"', b'"device": "xpu:7"')
    with open(tmp_path / "machine", "wb") as file:
        np.savez(file, **arrays | {"tree": np.frombuffer(text, np.uint8)})
    with pytest.raises(ValueError, match=r"does not read .*pass device='cpu'"):
        load(tmp_path / "machine")
    loaded = load(tmp_path / "machine", device="cpu")
    assert_same(vars(loaded), vars(saved))


@pytest.mark.arrays
def test_a_stream_of_another_kind_of_device_begins_anew():
    """The state of a generator of a GPU has another size."""
    torch = pytest.importorskip("torch")
    stream = make_rng(0, torch.zeros(1))
    first = stream.uniform((5,))
    state = stream.__getstate__() | {"_torch": np.zeros(16, np.uint8)}
    stream.__setstate__(state)
    assert_array_equal(stream.uniform((5,)), first)
