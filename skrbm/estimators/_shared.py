"""The parameters that estimators share: documentation, constraints, and what they stand for."""

import inspect
import re
from dataclasses import fields
from math import isfinite
from numbers import Integral, Real

from sklearn.base import BaseEstimator

from .._checks import hint, look_up
from .._params import plain
from .._sklearn import DOC_LINK, HasMethods, InstanceOf, Interval, InvalidParameterError, StrOptions
from ..inference import FixedPoint, Sampler, method_names
from ..learning import OPTIMIZERS, EarlyStopping, Optimizer
from ..units import UNITS, Unit

_ENTRIES = """
    n_components : int, default=%s
        Number of hidden units.
    visible : {"bernoulli", "spin", "binomial", "gaussian", "relu", "double_relu", \
            "truncated_gaussian", "truncated_gauss_bernoulli"} or Unit, default="bernoulli"
        Units of the columns of X: 0 or 1 (values between are probabilities); -1 or 1; integers
        from 0 to n; real numbers; non-negative; with a slope on each side of 0; on an interval;
        on an interval with a point mass at 0 (:ref:`units`). Objects set parameters, such as
        ``TruncatedGaussian(-3, 3)`` or ``Binomial(5)``; bounds are by default those of the data.
        ``Categorical(sizes)`` is for categories, ``Poisson()`` for counts.
    handle_unknown : {"warn", "ignore", "error"}, default="warn"
        Treatment of values that are not among the categories, given or found in the first X: "warn"
        warns, treats them as missing, and scores them as a value that one of n + 1 rows has, where
        n rows were fitted; "ignore" treats them as missing; "error" raises an error.
    hidden : str or Unit, default="bernoulli"
        Hidden units, by name or as an object, as for ``visible``. Bounds are by default [-1, 1], or
        [0, 1] with a point mass.
    optimizer : {"sgd", "natural", "adam"} or object, default="sgd"
        Gradient ascent, natural gradient ascent or Adam; or an object that sets the momentum, the
        penalty on the weights and the schedule of the learning rate, such as
        ``SGD(momentum=0.5, alpha=0.01)`` (:class:`~skrbm.learning.SGD`).
    learning_rate : float or "auto", default=%s
        Step length of the gradient ascent. With "auto" each step changes the distribution by a
        limited Kullback-Leibler divergence (:class:`~skrbm.learning.StepLength`).
    batch_size : int, default=%s
        Largest number of rows of a mini-batch; batches have nearly the same size.
    n_iter : int, default=%s
        Number of epochs.
    early_stopping : bool or EarlyStopping, default=False
        Whether to hold out validation rows, to stop when their log-likelihood no longer improves,
        and to keep the parameters of the best epoch. An object sets the patience, the fraction of
        the rows and the tolerance (:class:`~skrbm.learning.EarlyStopping`).
    init : {"random", "low_rank"}, fitted estimator or \
            (components, intercept_hidden, intercept_visible), default="random"
        Initial parameters. "random" draws small weights, and fits visible biases to the data.
        "low_rank" also learns 16 hidden units in up to four principal directions of the data, where
        the likelihood can be maximized without chains. It helps if the data form clusters. Rows
        must be complete, units independent and bounded, and only one process may fit.
    warm_start : bool, default=False
        Whether ``fit`` continues from the last solution.
    verbose : int, default=0
        Whether to print the last measurements and the remaining time, after about 40 of the epochs.
    random_state : int, RandomState instance or None, default=None
        Determines initial weights, the order of rows, chains and starts, and the seed with which
        ``score_samples`` estimates log Z.
    components_ : array of shape (n_components, n_features)
        Weights.
    intercept_hidden_ : array of shape (n_components,)
        Biases of the hidden units.
    intercept_visible_ : array of shape (n_features,)
        Biases of the visible units.
    precision_visible_, spike_visible_, absolute_visible_, skew_visible_ : array
        Further parameters, of shape (n_features,), of units that have them (:ref:`units`). With
        ``Gaussian(covariance="full")`` the precision is a matrix.
    precision_hidden_, spike_hidden_, absolute_hidden_, skew_hidden_ : array
        Further parameters of hidden units that have them, of shape (n_components,).
    units_ : tuple of Unit
        The visible and the hidden units, with bounds taken from the data.
    visible_means_ : array of shape (n_features,)
        Means of the training data; absent after ``from_parameters``.
    starts_ : array of shape (n_states, n_features)
        Visible values of the last chains, or starts of the last solutions, at which
        :meth:`log_partition` and :meth:`sample` start.
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
                f"{unit} units have no distribution beside {other} units, which have no bounds; "
                "take others with bounds, such as binary units"
            )
    return units


def unit_of(estimator, side):
    """Return the kind of the visible or the hidden units that an estimator asks for."""
    given = getattr(estimator, side)
    unit = look_up(side, given, UNITS, " or a Unit")() if isinstance(given, str) else given
    if not isinstance(unit, Unit) or not unit.is_learnt:
        raise ValueError(f"{side}={given!r}: {type(estimator).__name__} cannot learn such units")
    if side == "hidden" and unit.is_joint:
        raise ValueError(f"hidden={given!r}: covariance='full' is for visible units")
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
            If a name is unknown, or belongs to an object where the estimator has none.
        """
        own = self.get_params(deep=False) | params
        for key in params:
            name, _, nested = key.partition("__")
            if nested and name in own and not hasattr(own[name], "set_params"):
                if own[name] is None:
                    raise ValueError(
                        f"{key} cannot be set, since {name} is None: set {name} to an object first"
                    )
                first = f": set {name}={optimizer_of(self)} first" if name == "optimizer" else ""
                raise ValueError(
                    f"{key} needs an object with parameters for {name}, not {own[name]!r}{first}"
                )
        return super().set_params(**params)

    def _validate_params(self):
        try:
            super()._validate_params()
        except InvalidParameterError as error:
            name = str(error).split("'")[1]  # "The 'name' parameter of ..."
            kinds = self._parameter_constraints[name]
            names = [option for kind in kinds for option in getattr(kind, "options", ())]
            near = hint(getattr(self, name), names)
            raise InvalidParameterError(str(error).rstrip(".") + near if near else error) from None
