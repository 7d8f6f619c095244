"""What estimators let users choose by a name or an object: units, inference and optimiser."""

from math import isfinite
from numbers import Integral

from .._checks import look_up
from .._sklearn import Interval, StrOptions
from ..inference import FixedPoint, method_names, resolve
from ..learning import OPTIMIZERS, STARTS, Optimizer
from ..units import UNITS, Unit


class UnitNames(StrOptions):
    """The names of kinds of units, with a word on the kind that has none, for errors."""

    def __str__(self):
        return f"{super().__str__()} (categories need sizes: give Categorical(sizes))"


UNIT_CONSTRAINTS = {
    "visible": [UnitNames(set(UNITS)), Unit],
    "hidden": [UnitNames(set(UNITS)), Unit],
}
FIXED_POINT_CONSTRAINTS = {
    "inference": [StrOptions(set(method_names(FixedPoint))), FixedPoint],
    "starts": [StrOptions(set(STARTS))],
    "n_starts": [None, Interval(Integral, 1, None, closed="left")],
}
OPTIMIZER_CONSTRAINT = [StrOptions(set(OPTIMIZERS)), Optimizer]


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
            f"{side}={given!r}: {type(estimator).__name__} cannot learn such units. It learns "
            f"{sorted(UNITS)}, Categorical or Poisson; FrankWolfeRBM learns multiplicities, and "
            "ReplicatedSoftmaxRBM counts of documents"
        )
    return unit


def fixed_point_of(estimator):
    """Return the equations that an estimator asks for."""
    method = resolve(estimator.inference, FixedPoint)
    method.check_marginals()
    return method


def optimizer_of(estimator):
    """Return the optimiser that an estimator asks for."""
    given = estimator.optimizer
    if not isinstance(given, str):
        return given
    make = look_up("optimizer", given, OPTIMIZERS, " or an Optimizer")
    penalty = getattr(estimator, "penalty", "l2")  # not all estimators have the last two
    max_norm = getattr(estimator, "max_grad_norm", None)
    return make(estimator.momentum, estimator.alpha, penalty, max_norm)
