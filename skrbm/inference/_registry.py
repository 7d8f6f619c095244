"""The names of inference methods."""

from dataclasses import fields, replace

from .._checks import look_up
from .._params import plain
from ._adaptive_tap import AdaptiveTAP
from ._belief_propagation import BeliefPropagation
from ._gibbs import Gibbs
from ._langevin import GibbsLangevin, Langevin
from ._mean_field import TAP, NaiveMeanField
from ._relaxed_bp import RelaxedBP
from ._tempering import Tempering

FIXED_POINTS = {
    "naive_mean_field": NaiveMeanField(),
    "tap": TAP(),
    "tap3": TAP(order=3),
    "relaxed_bp": RelaxedBP(),
    "bp": BeliefPropagation(),
    "adaptive_tap": AdaptiveTAP(),
}
SAMPLERS = {
    "gibbs": Gibbs(),
    "langevin": Langevin(),
    "gibbs_langevin": GibbsLangevin(),
    "tempering": Tempering(),
}
METHODS = FIXED_POINTS | SAMPLERS
"""All methods by name, with their default hyperparameters."""

_NAMED = METHODS | {  # short names included
    "mean_field": METHODS["naive_mean_field"],
    "pcd": Gibbs(start="persistent"),
    "cd": Gibbs(start="data"),
}


def method_names(*kinds):
    """Return the names of methods of some classes, short ones included; a sorted list of str."""
    return sorted(name for name, method in _NAMED.items() if isinstance(method, kinds))


def resolve(method, *kinds, argument="inference", own=None, **params):
    """Return the inference method of one of some classes behind a name, or the object given.

    An object is returned as it is, but with Python's numbers. ``argument`` is the name of the
    caller's argument, for the error, and ``own`` has further names, of which None stays None.
    ``params`` are hyperparameters of a method that is given by name; others are ignored.
    """
    if isinstance(method, kinds):
        return plain(method)
    table = {name: _NAMED[name] for name in method_names(*kinds)} | (own or {})
    also = f" or an object of class {' or '.join(kind.__name__ for kind in kinds)}"
    found = look_up(argument, method, table, also)
    if found is None:
        return None
    known = {field.name for field in fields(found)} & params.keys()
    return replace(found, **{name: params[name] for name in known})  # a copy: objects can be set
