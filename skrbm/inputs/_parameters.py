"""Machines made of arrays and of fitted estimators."""

import numpy as np

from ..arrays import as_like, cast, from_numpy, is_foreign, like, namespace, working_dtype
from ..machine import Machine
from ..units import Theta

_SIDES = ("visible", "hidden")
_ASYMMETRY = 1e-5  # of a precision matrix, relative, by rounding

# The public names of natural parameters; a precision matrix is a precision.
_PUBLIC = ("intercept", "precision", "spike", "absolute", "skew")
LAYER_ATTRIBUTES = tuple(f"{statistic}s_" for statistic in _PUBLIC)  # lists, of all layers
THETA_ATTRIBUTES = tuple(f"{statistic}_{side}_" for side in _SIDES for statistic in _PUBLIC)


def public_parts(unit, theta):
    """Return the public parameters of a layer, in the order of their names.

    A precision matrix of some columns has the precisions of the others on its diagonal.
    """
    *parts, joint = theta
    if joint is not None:
        n, xp = theta.field.shape[0], namespace(joint)
        columns = unit.joint_columns(n)
        if len(columns) < n:
            place = cast(from_numpy(np.eye(n)[:, columns], joint), joint.dtype)
            diagonal = xp.zeros(n, **like(joint)) if theta.precision is None else theta.precision
            joint = place @ joint @ place.T + diagonal * xp.eye(n, **like(joint))
        parts[1] = joint
    return tuple(parts)


def theta_of(unit, parts):
    """Return the Theta of a layer with public parameters: the inverse of :func:`public_parts`."""
    field, precision, *others = parts
    if not unit.is_joint or precision is None:
        return Theta(field, precision, *others)
    n, xp = field.shape[0], namespace(field)
    columns = unit.joint_columns(n)
    if len(columns) == n:
        return Theta(field, None, *others, joint=precision)
    index = from_numpy(columns, field)
    joint = xp.take(xp.take(precision, index, axis=0), index, axis=1)
    own = unit.default_theta(n, field).precision
    if own is not None:
        other = 1.0 - np.isin(np.arange(n), columns)
        own = xp.linalg.diagonal(precision) * cast(from_numpy(other, field), field.dtype)
    return Theta(field, own, *others, joint=joint)


def machine_from(
    components, intercept_hidden, intercept_visible, units, defaults=None, **statistics
):
    """Return the machine of arrays, or of a fitted estimator.

    ``components`` is an array-like of shape (n_hidden, n_visible), or an estimator, of which
    ``ordinary_machine()`` is taken where it has one. Intercepts may be None, and ``statistics``
    are ``precision_visible`` and the like. Defaults are the parameters of the Machine
    ``defaults``, in its library; by default those of ``default_theta``.
    """
    if hasattr(components, "fit"):
        _check_source(components, units, None if defaults is None else defaults.n_units)
        if hasattr(components, "units_"):
            own = getattr(components, "ordinary_machine", lambda: components.machine_)()
            layers = zip(own.units, own.thetas, strict=True)
            parts = [part for unit, theta in layers for part in public_parts(unit, theta)]
            components = own.weights[0]
        else:  # scikit-learn's BernoulliRBM
            parts = [getattr(components, name, None) for name in THETA_ATTRIBUTES]
            components = components.components_
    else:
        given = {"intercept_hidden": intercept_hidden, "intercept_visible": intercept_visible}
        given |= statistics
        parts = [given.get(name.rstrip("_")) for name in THETA_ATTRIBUTES]
    W = parameter("components", components, 2, None if defaults is None else defaults.weights[0])
    n, usual = len(_PUBLIC), (None, None) if defaults is None else defaults.thetas
    layers = zip(_SIDES, units, W.shape[::-1], (parts[:n], parts[n:]), usual, strict=True)
    return Machine(units, tuple(_theta(f"_{side}", *own, W) for side, *own in layers), (W,))


def _check_source(estimator, units, sizes):
    """Raise ValueError unless an estimator is a fitted RBM whose units have the same values.

    ``sizes`` are the required numbers of units, None for those of the estimator.
    """
    name = type(estimator).__name__
    # The intercepts of a ConditionalRBM are not those of the distribution of any rows.
    if not hasattr(estimator, "intercept_hidden_") or hasattr(estimator, "coef_hidden_"):
        raise ValueError(
            f"{name} is not fitted, or is not an RBM; in a meta-estimator, which clones it, "
            "wrap it in sklearn.frozen.FrozenEstimator"
        )
    if estimator.components_.shape[0] == 0:
        raise ValueError(f"{name} has no hidden units to start from")
    # The units of an ordinary machine are binary, whatever the fitted ones are.
    found = () if hasattr(estimator, "ordinary_machine") else getattr(estimator, "units_", ())
    own = estimator.machine_.n_units if found else ()
    for unit, other, n, m in zip(units, found, own if sizes is None else sizes, own, strict=False):
        pairs = zip(unit.supports(n), other.supports(n), strict=True) if n == m else ()
        if any(wanted is not None and wanted != support for wanted, support in pairs):
            raise ValueError(
                f"{name} has {other} units, whose values differ from those of {unit} units"
            )


def _theta(where, unit, n, values, default, W):
    """Return the checked parameters of one layer: intercepts default to 0, others to ``default``.

    If that is None, ``default_theta`` is used. ``where`` is the suffix of the names in errors.
    """
    default = unit.default_theta(n, W) if default is None else default
    default = default._replace(field=namespace(W).zeros(n, **like(W)))
    parts = []
    for statistic, value, usual in zip(_PUBLIC, values, public_parts(unit, default), strict=True):
        shape = (n, n) if unit.is_joint and statistic == "precision" else (n,)
        name = f"{statistic}{where}"
        if usual is None and value is not None:
            raise ValueError(f"{name} was passed, but {unit} units have no such parameter")
        parts.append(usual if value is None else parameter(name, value, len(shape), W))
        if parts[-1] is not None and tuple(parts[-1].shape) != shape:
            raise ValueError(
                f"{name} must have shape {shape} for components of shape {tuple(W.shape)}, "
                f"got {tuple(parts[-1].shape)}"
            )
    theta = theta_of(unit, parts)
    if theta.joint is not None:
        asymmetry = abs(theta.joint - theta.joint.T)
        xp, joint = namespace(asymmetry), 0.5 * (theta.joint + theta.joint.T)
        if bool(xp.max(asymmetry) > _ASYMMETRY * xp.max(abs(joint))):
            raise ValueError(f"precision{where} must be a symmetric matrix")
        theta = theta._replace(joint=joint)
    improper = unit.is_improper(theta)
    if improper is not None and bool(namespace(improper).any(improper)):
        raise ValueError(f"precision{where} must be positive for {unit}")
    return theta


def layers_from(components, parts, visible, hidden):
    """Return the machine of lists of weights and of the parameters of each layer.

    ``parts`` are lists with one array or None for each layer, or None, in the order of
    ``LAYER_ATTRIBUTES``.
    """
    if hasattr(components, "fit") or not np.iterable(components):
        raise ValueError(
            "components must be a list of arrays, the weights of each hidden layer, got "
            f"{type(components).__name__}"
        )
    components = list(components)
    if not components:
        raise ValueError("components must be the weights of at least one hidden layer")
    units, weights = (visible, *[hidden] * len(components)), []
    for l, W in enumerate(components):
        weights.append(parameter(f"components[{l}]", W, 2, weights[0] if l else None))
        if l and weights[l].shape[1] != weights[l - 1].shape[0]:
            raise ValueError(
                f"components[{l}] has shape {tuple(weights[l].shape)}, but the layer below has "
                f"{weights[l - 1].shape[0]} units"
            )
    lists = []
    for statistic, values in zip(_PUBLIC, parts, strict=True):
        lists.append([None] * len(units) if values is None else list(values))
        if len(lists[-1]) != len(units):
            raise ValueError(
                f"{statistic}s must be {len(units)} arrays, one for each layer, visible "
                f"first, got {len(lists[-1])}"
            )
    sizes = [weights[0].shape[1], *(W.shape[0] for W in weights)]
    thetas = tuple(
        _theta(f"s[{l}]", unit, n, values, None, weights[0])
        for l, (unit, n, *values) in enumerate(zip(units, sizes, *lists, strict=True))
    )
    return Machine(units, thetas, tuple(weights))


def parameter(name, values, ndim, place=None, *, empty=False):
    """Return a finite, contiguous copy of a parameter, in the library of ``place`` if given.

    ``empty`` allows for no units.
    """
    if is_foreign(values):
        array = namespace(values).asarray(values, copy=True)
    else:
        try:
            array = np.array(values, order="C", copy=True)
            if array.dtype.kind not in "biuf":
                array = array.astype(np.float64, casting="safe")
        except (TypeError, ValueError) as error:
            raise ValueError(f"{name} must be an array of real numbers: {error}") from error
    dtype = working_dtype(array)
    if place is not None:
        array, dtype = as_like(array, place), place.dtype
    array = cast(array, dtype)
    if array.ndim != ndim or (0 in array.shape and not empty):
        raise ValueError(f"{name} must be a non-empty array of {ndim} dimension(s)")
    if not bool(namespace(array).all(namespace(array).isfinite(array))):
        raise ValueError(f"{name} contains NaN or infinity")
    return array
