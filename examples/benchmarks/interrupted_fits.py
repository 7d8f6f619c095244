"""Fits that are killed at random moments: whether their files are whole, and how they end.

    python examples/benchmarks/interrupted_fits.py [--kills 10] [--rows 1797] [--hidden 40]

Each fit writes a file after every epoch, runs in a process of its own and is killed (kill -9) at a
moment that is uniform over the duration of the whole fit. Then all its files are read, and a new
process resumes from the newest. Printed are the numbers of files that cannot be read, of kills in
the middle of writing, and of ends that differ from the fit that was not interrupted in any bit of
any fitted attribute but times; besides, the time of a file and its size. The fit by weighted chains
is to rows in two clusters, between which chains do not mix.
"""

import argparse
import multiprocessing
import os
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from _common import heading, table
from sklearn.datasets import load_digits

from skrbm import RBM, TAPRBM, ConditionalRBM, FrankWolfeRBM, GaussianBernoulliRBM
from skrbm.persistence import Checkpoint, load, resume, save

NAMES = ("components_", "intercept_hidden_", "intercept_visible_", "history_", "path_", "n_iter_")


def fits(n_hidden):
    """Return estimators by name."""
    usual = {"n_components": n_hidden, "n_iter": 20, "batch_size": 100, "random_state": 0}
    return {
        "RBM": RBM(**usual),
        "RBM, weighted": RBM(**usual, starts="weighted"),
        "RBM, tempered": RBM(**usual, starts="tempered"),
        "TAPRBM, stops early": TAPRBM(**usual, early_stopping=True),
        "GaussianBernoulliRBM": GaussianBernoulliRBM(**usual),
        "ConditionalRBM": ConditionalRBM(**usual, early_stopping=True),
        "FrankWolfeRBM": FrankWolfeRBM(10, n_chains=200, random_state=0),
    }


def clusters_of(n):
    """Return rows of 64 bits that are nearly all on or nearly all off."""
    rng = np.random.default_rng(0)
    return ((rng.random((n, 1)) < 0.5) ^ (rng.random((n, 64)) < 0.02)).astype(float)


def run(estimator, X, y, folder, end):
    """Fit, or resume the fit in a folder; the script of a user."""
    warnings.simplefilter("ignore")
    checkpoint = Checkpoint(folder)
    try:
        fitted = resume(folder, X, y, callbacks=[checkpoint])
    except FileNotFoundError:
        fitted = estimator.set_callbacks(checkpoint).fit(X, y)
    save(fitted, end)


def process(*args):
    """Start a process that has everything imported already."""
    started = multiprocessing.get_context("fork").Process(target=run, args=args)
    started.start()
    return started


def are_same(one, other):
    """Whether two fits have ended in the same place."""
    for name in NAMES:
        values = [getattr(fitted, name, None) for fitted in (one, other)]
        if isinstance(values[0], dict):
            values = [{k: v for k, v in value.items() if k != "time"} for value in values]
        try:
            np.testing.assert_equal(*values)
        except AssertionError:
            return False
    return True


def killed(estimator, X, y, duration, unbroken, folder, rng):
    """Kill a fit and resume it; returns what was counted."""
    end = folder / "end"
    first = process(estimator, X, y, folder / "files", end)
    time.sleep(rng.random() * duration)
    first.kill()
    first.join()
    names = os.listdir(folder / "files") if (folder / "files").exists() else []
    unreadable = 0
    for name in names:
        try:
            name.startswith(".") or load(folder / "files" / name)
        except ValueError:
            unreadable += 1
    process(estimator, X, y, folder / "files", end).join()
    half = sum(name.startswith(".") for name in names)
    left = sum(name.startswith(".") for name in os.listdir(folder / "files"))
    return len(names) - half, unreadable, half, left, not are_same(load(end), unbroken)


def row_of(name, estimator, X, y, n_kills, rng):
    """Return a row of the table: a setting, and what was counted over all kills."""
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        begin = time.perf_counter()
        process(estimator, X, y, folder / "files", folder / "end").join()
        duration, unbroken = time.perf_counter() - begin, load(folder / "end")
        size = max(path.stat().st_size for path in (folder / "files").iterdir())
        begin = time.perf_counter()
        save(unbroken, folder / "once more")
        written = time.perf_counter() - begin
        args = estimator, X, y, duration, unbroken
        counts = []
        for kill in range(n_kills):
            (folder / str(kill)).mkdir()
            counts.append(killed(*args, folder / str(kill), rng))
    counted = [int(number) for number in np.sum(counts, axis=0)]
    return [name, duration, n_kills, *counted, 1e3 * written, size / 2**20]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--rows", type=int, default=1797)
    parser.add_argument("--hidden", type=int, default=40)
    args = parser.parse_args()
    heading(__file__, args)
    X, labels = load_digits(return_X_y=True)
    X, labels = (X[: args.rows] > 7).astype(np.float32), labels[: args.rows]
    rng, rows = np.random.default_rng(0), []
    for name, estimator in fits(args.hidden).items():
        y = labels if name == "ConditionalRBM" else None
        data = clusters_of(args.rows) if "weighted" in name else X
        rows.append(row_of(name, estimator, data, y, args.kills, rng))
        print(rows[-1], flush=True)
    head = "fit", "seconds", "kills", "files read", "unreadable", "half-written", "left at the end"
    table([*head, "ends that differ", "ms to save", "MiB of a file"], rows)


if __name__ == "__main__":
    main()
