"""Pretraining of a deep machine: its layers are trained one by one, from the data upwards."""

import warnings

import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from ..arrays import cast, has_missing, namespace, row_blocks, take_rows, working_dtype
from ..exceptions import DataRangeWarning, DivergenceError
from ..inference import completed
from ..machine import Machine, condition
from ._encoded import visible_rows

_BLOCK_ROWS = 1000  # rows whose hidden units are drawn together
_COMPLETION = 5  # sweeps that draw what is missing


def train_layers(estimator, training, rows, index, histories):
    """Train each layer on samples of the one below (Alg. 4 of Tramel et al. 2018).

    Parameters
    ----------
    estimator : DeepTAPMachine
        Which makes the estimator of each layer.
    training : Training
        Whose machine gets the parameters of each layer that is trained.
    rows : DistinctRows
    index : ndarray of int
        Positions of the rows to learn from.
    histories : list of dict
        That of each layer is added.
    """
    machine, rng = training.machine, training.rng
    thetas, weights = list(machine.thetas), list(machine.weights)
    # In the order of the fit, as each row has its own samples of the layers above.
    V = take_rows(rows.X, rows.index[rows.epoch(index, rng)])
    if working_dtype(V) != rows.dtype:  # thresholds and clipping change the dtype
        V = V.astype(rows.dtype) if sp.issparse(V) else cast(V, rows.dtype)
    V = _with_known_columns(V, rows.means) if has_missing(V) else V
    for l in range(len(weights)):
        rbm = estimator._layer_estimator(machine, l, rng)
        try:
            _train_layer(rbm, V, l, type(estimator).__name__)
        finally:
            if hasattr(rbm, "components_"):  # it may have ended before there were any
                fitted = rbm.machine_
                thetas[l + 1], weights[l] = fitted.thetas[1], fitted.weights[0]
                thetas[0] = thetas[0] if l else fitted.thetas[0]
                histories.append(rbm.history_)
                training.machine = Machine(machine.units, tuple(thetas), tuple(weights))
        if l + 1 < len(weights):
            V = _hidden_samples(rbm, V, rng)


def _with_known_columns(X, means):
    """Return X with means in columns that are known in validation rows only."""
    xp = namespace(X)
    known = xp.any(X == X, axis=0)
    return xp.where(known, X, xp.broadcast_to(cast(means, X.dtype), X.shape))


def _train_layer(rbm, V, l, name):
    try:
        with warnings.catch_warnings():
            # Of the range of X has been warned, and how the pretraining ends is not the end.
            for category in (DataRangeWarning, ConvergenceWarning):
                warnings.simplefilter("ignore", category)
            rbm.fit(V)
    except DivergenceError as error:
        raise DivergenceError(
            f"{name}: the pretraining of hidden layer {l + 1} diverged in epoch "
            f"{getattr(rbm, 'n_iter_', 0) + 1}, and nothing is kept of it; lower learning_rate "
            "or momentum, or scale X"
        ) from error


def _hidden_samples(rbm, X, rng):
    """Draw the hidden units of a fitted machine for each row of X."""
    machine, draw = rbm.machine_, rbm.units_[1].sample
    blocks = (_complete(rbm, rows, rng) for rows in row_blocks(X, _BLOCK_ROWS))
    thetas = (condition(machine, visible_rows(rbm, rows)) for rows in blocks)
    return namespace(rbm.components_).concat([draw(theta, rng) for theta in thetas], axis=0)


def _complete(rbm, X, rng):
    """Return X with draws of what is missing given what is observed, from its solved means."""
    if not has_missing(X):
        return X
    return completed(rbm.machine_, rbm.impute(X), X == X, rng, _COMPLETION)
