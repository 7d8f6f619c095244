"""What the reproductions of Liao et al. (2022) share: samplers, images, distances of features."""

import sys
from pathlib import Path

import numpy as np
from scipy.linalg import eigh
from sklearn.neural_network import MLPClassifier

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from _common import _idx, data_file, heading, mnist, progress, table, timed

__all__ = [
    "SAMPLERS",
    "FrechetDistance",
    "filters",
    "heading",
    "images",
    "progress",
    "show",
    "table",
    "timed",
]

from skrbm.inference import Gibbs, GibbsLangevin, Langevin

SAMPLERS = {
    "Gibbs": Gibbs(),
    "Langevin": Langevin(adjust_after=None),
    "Langevin, adjusted": Langevin(adjust_after=0),
    "Gibbs-Langevin": GibbsLangevin(adjust_after=None),
    "Gibbs-Langevin, adjusted": GibbsLangevin(adjust_after=0),
}
"""The five of Figs. 1 and 5."""


def images(name, part, n=None):
    """Return (X, y) of "mnist" or "fashion-mnist": grey levels 0 to 255 as float32."""
    if name == "mnist":
        X, y = mnist(part, n, threshold=None)
        return X.astype(np.float32), y
    stem = {"train": "train", "test": "t10k"}[part]
    X = _idx(data_file(name, f"{stem}-images-idx3-ubyte.gz"), 16).reshape(-1, 784)
    return X[:n].astype(np.float32), _idx(data_file(name, f"{stem}-labels-idx1-ubyte.gz"), 8)[:n]


class FrechetDistance:
    """Distance of normal laws of features, which a small classifier of the images learns first.

    The features are the 64 hidden units of a perceptron trained here on labelled images, so that
    distances in one run can be compared with each other. They are not those of Inception, and the
    numbers are not the paper's FID.
    """

    def __init__(self, X, y, X_test, seed=0):
        self.network = MLPClassifier((64,), max_iter=15, random_state=seed)
        self.network.fit(X / 255, y)
        self.target = self._moments(X_test)

    def _features(self, X):
        W, b = self.network.coefs_[0], self.network.intercepts_[0]
        return np.maximum(np.clip(X, 0, 255) / 255 @ W + b, 0).astype(np.float64)

    def _moments(self, X):
        F = self._features(X)
        return F.mean(axis=0), np.cov(F, rowvar=False)

    def __call__(self, X):
        (m, A), (n, B) = self._moments(X), self.target
        values, vectors = eigh(A)
        root = vectors * np.sqrt(np.clip(values, 0, None))  # A = root root'
        both = np.sqrt(np.clip(eigh(root.T @ B @ root, eigvals_only=True), 0, None)).sum()
        return float(((m - n) ** 2).sum() + np.trace(A) + np.trace(B) - 2 * both)


def filters(rbm, n=48, columns=12):
    """Return components as grey levels, each by its own largest entry, in lines of a sheet."""
    C = rbm.components_[:n]
    C = 127 + 127 * C / np.abs(C).max(axis=1, keepdims=True)
    return {f"{i}": C[i : i + columns] for i in range(0, len(C), columns)}


def show(path, rows, shape=(28, 28)):
    """Save a sheet of images, a row of the picture for each name."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    n = max(len(images) for images in rows.values())
    size = (0.55 * n + 1.5, 0.6 * len(rows))
    figure, axes = plt.subplots(len(rows), n, figsize=size, squeeze=False)
    for line, (name, shown) in zip(axes, rows.items(), strict=True):
        line[0].set_ylabel(name, rotation=0, ha="right", va="center", fontsize=8)
        for axis, image in zip(line, shown, strict=False):
            axis.imshow(image.reshape(shape), cmap="gray", vmin=0, vmax=255)
        for axis in line:
            axis.set(xticks=[], yticks=[])
    figure.tight_layout(pad=0.2)
    figure.savefig(path, dpi=110)
    plt.close(figure)
