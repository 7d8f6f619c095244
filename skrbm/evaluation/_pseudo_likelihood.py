"""The pseudo-likelihood, which needs no log Z."""

import numpy as np

from ..arrays import cast, from_numpy, is_on_device, like, namespace, row_blocks, softplus, to_numpy
from ..machine import _enumeration, above_visible, hidden_layers, input_field, is_per_row
from ._density import density_of

_BLOCK_ELEMENTS = 2**22  # of the largest temporary array in blockwise evaluation
_DEVICE_ELEMENTS = 2**24  # of the same on a device
_MAX_HIDDEN = 12  # units that are enumerated for each row and bit


def pseudo_log_likelihood(model, X, bits=None):
    """Return sum_i log p(x_i | all other x) for each row, exactly.

    Parameters
    ----------
    model : estimator or Machine
        With binary visible units.
    X : array of shape (n_samples, n_visible)
        Values of the visible units, 0 or 1.
    bits : array of int, default=None
        Only these bits are summed, and the sum is scaled up to all of them.

    Returns
    -------
    array of shape (n_samples,), float64
        Pseudo-log-likelihood in nats.
    """
    density = density_of(model)
    machine = density.machine
    if machine.units[0].values != (0.0, 1.0):
        raise ValueError(
            f"the pseudo-likelihood needs binary visible units, not {machine.units[0]}"
        )
    hidden = _enumeration.n_enumerated(above_visible(machine))
    if hidden > _MAX_HIDDEN:
        raise ValueError(
            "the pseudo-likelihood sums over every other hidden layer, at most "
            f"{_MAX_HIDDEN} units, and this machine has hidden layers of {machine.n_units[1:]}; "
            "estimate the likelihood by log_partition('ais')"
        )
    X = density.visible(X)
    bits = _checked_bits(bits, X.shape[1])
    block = max(1, _BLOCK_ELEMENTS // max(machine.n_units))
    parts = [_of_bits(machine, rows, bits) for rows in row_blocks(X, block)]
    return namespace(X).concat(parts) * (X.shape[1] / len(bits))


def observed_pseudo_log_likelihood(machine, X, observed, bits):
    """Return sum_i log p(x_i | all other x) of rows that are observed in part, over bits i.

    Parameters
    ----------
    machine : Machine
        As in :func:`pseudo_log_likelihood`.
    X : array of shape (n_rows, n_visible)
        With draws for what is missing.
    observed : array of shape (n_rows, n_visible), bool
        Bits that are not observed do not count.
    bits : array of int
        The bits of the sum.

    Returns
    -------
    array of shape (n_rows,), float64
    """
    return _of_bits(machine, X, _checked_bits(bits, X.shape[1]), observed)


def _checked_bits(bits, n_visible):
    if bits is None:
        return range(n_visible)
    numbers = to_numpy(bits)
    known = numbers.ndim == 1 and numbers.size and numbers.dtype.kind in "iu"
    if not known or numbers.min() < 0 or numbers.max() >= n_visible:
        raise ValueError(f"bits must be indices of the {n_visible} visible units, got {bits!r}")
    return numbers.tolist()


def _of_bits(machine, X, bits, observed=None):
    """Return the sum over the bits that are observed."""
    W, bias = machine.weights[0], machine.thetas[0].field
    field, xp = input_field(machine, 1, (X, None)), namespace(X)
    total = xp.zeros(X.shape[0], **{**like(X), "dtype": xp.float64})
    here = _hidden_log_partition(machine, field)[:, None]
    n_rows, n_hidden = field.shape
    # A device starts few operations on many numbers; NumPy's stay in cache.
    together = _DEVICE_ELEMENTS // max(1, n_rows * n_hidden)
    together = max(1, together) if is_on_device(X) and machine.n_rows is None else 1
    scale = machine.scale[:, None] if is_per_row(machine.scale) else machine.scale
    for start in range(0, len(bits), together):
        n_bits, columns = min(together, len(bits) - start), _columns(bits[start:], together, X)
        flip = 1 - 2 * columns(X)
        flipped = field[:, None, :] + (scale * flip)[:, :, None] * columns(W).T
        gain = _hidden_log_partition(machine, xp.reshape(flipped, (n_rows * n_bits, n_hidden)))
        gain = xp.reshape(gain, (n_rows, n_bits)) - here
        loss = softplus(gain + cast(flip * columns(bias[None, :]), xp.float64))
        if observed is not None:
            loss = xp.where(columns(observed), loss, 0.0 * loss)
        total -= xp.sum(loss, axis=1)
    return total


def _columns(numbers, n, X):
    """Return a function that takes the first n of some columns; one alone is a view."""
    if n == 1:
        return lambda x: x[:, numbers[0] : numbers[0] + 1]
    index = from_numpy(np.array(numbers[:n]), X)
    return lambda x: namespace(x).take(x, index, axis=1)


def _hidden_log_partition(machine, field):
    """Sum log Z of the hidden layers in fields on the first, one for each row."""
    return _enumeration.log_partition(hidden_layers(machine, field))
