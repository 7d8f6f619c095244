"""The pseudo-likelihood, which needs no log Z."""

from ..arrays import block_rows, cast, namespace, row_blocks, softplus
from ..machine import above_visible, hidden_layers, input_field, log_partition, n_enumerated
from ._density import density_of

_MAX_HIDDEN = 12  # units that are enumerated for each row and bit


def pseudo_log_likelihood(model, X):
    """Return sum_i log p(x_i | all other x) for each row, exactly.

    Parameters
    ----------
    model : estimator or Machine
        A model with binary visible units.
    X : array of shape (n_samples, n_visible)
        Values of the visible units, 0 or 1.

    Returns
    -------
    array of shape (n_samples,), float64
        Pseudo-log-likelihood in nats.
    """
    density = density_of(model)
    machine = density.machine
    if machine.units[0].values != (0.0, 1.0):
        raise ValueError(
            f"the pseudo-likelihood needs binary visible units, got {machine.units[0]}"
        )
    hidden = n_enumerated(above_visible(machine))
    if hidden > _MAX_HIDDEN:
        raise ValueError(
            "the pseudo-likelihood needs at most "
            f"{_MAX_HIDDEN} units in every other hidden layer, got {machine.n_units[1:]}; "
            "use log_partition('ais') to estimate the likelihood"
        )
    X = density.visible(X)
    parts, W, bias = [], machine.weights[0], machine.thetas[0].field
    for rows in row_blocks(X, block_rows(max(machine.n_units))):
        field, xp = input_field(machine, 1, (rows, None)), namespace(rows)
        here, total = log_partition(hidden_layers(machine, field)), 0.0
        for i in range(rows.shape[1]):
            flip = 1 - 2 * rows[:, i : i + 1]
            there = hidden_layers(machine, field + (machine.scale * flip) * W[:, i])
            gain = log_partition(there) - here
            total = total - softplus(gain + cast(flip[:, 0] * bias[i], xp.float64))
        parts.append(total)
    return namespace(X).concat(parts)
