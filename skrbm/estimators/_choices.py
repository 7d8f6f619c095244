"""What estimators let users choose by a name or an object: units, inference and optimizer."""

from dataclasses import fields
from math import isfinite

from sklearn.base import BaseEstimator

from .._checks import hint, look_up
from .._params import plain
from .._sklearn import InvalidParameterError, StrOptions
from ..inference import FixedPoint, Sampler, method_names, resolve
from ..learning import OPTIMIZERS
from ..units import UNITS, Unit


class UnitNames(StrOptions):
    """The names of kinds of units, with a word on the kinds that have none, for errors."""

    def __str__(self):
        return (
            f"{super().__str__()} (without a name: give Categorical(sizes) for categories, "
            "Poisson() for counts without a bound)"
        )


def units_of(estimator):
    """Return the kinds of visible and hidden units that an estimator asks for."""
    return check_bounds(unit_of(estimator, "visible"), unit_of(estimator, "hidden"))


def check_bounds(*units):
    """Return the visible and the hidden units; ValueError if one needs bounds of the other."""
    for unit, other in (units, units[::-1]):
        if unit.needs_bounds and not isfinite(other.bounds[1] - other.bounds[0]):
            raise ValueError(
                f"{unit} units have no distribution beside {other} units, which have no bounds; "
                "take others with bounds, such as binary units"
            )
    return units


def unit_of(estimator, side):
    """Return the kind of the visible or the hidden units that an estimator asks for."""
    given = getattr(estimator, side)
    if isinstance(given, str) and given not in UNITS:  # set after the check, or not checked
        raise ValueError(f"{side} must be a unit or one of {sorted(UNITS)}, got {given!r}")
    unit = UNITS[given]() if isinstance(given, str) else given
    if not isinstance(unit, Unit) or not unit.is_learnt:
        raise ValueError(
            f"{side}={given!r}: {type(estimator).__name__} cannot learn such units, but only "
            f"{sorted(UNITS)}, Categorical or Poisson; FrankWolfeRBM learns multiplicities, and "
            "ReplicatedSoftmaxRBM counts of documents"
        )
    if side == "hidden" and unit.is_joint:
        raise ValueError(f"hidden={given!r}: covariance='full' is for visible units")
    return unit


def fixed_point_of(estimator):
    """Return the equations that an estimator asks for."""
    method = resolve(estimator.inference, FixedPoint)
    method.check_marginals()
    return method


def optimizer_of(estimator):
    """Return the optimizer of an estimator, which may have its own defaults of named ones."""
    given = estimator.optimizer
    if not isinstance(given, str):
        return plain(given)
    kind = look_up("optimizer", given, OPTIMIZERS, " or an Optimizer")
    own = getattr(estimator, "_optimizer_defaults", {})
    return kind(**{field.name: own[field.name] for field in fields(kind) if field.name in own})


# Methods of the bases of all estimators, which have no class of skrbm in common.
def validate_params(self):
    """Raise scikit-learn's InvalidParameterError, with the nearest name, for invalid parameters."""
    try:
        BaseEstimator._validate_params(self)
    except InvalidParameterError as error:
        name = str(error).split("'")[1]  # "The 'name' parameter of ..."
        kinds = self._parameter_constraints[name]
        names = [option for kind in kinds for option in getattr(kind, "options", ())]
        near = hint(getattr(self, name), names)
        raise InvalidParameterError(str(error).rstrip(".") + near if near else error) from None


def set_params(self, **params):
    """Set parameters of the estimator, and of objects among them, as in ``inference__damping``.

    Parameters
    ----------
    **params
        New values by name.

    Returns
    -------
    self : object

    Raises
    ------
    ValueError
        If a name is unknown, or belongs to an object where the estimator has none.
    """
    nested = {key: value for key, value in params.items() if "__" in key}
    BaseEstimator.set_params(self, **{k: v for k, v in params.items() if k not in nested})
    own = self.get_params(deep=False)
    for key in nested:
        name = key.partition("__")[0]
        if name in own and not hasattr(own[name], "set_params"):
            raise _no_object(self, key, name)
    return BaseEstimator.set_params(self, **nested)


def _no_object(estimator, key, name):
    """Return the error where ``key`` is of an object that the parameter ``name`` is not."""
    given = getattr(estimator, name)
    if name not in _OBJECTS or not isinstance(given, str):
        return ValueError(
            f"{key} cannot be set, as {name}={given!r} has no parameters of its own; set {name} as "
            "a whole"
        )
    return ValueError(
        f"{key} needs an object for {name}, not the name {given!r}: pass "
        f"{_OBJECTS[name](estimator)}"
    )


def _method_to_pass(estimator):
    if estimator.inference not in method_names(FixedPoint, Sampler):  # such as "auto"
        return "an object of skrbm.inference"
    if hasattr(estimator, "_equations"):  # its names have settings of their own
        return f"inference={_written(estimator._equations())}"
    return f"inference={_written(resolve(estimator.inference, FixedPoint, Sampler))}"


_OBJECTS = {
    "inference": _method_to_pass,
    "optimizer": lambda estimator: f"optimizer={_written(optimizer_of(estimator))}",
}
"""What to pass instead of a name, by the parameter, as a function of the estimator."""


def _written(given):
    """Return the text that makes an object, with its module and without defaults."""
    values = ((field, getattr(given, field.name)) for field in fields(given))
    own = [f"{field.name}={value!r}" for field, value in values if value != field.default]
    kind = type(given)
    return f"{kind.__module__.rpartition('.')[0]}.{kind.__name__}({', '.join(own)})"
