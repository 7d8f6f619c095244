"""What the benchmarks share: data, the heading of a report, interleaved timing and tables."""

import datetime
import gzip
import os
import platform
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import scipy
import sklearn

import skrbm
from skrbm.arrays import Columns, to_numpy
from skrbm.evaluation import AIS, log_partition, reverse_log_partition
from skrbm.inference import TAP
from skrbm.learning import SGD
from skrbm.machine import MAX_UNITS

# Settings of TAPRBM in which it is as in the paper but for rates and sizes of batches.
PLAIN = {
    "inference": TAP(max_iter=10, start="data"),
    "optimizer": SGD(momentum=0.5, alpha=0.001, schedule="linear", centered=False, average=False),
    **{"learning_rate": 0.1, "batch_size": 20, "n_iter": 20},
}


def heading(script, args):
    """Print the command, its arguments, the date and the versions."""
    script = Path(script).resolve().relative_to(Path(__file__).resolve().parents[2])
    command = f"python {script} {' '.join(sys.argv[1:])}"
    print(
        f"{command.strip()}\n{vars(args)}\n{datetime.date.today()}, {platform.processor()}", end=""
    )
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"numpy {np.__version__}, scipy {scipy.__version__}, scikit-learn {sklearn.__version__}, "
        f"skrbm {skrbm.__version__}\n",
        flush=True,
    )


def cells_of(row):
    """Return the values of a row as text."""
    return [f"{value:.4g}" if isinstance(value, float) else str(value) for value in row]


def progress(row):
    """Print a row that has been found, ahead of the table, since others take long."""
    print(*cells_of(row), flush=True)


def table(names, rows):
    """Print rows under their names."""
    cells = [list(names), *map(cells_of, rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(names))]
    for row in cells:
        print("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))


def timed(runs, repeats, extra=None):
    """Run each contender once per repeat, in turn; return seconds as arrays by name.

    ``extra`` are callables that return seconds themselves.
    """
    extra = extra or {}
    seconds = {name: [] for name in (*runs, *extra)}
    for name in runs:
        runs[name]()  # warm-up
    for _ in range(repeats):
        for name, run in runs.items():
            begin = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - begin)
        for name, run in extra.items():
            seconds[name].append(run())
    return {name: np.array(values) for name, values in seconds.items()}


def matrix_product_seconds(n_visible, n_hidden, batch, dtype, repeats=50):
    """Median time of the matrix products of one batch of PCD-1, in three calls."""
    rng = np.random.default_rng(0)
    W = rng.random((n_hidden, n_visible)).astype(dtype)
    V = rng.random((2 * batch, n_visible)).astype(dtype)
    H = rng.random((2 * batch, n_hidden)).astype(dtype)
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        V @ W.T
        H[:batch] @ W
        H.T @ V
        times.append(time.perf_counter() - begin)
    return float(np.median(times))


def fit_for(rbm, X, seconds, part=6000):
    """Learn from X by ``partial_fit`` for some seconds of processor time.

    The learning rate, or the factor on an automatic one, falls to zero in a line over that time.
    Returns the seconds taken and the number of epochs. Processor time, so that other
    programs do not count.
    """
    given, rng, n_rows = rbm.optimizer, np.random.default_rng(0), 0
    optimizer = SGD() if given == "sgd" else given
    begin, spent = time.process_time(), 0.0
    while spent < seconds:
        order = rng.permutation(len(X))
        for rows in np.array_split(order, -(-len(X) // part)):
            left = 1 - spent / seconds
            falling = replace(optimizer, schedule=lambda _, left=left: left)
            rbm.set_params(optimizer=falling).partial_fit(X[rows])
            n_rows += len(rows)
            spent = time.process_time() - begin
            if spent >= seconds:
                break
    rbm.set_params(optimizer=given)
    return spent, n_rows / len(X)


def likelihood(rbm, X, X_test, schedule=1000, burn_in=1000):
    """Return mean log-likelihoods of test rows by AIS and by reverse AIS, with 100 chains.

    Both are exact where a layer is small enough.
    """
    if min(rbm.machine_.n_units) <= MAX_UNITS:
        exact = (
            -float(np.mean(to_numpy(rbm.free_energy(X_test)))) - log_partition(rbm, "exact").value
        )
        return exact, exact
    method, base = AIS(100, schedule), rbm.machine_.units[0].initial_theta(Columns(X))
    density = replace(rbm.density_, ladder=None)  # all go by the same temperatures
    forward = log_partition(density, method, base=base, random_state=0)
    backward = reverse_log_partition(
        density, X[:100], method=method, burn_in=burn_in, base=base, random_state=0
    )
    mean = -float(np.mean(to_numpy(rbm.free_energy(X_test))))
    return mean - forward.value, mean - backward.value


def data_folder():
    """Return the folder that SKRBM_DATA names, or None."""
    folder = os.environ.get("SKRBM_DATA")
    return Path(folder) if folder else None


def data_file(folder, name):
    """Return the path of a file in a subfolder of SKRBM_DATA; ends the script if there is none."""
    root = data_folder()
    if root is None or not (root / folder / name).is_file():
        place = "SKRBM_DATA is not set" if root is None else f"{root} has no {folder}/{name}"
        sys.exit(f'{place}; see "Data sets" in doc/evidence.rst')
    return root / folder / name


def _idx(path, offset):
    return np.frombuffer(gzip.open(path).read(), np.uint8, offset=offset)


def mnist(part, n=None, threshold=127):
    """Return (X, y) of MNIST's "train" or "test" rows; X thresholded to 0/1, or 0..255.

    From SKRBM_DATA where it is set, else from OpenML through scikit-learn.
    """
    folder = data_folder()
    if folder is not None:
        name = {"train": "train", "test": "t10k"}[part]
        X = _idx(folder / "mnist" / f"{name}-images-idx3-ubyte.gz", 16).reshape(-1, 784)
        y = _idx(folder / "mnist" / f"{name}-labels-idx1-ubyte.gz", 8)
    else:
        from sklearn.datasets import fetch_openml

        X, y = fetch_openml("mnist_784", version=1, as_frame=False, return_X_y=True)
        rows = slice(0, 60000) if part == "train" else slice(60000, None)
        X, y = X[rows].astype(np.uint8), y[rows].astype(np.uint8)
    X, y = X[:n], y[:n]
    return (X if threshold is None else (X > threshold).astype(np.uint8)), y


def fashion_mnist(part, n=None):
    """Return Fashion-MNIST's "train" or "test" images, thresholded, which SKRBM_DATA has."""
    name = {"train": "train", "test": "t10k"}[part]
    X = _idx(data_file("fashion-mnist", f"{name}-images-idx3-ubyte.gz"), 16)
    return (X.reshape(-1, 784)[:n] > 127).astype(np.uint8)


def debd(name, part):
    """Return "train", "valid" or "test" rows of a set of binary columns, which SKRBM_DATA has."""
    packed = np.load(data_file("debd", f"{name}.npz"))
    return np.unpackbits(packed[part], axis=1)[:, : int(packed["n_columns"])]


def published_machine():
    """Return the CD25 machine of Salakhutdinov and Murray (784 x 500), which SKRBM_DATA has."""
    p = np.load(data_file("rbm-reference", "rbm_cd25_500.npz"))
    arrays = (p["W"].T, p["hbias"].ravel(), p["vbias"].ravel())
    arrays = [array.astype(np.float32) for array in arrays]
    return skrbm.BernoulliRBM.from_parameters(*arrays, random_state=0)  # annealing has its starts
