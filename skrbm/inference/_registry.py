"""The names of inference methods."""

from dataclasses import replace

from ._adaptive_tap import AdaptiveTAP
from ._belief_propagation import BeliefPropagation
from ._fixed_point import FixedPoint
from ._gibbs import Gibbs
from ._langevin import GibbsLangevin, Langevin
from ._mean_field import TAP, NaiveMeanField
from ._relaxed_bp import RelaxedBP
from ._sampler import Sampler

ALIASES = {"mean_field": "naive_mean_field"}

METHODS = {
    "naive_mean_field": NaiveMeanField(),
    "tap": TAP(),
    "tap3": TAP(order=3),
    "relaxed_bp": RelaxedBP(),
    "bp": BeliefPropagation(),
    "adaptive_tap": AdaptiveTAP(),
    "gibbs": Gibbs(),
    "langevin": Langevin(),
    "gibbs_langevin": GibbsLangevin(),
}
"""All methods by name, with their default hyper-parameters."""

FIXED_POINTS = {name: method for name, method in METHODS.items() if isinstance(method, FixedPoint)}
SAMPLERS = {name: method for name, method in METHODS.items() if isinstance(method, Sampler)}


def method_names(kinds):
    """Return the names of methods of some classes, aliases included.

    Parameters
    ----------
    kinds : type or tuple of types

    Returns
    -------
    list of str, sorted
    """
    names = [name for name, method in METHODS.items() if isinstance(method, kinds)]
    return sorted(names + [alias for alias, name in ALIASES.items() if name in names])


def resolve(method, kinds, *, argument="inference", **params):
    """Return the inference method behind a name, or the object that is given.

    Parameters
    ----------
    method : str or InferenceMethod
        An object is returned as it is.
    kinds : type or tuple of types
        Classes that are allowed.
    argument : str, default="inference"
        Name of the caller's argument, for the error.
    **params
        Hyper-parameters of a method that is given by name; those it does not have are ignored.

    Returns
    -------
    InferenceMethod

    Raises
    ------
    ValueError
        If the name is unknown, or the method is of another class.
    """
    if isinstance(method, kinds):
        return method
    names = method_names(kinds)
    if isinstance(method, str) and method in names:
        found = METHODS[ALIASES.get(method, method)]
        known = found.get_params()
        return replace(found, **{name: params[name] for name in params if name in known})
    classes = kinds if isinstance(kinds, tuple) else (kinds,)
    raise ValueError(
        f"{argument} must be one of {names} or an object of class "
        f"{' or '.join(kind.__name__ for kind in classes)}, got {method!r}"
    )
