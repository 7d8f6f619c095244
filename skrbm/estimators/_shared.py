"""The parameters that estimators share: documentation, constraints, and what they stand for."""

import inspect
import re
from dataclasses import fields
from math import isfinite
from numbers import Integral, Real

from sklearn.base import BaseEstimator

from .._checks import hint, look_up, shown
from .._params import plain
from .._sklearn import DOC_LINK, HasMethods, InstanceOf, Interval, InvalidParameterError, StrOptions
from ..inference import FixedPoint, Sampler, method_names, resolve
from ..learning import OPTIMIZERS, EarlyStopping, Optimizer
from ..units import UNITS, Unit

_ENTRIES = """
    n_components : int, default=%s
        Number of hidden units.
    visible : {"bernoulli", "spin", "binomial", "gaussian", "relu", "double_relu", \
            "truncated_gaussian", "truncated_gauss_bernoulli"} or Unit, default="bernoulli"
        Units of the columns of X, which are, in this order: 0 or 1 (values in between are
        probabilities); -1 or 1; integers from 0 to n; real numbers; non-negative numbers; real
        numbers, with separate parameters on each side of 0; numbers on an interval; the same with a
        point mass at 0 (:ref:`units`). Pass an object to set parameters, such as
        ``TruncatedGaussian(-3, 3)`` or ``Binomial(5)``; bounds default to those of the data. Use
        ``Categorical(sizes)`` for categories and ``Poisson()`` for counts.
    handle_unknown : {"warn", "ignore", "error"}, default="warn"
        How to treat values that are not among the categories (those given, or found in the first
        X). "warn" emits a DataRangeWarning, treats them as missing, and scores the row as if one in
        n + 1 rows had the value, where n is the number of training rows. "ignore" treats them as
        missing, without a warning or an effect on the score. "error" raises a ValueError.
    hidden : str or Unit, default="bernoulli"
        Hidden units, by name or as an object, as for ``visible``. Bounds default to [-1, 1], or to
        [0, 1] for units with a point mass.
    optimizer : {"sgd", "natural", "adam"} or object, default="sgd"
        Gradient ascent, natural gradient ascent or Adam. Pass an object to set the momentum, the
        penalty on the weights and the schedule of the learning rate, such as ``SGD(momentum=0.5,
        alpha=0.01)`` (:class:`~skrbm.learning.SGD`).
    learning_rate : float or "auto", default=%s
        Step length of the gradient ascent. "auto" chooses the length of each step such that the
        Kullback-Leibler divergence between the model before and after it stays below a limit
        (:class:`~skrbm.learning.StepLength`).
    batch_size : int, default=%s
        Maximum number of rows in a mini-batch; all mini-batches have nearly the same size.
    n_iter : int, default=%s
        Number of epochs.
    early_stopping : bool or EarlyStopping, default=False
        Whether to hold out validation rows, stop when their log-likelihood no longer improves, and
        keep the parameters of the best epoch. Pass an object to set the patience, the fraction of
        validation rows and the tolerance (:class:`~skrbm.learning.EarlyStopping`).
    init : {"random", "low_rank"}, fitted estimator or \
            (components, intercept_hidden, intercept_visible), default="random"
        Initial parameters: those of a fitted estimator, given arrays, or one of two methods.
        "random" draws small weights, and fits the visible biases to the data. "low_rank" also
        learns 16 hidden units along up to four principal directions of the data, where the
        likelihood can be maximized without chains; this helps if the data form clusters. It
        requires complete rows, independent units with bounds, and training in a single process.
    warm_start : bool, default=False
        Whether ``fit`` continues from the last solution.
    verbose : int, default=0
        If not 0, print the latest measurements and the remaining time, after about 40 of the
        epochs.
    random_state : int, RandomState instance or None, default=None
        Determines the initial weights, the order of the rows, the chains and their starts, and the
        seed with which ``score_samples`` estimates log Z.
    components_ : array of shape (n_components, n_features)
        Weights.
    intercept_hidden_ : array of shape (n_components,)
        Biases of the hidden units.
    intercept_visible_ : array of shape (n_features,)
        Biases of the visible units.
    precision_visible_, spike_visible_, absolute_visible_, skew_visible_ : array
        Other parameters, of shape (n_features,), of visible units that have them (:ref:`units`).
        With ``Gaussian(covariance="full")`` the precision is a matrix.
    precision_hidden_, spike_hidden_, absolute_hidden_, skew_hidden_ : array
        Other parameters, of shape (n_components,), of hidden units that have them.
    units_ : tuple of Unit
        The visible and the hidden units, including bounds taken from the data.
    visible_means_ : array of shape (n_features,)
        Means of the training data; absent after ``from_parameters``.
    starts_ : array of shape (n_states, n_features)
        Last visible states of the chains, or starts of the last solutions. :meth:`log_partition`
        and :meth:`sample` start there.
    ladder_ : Ladder
        Only with ``start="tempered"``: models from independent units to the fitted one, with
        samples of each (:class:`skrbm.inference.Ladder`).
    n_iter_ : int
        Number of epochs.
    history_ : dict of list
        For each epoch ``epoch``, ``learning_rate``, ``time`` (s), ``log_likelihood`` (nats) and its
        standard error ``log_likelihood_std``; with early stopping ``score``, the log-likelihood of
        the validation set; and quantities of the inference method (:ref:`likelihood_in_training`).
    n_features_in_ : int
        Number of features seen in fit.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of features seen in fit, if all are strings.
"""
_SHARED = {
    re.match(r" *(\w+)", entry)[1]: entry
    for entry in re.split(r"^(?=    \w)", _ENTRIES, flags=re.M)[1:]
}


CONSTRAINTS = {
    "n_components": [Interval(Integral, 1, None, closed="left")],
    "visible": [StrOptions(set(UNITS)), Unit],
    "hidden": [StrOptions(set(UNITS)), Unit],
    "handle_unknown": [StrOptions({"warn", "ignore", "error"})],
    "inference": [StrOptions(set(method_names(FixedPoint, Sampler))), FixedPoint, Sampler],
    "optimizer": [StrOptions(set(OPTIMIZERS)), Optimizer],
    "learning_rate": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
    "batch_size": [Interval(Integral, 1, None, closed="left")],
    "n_iter": [Interval(Integral, 0, None, closed="left")],
    "early_stopping": ["boolean", EarlyStopping],
    "init": [StrOptions({"random", "low_rank"}), tuple, list, HasMethods(["fit", "transform"])],
    "warm_start": ["boolean"],
    "verbose": ["verbose"],
    "random_state": ["random_state"],
}
"""Constraints on the parameters that estimators share."""
FIXED_POINTS = [StrOptions(set(method_names(FixedPoint))), FixedPoint]
N_ITER_OR_AUTO = [*CONSTRAINTS["n_iter"], StrOptions({"auto"})]


def shares_parameters(cls):
    """Fill in the documentation and the constraints of parameters that estimators share.

    A line ``{name, other = default}`` of the docstring stands for entries. The constraints of a
    class are those of the names in its signature.
    """
    constraints = CONSTRAINTS | cls._parameter_constraints
    cls._parameter_constraints = {
        name: [
            InstanceOf(kind) if isinstance(kind, type) and "skrbm" in kind.__module__ else kind
            for kind in constraints[name]
        ]
        for name in inspect.signature(cls).parameters
    }

    def entries(match):
        pairs = (item.partition(" = ")[::2] for item in match[1].split(", "))
        return "".join(_SHARED[name].replace("%s", default) for name, default in pairs)

    if cls.__doc__ is not None:  # as with python -OO
        cls.__doc__ = re.sub(r"^    \{([a-z].+)\}\n", entries, cls.__doc__, flags=re.M)
    return cls


# ------------------------------------------------------------------ what parameters stand for


def units_of(estimator):
    return check_bounds(unit_of(estimator, "visible"), unit_of(estimator, "hidden"))


def check_bounds(*units):
    """Return the visible and the hidden units; ValueError if one needs bounds of the other."""
    for unit, other in (units, units[::-1]):
        if unit.needs_bounds and not isfinite(other.bounds[1] - other.bounds[0]):
            raise ValueError(
                f"{unit} units cannot be combined with {other} units, which have no bounds, since "
                "the distribution cannot be normalized; use units with bounds, such as binary ones"
            )
    return units


def unit_of(estimator, side):
    """Return the kind of the visible or the hidden units that an estimator asks for."""
    given = getattr(estimator, side)
    unit = look_up(side, given, UNITS, " or a Unit")() if isinstance(given, str) else given
    if not isinstance(unit, Unit) or not unit.is_learnt:
        raise ValueError(
            f"{side}={shown(given)} is not supported by {type(estimator).__name__}{hint(given, ())}"
        )
    if side == "hidden" and unit.is_joint:
        raise ValueError(f"hidden={given!r}: covariance='full' is only supported for visible units")
    return unit


def optimizer_of(estimator):
    """Return the optimizer of an estimator, which may have its own defaults of named ones."""
    given = estimator.optimizer
    if not isinstance(given, str):
        return plain(given)
    kind = look_up("optimizer", given, OPTIMIZERS, " or an Optimizer")
    own = getattr(estimator, "_optimizer_defaults", {})
    return kind(**{field.name: own[field.name] for field in fields(kind) if field.name in own})


class Estimator(BaseEstimator):
    """scikit-learn's estimator, with clear errors about objects among the parameters."""

    _doc_link_module, _doc_link_template = DOC_LINK

    def set_params(self, **params):
        """Set parameters of the estimator, and of objects among them (``inference__damping``).

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
            If a name is unknown, or if it refers to a parameter of an object and the estimator has
            a string or None instead of the object.
        """
        own = self.get_params(deep=False) | params
        for key in params:
            name, _, nested = key.partition("__")
            if nested and name in own and not hasattr(own[name], "set_params"):
                if own[name] is None:
                    raise ValueError(
                        f"{key} cannot be set, since {name} is None: set {name} to an object first"
                    )
                usual = None
                if name == "optimizer":
                    usual = optimizer_of(self)
                elif name == "inference" and own[name] in method_names(FixedPoint, Sampler):
                    usual = resolve(own[name], FixedPoint, Sampler)
                first = "" if usual is None else f": set {name}={usual} first"
                raise ValueError(
                    f"{key} cannot be set, since {name}={own[name]!r} has no parameters{first}"
                )
        return super().set_params(**params)

    def _validate_params(self):
        try:
            super()._validate_params()
        except InvalidParameterError as error:
            name = str(error).split("'")[1]  # "The 'name' parameter of ..."
            kinds = self._parameter_constraints[name]
            names = [option for kind in kinds for option in getattr(kind, "options", ())]
            value = getattr(self, name)
            near, message = hint(value, names), str(error).replace(repr(value), shown(value))
            raise InvalidParameterError(message.rstrip(".") + near if near else error) from None
