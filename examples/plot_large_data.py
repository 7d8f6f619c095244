"""
=======================
Data larger than memory
=======================

A fit reads files block by block. Here the memory of a fit to files is compared with that of a fit
to an array of the same rows.
"""

# %%
# Data
# ----
# One file of 82 MB, which the fit reads seven times in each epoch.

import tempfile
import threading
import time
import tracemalloc
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from skrbm import RBM
from skrbm.inference import Gibbs

rng = np.random.default_rng(0)
digits = np.kron(load_digits().images / 16, np.ones((4, 4))).reshape(-1, 1024)
rows = digits[rng.integers(len(digits), size=10_000)]
rows = np.clip(rows + 0.1 * rng.standard_normal(rows.shape), 0, 1)
folder = tempfile.TemporaryDirectory()
files = 7 * [Path(folder.name, "rows.npy")]
np.save(files[0], rows)
size = 7 * rows.nbytes / 1e6
rbm = RBM(8, n_iter=1, batch_size=2000, random_state=0, inference=Gibbs(n_chains=100))


def watched(run):
    """Return times in s and memory of arrays in MB while a function runs."""
    course, is_done, begin = [], threading.Event(), time.perf_counter()

    def watch():
        while not is_done.wait(0.01):
            course.append((time.perf_counter() - begin, tracemalloc.get_traced_memory()[0] / 1e6))

    tracemalloc.start()
    thread = threading.Thread(target=watch)
    thread.start()
    run()
    is_done.set()
    thread.join()
    tracemalloc.stop()
    return np.transpose(course)


def batches():
    """Return an iterator over batches of the files."""
    maps = (np.load(file, mmap_mode="r") for file in files)
    return (X[i : i + 500] for X in maps for i in range(0, len(X), 500))


def fit_array():
    """Read the files into one array, and fit."""
    X = np.empty((7 * len(rows), 1024))
    for part, file in zip(np.split(X, 7), files, strict=True):
        part[:] = np.load(file)
    rbm.fit(X)


courses = {"array": watched(fit_array), "files": watched(lambda: rbm.fit(batches))}
folder.cleanup()

# %%
# Memory
# ------
# A fit to files first computes column statistics and keeps up to 10 000 rows. Each epoch then
# shuffles the rows of as many blocks at a time as fit into 128 MiB.

figure, axis = plt.subplots(figsize=(7.5, 4.4), layout="constrained")
axis.axhline(size, color="0.4", ls="--", lw=1, label=f"all rows: {size:.0f} MB")
for name, (seconds, memory) in courses.items():
    print(f"{name}: at most {memory.max():.0f} MB")
    axis.plot(seconds / seconds[-1], memory, label=f"fit to {name}")
axis.set(xlabel="fraction of the time of the fit", ylabel="memory of arrays (MB)", ylim=0)
axis.legend()
plt.show()
