"""What the reproductions of Tramel et al. (2018) share: data, settings of Table 1, scores."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from _common import PLAIN, data_file, heading, mnist, progress, table

from skrbm import TAPRBM
from skrbm._schedules import SCHEDULES
from skrbm.arrays import Columns
from skrbm.evaluation import solutions
from skrbm.inference import TAP
from skrbm.units import UNITS

__all__ = [
    "PLAIN",
    "dataset",
    "epochs_of",
    "heading",
    "log_spaced",
    "mnist",
    "progress",
    "table",
    "tap_log_likelihood",
    "tap_machine",
]

# Table 1; what it does not say is the text's: M = K, momentum 0.5, l2, hidden Bernoulli units.
CONSTANT = replace(PLAIN["optimizer"], schedule="constant")
TABLE_1 = {
    "binary-mnist": {"visible": "bernoulli", "batch_size": 100, "learning_rate": 0.005},
    "real-mnist": {
        "visible": "truncated_gauss_bernoulli",
        "batch_size": 100,
        "learning_rate": 0.01,
        "optimizer": replace(CONSTANT, schedule="exponential"),
    },
    "cbcl": {
        "visible": "truncated_gaussian",
        "batch_size": 20,
        "learning_rate": 0.005,
        "optimizer": replace(CONSTANT, alpha=0.01),
    },
}


def dataset(name, n=None):
    """Return rows of "binary-mnist", or of "real-mnist" or "cbcl" scaled to [0, 1].

    Training rows, or those of "binary-mnist-test".
    """
    if name.startswith("binary-mnist"):
        return mnist("test" if name.endswith("test") else "train", n)[0]
    if name == "real-mnist":
        return (mnist("train", n, threshold=None)[0] / 255).astype(np.float32)
    faces = np.load(data_file("cbcl-faces", "cbcl_faces_19x19.npz"))["train_faces"]
    return (faces.reshape(len(faces), -1)[:n] / 255).astype(np.float32)


def tap_machine(name, X, n_hidden, sweeps=100, alpha=None, **params):
    """Return an estimator with the settings of Table 1, W from N(0, 0.001²), moments from X.

    An ``alpha`` other than None takes the place of the penalty of Table 1.
    """
    inference = TAP(max_iter=sweeps, start="data")
    settings = PLAIN | {"inference": inference, "optimizer": CONSTANT} | TABLE_1[name]
    unit = UNITS[settings.pop("visible")]().fitted(Columns(X))
    theta = unit.initial_theta(Columns(X))
    own = {"precision_visible": theta.precision, "spike_visible": theta.spike}
    W = 1e-3 * np.random.default_rng(0).standard_normal((n_hidden, X.shape[1]))
    first = TAPRBM.from_parameters(
        W.astype(np.float32),
        None,
        theta.field,
        visible=unit,
        inference=TAP(max_iter=2, n_starts=1),
        **{statistic: value for statistic, value in own.items() if value is not None},
    )
    rbm = TAPRBM(n_hidden, visible=unit, init=first, random_state=0, **settings | params)
    return rbm if alpha is None else rbm.set_params(optimizer__alpha=alpha)


def epochs_of(rbm, X, n_epochs=100, speed=1):
    """Train as for ``n_epochs`` epochs of the paper, and yield the number of each.

    One of these epochs is here a pass over a part, 1 / ``speed``, of the rows, with ``speed`` times
    the learning rate; the schedule runs over ``n_epochs``.
    """
    rate, rng, factor = (
        rbm.learning_rate * speed,
        np.random.default_rng(0),
        SCHEDULES[rbm.optimizer.schedule],
    )
    parts = []
    for epoch in range(n_epochs):
        parts = parts or np.array_split(rng.permutation(len(X)), speed)
        rows = np.sort(parts.pop())
        rbm.set_params(learning_rate=rate * factor(epoch / n_epochs) / factor(0.0))
        rbm.partial_fit(X[rows])
        yield epoch + 1


def log_spaced(last, n):
    """Return at most ``n`` whole numbers from 1 to ``last``, as evenly spaced in log as can be."""
    points = range(n, 4 * n)
    found = [np.unique(np.geomspace(1, last, k).round().astype(int)) for k in points]
    return next((some for some in found if len(some) >= n), found[-1]).tolist()


def tap_log_likelihood(rbm, X, starts):
    """Return (log-likelihood of each row by Eq. 39, number of solutions, share converged).

    The mean free energy is that of the unique solutions from ``starts``, found in float64 to a
    mean squared change of 1e-12.
    """
    found = solutions(rbm, "tap", starts)
    converged = 1 - found.n_unconverged / len(starts)
    return -rbm.free_energy(X) - found.log_partition(), len(found), converged
