"""Denoising and completion of images as structured prediction, for the scripts of this folder."""

import copy
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.io import loadmat

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from _common import data_file, mnist, progress

from skrbm import ConditionalRBM
from skrbm.inference import Gibbs

METHODS = {
    "LR": {"n_components": 0},
    "CD-1": {"inference": "cd"},
    "CD-10": {"inference": Gibbs(10, start="data")},
    "CD-PercLoss": {"objective": "perceptron", "inference": "gibbs"},
    "MLE-MF": {"inference": "mean_field"},
    "MLE-BP": {"inference": "bp"},
    "LSSVM": {"objective": "margin"},
    "MSSVM": {"objective": "marginal_margin"},
    "MLE-TAP": {"inference": "tap"},  # not in the paper
}

# Tables 1 to 3 of Ping and Ihler (2017): test error in %, of all and of changed pixels.
_TASKS = ("mnist noisy10", "mnist noisy20", "mnist occluded8", "mnist occluded12")
_TASKS += ("caltech noisy20", "caltech occluded12")
PAPER = {
    "LR": "1.960 12.531 4.088 12.609 1.468 61.304 3.498 53.971 5.653 11.460 4.771 16.587",
    "CD-1": "1.925 12.229 4.012 12.597 1.814 63.130 3.983 58.376 5.876 12.423 5.033 20.300",
    "CD-10": "1.816 11.103 3.995 11.271 1.707 67.925 3.921 63.237 5.736 12.013 5.149 21.087",
    "CD-PercLoss": "1.760 11.121 3.970 10.876 1.394 45.684 3.483 35.755 5.622 10.808 5.081 15.102",
    "MLE-MF": "1.862 11.319 3.917 10.939 1.492 49.553 3.477 40.703 5.617 11.083 4.692 15.995",
    "MLE-BP": "1.688 10.718 3.691 10.409 1.329 39.785 3.117 36.233 5.445 10.731 4.548 16.541",
    "LSSVM": "1.807 11.565 3.910 11.175 1.496 44.037 3.468 39.140 5.628 11.468 4.703 16.014",
    "MSSVM": "1.751 11.023 3.804 10.627 1.391 41.829 3.273 35.712 5.549 11.389 4.534 14.918",
}


def paper_errors(method, dataset, task):
    """Return what the paper prints for a method, or NaN: all and changed pixels, in %."""
    name = f"{dataset} {task}"
    if method not in PAPER or name not in _TASKS:
        return np.nan, np.nan
    i = 2 * _TASKS.index(name)
    return tuple(map(float, PAPER[method].split()[i : i + 2]))


class Images(NamedTuple):
    """Corrupted and clean images of each part, float32 rows of 784 zeros and ones."""

    X: Any
    Y: Any


def corrupted(Y, task, dataset, rng):
    """Return images with pixels flipped ("noisy10") or a square occluded ("occluded8")."""
    kind = task.rstrip("0123456789")
    amount = int(task[len(kind) :])
    if kind == "noisy":
        return np.abs(Y - (rng.random(Y.shape) < amount / 100)).astype(np.float32)
    X = Y.reshape(-1, 28, 28).copy()
    corners = rng.integers(0, 29 - amount, (len(X), 2))
    for image, (i, j) in zip(X, corners, strict=True):
        image[i : i + amount, j : j + amount] = dataset == "caltech"  # its background is 1
    return X.reshape(len(X), -1)


def load(dataset, task, train_size=None, seed=0):
    """Return training, validation and test images; corruption depends on the seed.

    MNIST keeps its last 10 000 training images for validation, as the paper does.
    """
    if dataset == "mnist":
        train, test = mnist("train")[0], mnist("test")[0]
        parts = train[:50000], train[50000:], test
    else:
        path = data_file("caltech101-silhouettes", "caltech101_silhouettes_28_split1.mat")
        data = loadmat(path)
        parts = [data[f"{part}_data"] for part in ("train", "val", "test")]
    rng = np.random.default_rng(seed)
    parts = [parts[0][rng.permutation(len(parts[0]))[:train_size]], *parts[1:]]
    parts = [part.astype(np.float32) for part in parts]
    return [Images(corrupted(part, task, dataset, rng), part) for part in parts]


def errors(crbm, images):
    """Return the wrong pixels of all and of those that were changed, in %."""
    predicted = crbm.predict(images.X)
    wrong = predicted != images.Y
    return 100 * wrong.mean(), 100 * wrong[images.X != images.Y].mean()


def train(
    method, rate, epochs, images, seed=0, minutes=np.inf, last_rate=0.02, corrupt=None, **params
):
    """Train for some epochs, or minutes of processor time; keep the best epoch in validation.

    The learning rate falls to ``last_rate`` times itself in a geometric progression. With
    ``corrupt`` each epoch sees ``corrupt(Y, rng)`` in place of the training images' X. Returns
    (the model of the best epoch, its validation error in %, epochs done, seconds of processor
    time spent on learning), and prints the last two numbers of each epoch.
    """
    (X, Y), validation = images
    rng = np.random.default_rng([seed, 1])  # not the one of the first corruption
    crbm = ConditionalRBM(random_state=seed, **{**METHODS[method], **params})
    best, spent, seconds = None, 0.0, 60 * minutes
    for epoch in range(epochs):
        part = max(epoch / max(epochs - 1, 1), spent / seconds)
        crbm.set_params(learning_rate=rate * last_rate**part)
        begin = time.process_time()
        if corrupt is not None:
            X = corrupt(Y, rng)
        crbm.partial_fit(X, Y)
        spent += time.process_time() - begin
        error, _ = errors(crbm, validation)
        progress((f"epoch {epoch + 1}", error, spent))
        if best is None or error < best[1]:
            best = copy.deepcopy(crbm), error
        if spent >= seconds:
            break
    return *best, epoch + 1, spent
