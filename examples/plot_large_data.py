"""
Memory of fits to files and to an array
=======================================

A fit reads rows from files block by block. It needs the memory of some blocks, however large the
files are. Here the same machine learns the same rows twice: from an array that holds all of them,
and from the files.
"""

# %%
# A week of files
# ---------------
# A file has the images of a day: digits of scikit-learn, enlarged and noisy. All seven days are one
# file of 82 MB here, which spares your disk; a fit reads it seven times in each pass.

import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

rng = np.random.default_rng(0)
digits = np.kron(load_digits().images / 16, np.ones((4, 4))).reshape(-1, 1024)
day = digits[rng.integers(len(digits), size=10_000)]
day = np.clip(day + 0.1 * rng.standard_normal(day.shape), 0, 1)

folder = tempfile.TemporaryDirectory()
files = 7 * [Path(folder.name, "day.npy")]
np.save(files[0], day)
size = 7 * day.nbytes / 1e6
print(f"{len(files)} files with {size:.0f} MB together")

# %%
# Fits that are watched
# ---------------------
# NumPy reports each array that it makes to ``tracemalloc``. A thread asks for the sum of all during
# a fit. What Python and its libraries take themselves is not in it, and is the same for both fits.

import threading
import time
import tracemalloc


def watched(run):
    """Return what a function returns, and the seconds and the memory in MB while it runs."""
    course, is_done, begin = [], threading.Event(), time.perf_counter()

    def watch():
        while not is_done.wait(0.01):
            memory, _ = tracemalloc.get_traced_memory()
            course.append((time.perf_counter() - begin, memory / 1e6))

    tracemalloc.start()
    thread = threading.Thread(target=watch)
    thread.start()
    try:
        result = run()
    finally:
        is_done.set()
        thread.join()
        tracemalloc.stop()
    return result, np.transpose(course)


# %%
# From an array, and from files
# -----------------------------
# One epoch is enough to see the course of the memory, as each further one is like it.

from skrbm import RBM

settings = {"n_components": 8, "n_iter": 1, "batch_size": 2000, "n_states": 100}
settings["sample_values"] = False


def fit_array():
    """Read the files into one array, and fit."""
    X = np.empty((7 * len(day), 1024))
    for part, file in zip(np.split(X, 7), files, strict=True):
        part[:] = np.load(file)
    return RBM(**settings, random_state=0).fit(X)


def fit_files():
    """Fit to the files."""
    return RBM(**settings, random_state=0).fit(files)


courses = {}
for name, fit in (("an array", fit_array), ("files", fit_files)):
    rbm, courses[name] = watched(fit)
    print(f"from {name}: at most {courses[name][1].max():.0f} MB")
folder.cleanup()

# %%
# Pictures
# --------
# The array is in memory as a whole, and while it is filled one file beside it. A fit to files
# begins with a pass that sums up the columns and keeps up to 10 000 rows to measure. The epoch
# then shuffles the rows of as many blocks as 128 MiB (134 MB) hold, which are in memory once as
# they come and once joined. A year of files would need no more.

import matplotlib.pyplot as plt

figure, ax = plt.subplots(figsize=(7.5, 4.4), layout="constrained")
ax.axhline(size, color="0.4", ls="--", lw=1)
ax.text(0.01, size - 8, f"all rows: {size:.0f} MB", color="0.3", va="top")
for color, (name, (seconds, memory)) in zip(("C1", "C0"), courses.items(), strict=True):
    part = seconds / seconds[-1]
    ax.fill_between(part, memory, color=color, alpha=0.25, lw=0)
    ax.plot(part, memory, color=color, label=f"fit to {name}")
ax.set(xlabel="part of the time of the fit", ylabel="memory of arrays (MB)", ylim=0, xlim=(0, 1))
ax.set_title("Files need a bounded memory, an array that of all rows")
ax.legend(frameon=False, loc="upper right", bbox_to_anchor=(1, 0.83))
plt.show()
