"""Machines from files of other programs have the log-likelihoods that these programs define.

The files are made by hand. Log-likelihoods are sums over all sequences of the energies that the
programs' source code defines, with hidden units on fine grids.
"""

import gzip
import os
import pickle
import struct
import sys
import tracemalloc
import types
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp

from skrbm import RBM, BernoulliRBM, CategoricalRBM
from skrbm.sequences import potts_machine, read_adabmdca, read_fasta, read_pgm, read_rbms

SITES, LETTERS, HIDDEN = 3, 4, 2
CODES = np.array(list(product(range(LETTERS), repeat=SITES)))
BITS = np.array(list(product(range(2), repeat=SITES)))
GRID = np.linspace(-25, 25, 20_001)


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def of_codes(table, codes):
    """The entries of (n_sites, n_letters, ...) that codes choose, summed over the sites."""
    return table[np.arange(SITES), codes].sum(axis=1)


def assert_log_likelihoods(model, X, log_weights, rtol=1e-6):
    """log_weights are unnormalised log-probabilities of X, all values of the visible units."""
    assert_allclose(model.score_samples(X), log_weights - logsumexp(log_weights), rtol)


# rbms.


@pytest.fixture
def h5py():
    return pytest.importorskip("h5py")


def written(h5py, path, kind, updates, folder="params"):
    with h5py.File(path, "w") as file:
        if kind is not None:
            file["model_type"] = kind
        file["parallel_chains"] = np.zeros((2, SITES))
        for number, parts in updates.items():
            for name, part in parts.items():
                file[f"update_{number}/{folder}/{name}"] = part
            file[f"update_{number}/time"] = 1.0


def parameters(seed=0, n=LETTERS):
    shape = (SITES, n) if n else (SITES,)
    found = {"weight_matrix": normal(*shape, HIDDEN, seed=seed), "vbias": normal(*shape, seed=1)}
    return {**found, "hbias": normal(HIDDEN, seed=2)}


@pytest.mark.parametrize("kind, folder", [("PBRBM", "params"), (None, ".")])
def test_categories_of_rbms(tmp_path, h5py, kind, folder):
    path, parts = tmp_path / "a.h5", parameters(5)
    written(h5py, path, kind, {9: parameters(), 100: parts}, folder)
    found = read_rbms(path, random_state=0)
    assert isinstance(found, CategoricalRBM) and found.random_state == 0
    inputs = parts["hbias"] + of_codes(parts["weight_matrix"], CODES)
    log_weights = of_codes(parts["vbias"], CODES) + np.logaddexp(0, inputs).sum(axis=1)
    assert_log_likelihoods(found, CODES, log_weights)
    first = read_rbms(path, 9).score_samples(CODES)
    assert not np.allclose(first, found.score_samples(CODES), atol=0.01)


def test_bits_of_rbms(tmp_path, h5py):
    parts = parameters(n=None)
    written(h5py, tmp_path / "a.h5", "BBRBM", {1: parts})
    found = read_rbms(tmp_path / "a.h5")
    assert isinstance(found, BernoulliRBM)
    inputs = parts["hbias"] + BITS @ parts["weight_matrix"]
    assert_log_likelihoods(found, BITS, BITS @ parts["vbias"] + np.logaddexp(0, inputs).sum(axis=1))


@pytest.mark.parametrize(
    "kind, updates, update",
    [
        ("PBRBM", {}, None),
        ("PBRBM", {3: parameters()}, 4),
        ("IGRBM", {3: parameters()}, None),
        ("PBRBM", {3: {"vbias": np.zeros(2)}}, None),
    ],
)
def test_invalid_files_of_rbms(tmp_path, h5py, kind, updates, update):
    written(h5py, tmp_path / "a.h5", kind, updates)
    with pytest.raises(ValueError, match=r"update|PBRBM"):
        read_rbms(tmp_path / "a.h5", update)


# PGM.


class Shape:
    """Base of classes of PGM."""

    def __init__(self, **attributes):
        self.__dict__.update(attributes)


@pytest.fixture
def pgm(monkeypatch):
    """Classes of PGM, which exist while a pickle is written."""
    made = {}
    for module, name in (("rbm", "RBM"), ("layer", "Visible"), ("layer", "Hidden")):
        home = sys.modules.get(module) or types.ModuleType(module)
        monkeypatch.setitem(sys.modules, module, home)
        made[name] = type(name, (Shape,), {"__module__": module})
        monkeypatch.setattr(home, name, made[name], raising=False)
    return made


def saved(tmp_path, pgm, visible, hidden, protocol=4, order="C", **parts):
    shape = (SITES, LETTERS) if visible == "Potts" else (SITES,)
    W = np.asarray(normal(HIDDEN, *shape), dtype=np.float32, order=order)
    fields = normal(*shape, seed=1).astype(np.float32)
    state = np.random.RandomState(0)  # PGM keeps one, with its own constructor
    vlayer = pgm["Visible"](fields=fields, random_state=state, type=np.float32)
    hlayer = pgm["Hidden"](**{k: np.array(v, dtype=np.float32) for k, v in parts.items()})
    rbm = pgm["RBM"](weights=W, visible=visible, hidden=hidden, vlayer=vlayer, hlayer=hlayer)
    path = tmp_path / "rbm.data"
    path.write_bytes(pickle.dumps(rbm, protocol))
    return path, W.astype(np.float64), fields.astype(np.float64)


def two_sided(gamma_plus, gamma_minus, theta_plus, theta_minus):
    """The energy of a dReLU unit of PGM (source/layer.py, dReLULayer.energy)."""
    up, down = np.maximum(GRID, 0), np.maximum(-GRID, 0)
    square = up**2 * gamma_plus + down**2 * gamma_minus
    return square / 2 + up * theta_plus + down * theta_minus


ENERGIES = {
    "Bernoulli": ({"fields": [0.3, -0.5]}, None),
    "Spin": ({"fields": [0.3, -0.5]}, None),
    "Gaussian": (
        {"gamma": [0.8, 1.5], "theta": [0.2, -1.0]},
        lambda gamma, theta: gamma * GRID**2 / 2 + theta * GRID,
    ),
    "ReLUplus": (
        {"gamma": [0.8, 1.5], "theta": [0.2, -1.0]},
        lambda gamma, theta: np.where(GRID >= 0, gamma * GRID**2 / 2 + theta * GRID, np.inf),
    ),
    "dReLU": (
        {
            "gamma_plus": [0.8, 1.5],
            "gamma_minus": [1.2, 0.6],
            "theta_plus": [0.2, -1.0],
            "theta_minus": [0.7, 0.4],
        },
        two_sided,
    ),
    "ReLU": (
        {"gamma": [0.8, 1.5], "theta_plus": [0.2, -1.0], "theta_minus": [0.7, 0.4]},
        lambda gamma, *theta: two_sided(gamma, gamma, *theta),
    ),
}


def log_partition(hidden, parts, inputs):
    """log of the sum over a hidden unit's values, for each input and unit."""
    if hidden in ("Bernoulli", "Spin"):
        low = 0 if hidden == "Bernoulli" else -1
        total = inputs + parts["fields"]
        return np.logaddexp(low * total, total)
    _, energy = ENERGIES[hidden]
    found = []
    for j in range(HIDDEN):
        exponent = np.outer(inputs[:, j], GRID) - energy(*(part[j] for part in parts.values()))
        ends = GRID == 0 if hidden == "ReLUplus" else np.zeros(GRID.shape, dtype=bool)
        found.append(logsumexp(exponent, axis=1, b=np.where(ends, 0.5, 1.0)))
    return np.stack(found, axis=1)


@pytest.mark.parametrize("hidden", ENERGIES)
def test_sequences_of_pgm(tmp_path, pgm, hidden):
    parts, _ = ENERGIES[hidden]
    path, W, fields = saved(tmp_path, pgm, "Potts", hidden, **parts)
    found = read_pgm(path, random_state=0)
    assert isinstance(found, CategoricalRBM) and found.random_state == 0
    inputs = of_codes(W.transpose(1, 2, 0), CODES)
    total = of_codes(fields, CODES) + log_partition(hidden, parts, inputs).sum(axis=1)
    assert_log_likelihoods(found, CODES, total, 1e-5)


@pytest.mark.parametrize("visible", ["Bernoulli", "Spin"])
def test_bits_and_spins_of_pgm(tmp_path, pgm, visible):
    parts, _ = ENERGIES["dReLU"]
    path, W, fields = saved(tmp_path, pgm, visible, "dReLU", **parts)
    found, X = read_pgm(path), BITS if visible == "Bernoulli" else 2 * BITS - 1
    assert isinstance(found, RBM)
    total = X @ fields + log_partition("dReLU", parts, X @ W.T).sum(axis=1)
    assert_log_likelihoods(found, X, total, 1e-5)


@pytest.mark.parametrize("protocol, order", [(2, "C"), (2, "F"), (3, "C"), (5, "F")])
def test_protocols_and_orders_of_arrays(tmp_path, pgm, protocol, order):
    parts, _ = ENERGIES["Bernoulli"]
    path, W, _ = saved(tmp_path, pgm, "Bernoulli", "Bernoulli", protocol, order, **parts)
    assert_array_equal(read_pgm(path).components_, W.astype(np.float32))


class Hostile:
    """A pickle of it calls a function when Python loads it."""

    def __init__(self, *call):
        self.call = call

    def __reduce__(self):
        return self.call


def test_a_pickle_runs_nothing(tmp_path, pgm):
    mark = tmp_path / "mark"
    call = os.mkdir, (str(mark),)
    pickle.loads(pickle.dumps(Hostile(*call)))
    assert mark.exists()  # so it would do as it says
    mark.rmdir()
    for content in (Hostile(*call), [Hostile(*call)], {"weights": Hostile(*call)}):
        (tmp_path / "a").write_bytes(pickle.dumps(content))
        with pytest.raises(ValueError, match="is not a machine"):
            read_pgm(tmp_path / "a")
        assert not mark.exists()
    path, *_ = saved(tmp_path, pgm, "Potts", "Bernoulli", fields=np.zeros(2))
    rbm = pickle.loads(path.read_bytes())
    rbm.weights = Hostile(*call)
    path.write_bytes(pickle.dumps(rbm))
    with pytest.raises(ValueError, match="array"):
        read_pgm(path)
    rbm.weights = np.array([None, object], dtype=object)
    path.write_bytes(pickle.dumps(rbm))
    with pytest.raises(ValueError, match="dtype"):
        read_pgm(path)
    assert not mark.exists()


INVALID = {
    "empty": b"",
    "text": b"no pickle",
    "number": pickle.dumps(3),
    "array": pickle.dumps(np.ones(2)),
    "memo of 2 GB": b"\x80\x02Nr" + struct.pack("<I", 2**28) + b".",
    "text of 1 TB": b"\x80\x04\x8d" + struct.pack("<Q", 2**40) + b"a.",
}


@pytest.mark.parametrize("content", INVALID.values(), ids=INVALID.keys())
def test_invalid_files_of_pgm(tmp_path, content):
    (tmp_path / "a").write_bytes(content)
    tracemalloc.start()
    with pytest.raises(ValueError, match="is not a machine"):
        read_pgm(tmp_path / "a")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10**8


@pytest.mark.parametrize("name, value", [("visible", ["Potts"]), ("vlayer", 3), ("weights", None)])
def test_machines_of_pgm_with_invalid_parts(tmp_path, pgm, name, value):
    path, *_ = saved(tmp_path, pgm, "Potts", "Bernoulli", fields=np.zeros(2))
    rbm = pickle.loads(path.read_bytes())
    setattr(rbm, name, value)
    path.write_bytes(pickle.dumps(rbm))
    with pytest.raises(ValueError, match="is not a machine"):
        read_pgm(path)


def test_other_files_of_hdf5(tmp_path, h5py):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["update_7"] = np.arange(3)
    with pytest.raises(ValueError, match="is not a file of rbms"):
        read_rbms(tmp_path / "a.h5")
    (tmp_path / "a.h5").write_bytes((tmp_path / "a.h5").read_bytes()[:500])
    with pytest.raises(ValueError, match="is not a file of rbms"):
        read_rbms(tmp_path / "a.h5")


def test_cut_files(tmp_path):
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b">a\nACD\n" * 1000)[:-9])
    with pytest.raises(ValueError, match="is not a FASTA file"):
        read_fasta(path)
    with pytest.raises(FileNotFoundError):
        read_fasta(tmp_path / "none")


@pytest.mark.parametrize("visible, hidden", [("Gaussian", "Spin")])
def test_other_machines_of_pgm(tmp_path, pgm, visible, hidden):
    path, *_ = saved(tmp_path, pgm, visible, hidden, fields=np.zeros(2))
    with pytest.raises(ValueError, match=f"units '{visible}' and '{hidden}'"):
        read_pgm(path)


# adabmDCA, and Potts models.


def random_potts(scale=1.0):
    J = scale * normal(SITES, LETTERS, SITES, LETTERS)
    J = J + J.transpose(2, 3, 0, 1)
    J[range(SITES), :, range(SITES), :] = 0
    return J, normal(SITES, LETTERS, seed=1)


def potts_weights(J, h):
    pairs = sum(J[i, CODES[:, i], j, CODES[:, j]] for i in range(SITES) for j in range(i))
    return of_codes(h, CODES) + pairs


@pytest.mark.parametrize("scale", [0.0, 0.1, 1.0])
def test_a_machine_of_a_potts_model(scale):
    J, h = random_potts(scale)
    found = potts_machine(J, h, random_state=0)
    assert found.n_components <= SITES * (LETTERS - 1)
    assert_log_likelihoods(found, CODES, potts_weights(J, h), 1e-8)


def test_invalid_potts_models():
    J, h = random_potts()
    for wrong, field in ((J, h[:, :2]), (J + normal(*J.shape), h), (J, h * np.nan), (J[0], h)):
        with pytest.raises(ValueError, match="must"):
            potts_machine(wrong, field)


@pytest.mark.parametrize("letters", ["-ACG", "0123"])
def test_a_file_of_adabmdca(tmp_path, letters):
    """With letters, and with codes as in old files."""
    J, h = random_potts()
    J[0, :, 1], J[1, :, 0] = 0, 0  # a file may leave couplings out
    lines = [
        f"J {i} {j} {letters[a]} {letters[b]} {float(J[i, a, j, b])!r}"
        for i, a, j, b in np.ndindex(J.shape)
        if i < j and J[i, a, j, b]
    ]
    lines += [f"h {i} {letters[a]} {float(h[i, a])!r}" for i, a in np.ndindex(h.shape)]
    (tmp_path / "params.dat").write_text("\n".join(lines) + "\n\n")
    found = read_adabmdca(tmp_path / "params.dat", "-ACG", random_state=0)
    assert_log_likelihoods(found, CODES, potts_weights(J, h), 1e-8)


@pytest.mark.parametrize(
    "text",
    [
        "J 0 1 A C 0.5",
        "h 0 A",
        "h 0 A 1\nK 0 A 1",
        "h 0 W 1",
        "h 0 A 1\nJ 0 1 A C 0.5",
        "h 0 A 1\nh -1 A 1",
    ],
)
def test_invalid_files_of_adabmdca(tmp_path, text):
    (tmp_path / "a").write_text(text)
    with pytest.raises(ValueError, match=r"line|sites"):
        read_adabmdca(tmp_path / "a", "-ACG")
