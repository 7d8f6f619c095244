"""Exact sums over all configurations of small layers."""

from ..arrays import from_numpy, to_numpy
from ..machine import MAX_UNITS, _enumeration
from ._density import density_of, in_float64


def can_enumerate(model, max_units=None):
    """Whether every other layer is small enough for log Z to be summed exactly, unasked.

    Parameters
    ----------
    model : estimator or Machine
    max_units : int, default=None
        Most units that are enumerated. None: 20, or as many as are summed by halves in about half
        a second (see :func:`exact_log_partition`): 24 beside 64 bits, 26 beside 30 normal units.

    Returns
    -------
    bool
    """
    return _enumeration.can_enumerate(density_of(model).machine, max_units)


def exact_log_partition(model, max_units=None):
    """Sum log Z over all configurations of the smaller binary layer.

    In a deep machine these are every other layer, even or odd; the layers between are independent
    given them. With two layers, each half of the small one is enumerated for itself, and products
    of matrices sum over all pairs: in a twentieth of the time. The units of the other layer must be
    bits, spins, categories, small whole numbers or normal for that, and weights moderate.

    Parameters
    ----------
    model : estimator or Machine
    max_units : int, default=None
        Most units that are enumerated; the time doubles with each unit, the memory does not. None:
        20, or as many as such products sum over in about three seconds, such as 23 beside 784 bits
        and 26 beside 64.

    Returns
    -------
    float
        log Z in nats.

    Raises
    ------
    ValueError
        If no layer has so few configurations (in a deep machine: neither the even nor the odd
        layers).
    """
    machine = in_float64(density_of(model).machine)
    _enumeration.check_enumerable(machine, max_units)
    return float(_enumeration.log_partition(machine))


def exact_marginals(model, max_units=MAX_UNITS):
    """Sum the mean of every unit over all configurations of the smaller binary layer.

    Parameters
    ----------
    model : estimator or Machine
    max_units : int, default=20
        Largest layer that is enumerated.

    Returns
    -------
    tuple of ndarray
        E[x_l] of each layer, of shape (n_units[l],).
    """
    density = density_of(model)
    machine = in_float64(density.machine)
    _enumeration.check_enumerable(machine, max_units)
    means = _enumeration.means(machine, range(len(machine.units)))
    means[0] = to_numpy(density.outward(from_numpy(means[0], machine.weights[0])))
    return tuple(means)
