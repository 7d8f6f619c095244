"""Fits that begin anew by tempered chains, where persistent ones stay in groups of rows."""

import math
import warnings
from dataclasses import dataclass
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from .._sklearn import is_of_scikit_learn
from ..exceptions import DivergenceError
from ._training import name_in_print


@dataclass(frozen=True)
class FirstFit:
    """What is kept of a fit that has failed, while another one is tried.

    Parameters
    ----------
    attributes : dict
        Of the estimator.
    failure, told : str
        Its failure, and this with what to do.
    shown : tuple
        Indices and counts of the rows by which both fits are compared.
    log_likelihood, std : float
        Of these rows, and the standard error of log Z.
    """

    attributes: dict
    failure: str
    told: str
    shown: tuple
    log_likelihood: Any
    std: Any

    def told_if_better_than(self, second):
        """Tell what another fit to the same rows has led to, None if it is not worse for sure.

        ``second`` is its :class:`LikelihoodMonitor`.
        """
        value, std = second.estimated(self.shown)
        if not self.log_likelihood - value > 2 * math.hypot(self.std, std):
            return None
        return (
            f"{self.failure} Tempered chains were tried, but led to a log-likelihood of "
            f"{value:.4g} in place of {self.log_likelihood:.4g}, so this fit is kept."
        )

    def put_back(self, estimator):
        """Let the estimator be what it was after this fit."""
        for name in _names(estimator):
            del vars(estimator)[name]
        vars(estimator).update(self.attributes)


def learnt_by_better_chains(estimator, learn, goes_on, progress):
    """Fit, and once more by tempered chains if that fails.

    Parameters
    ----------
    estimator : BaseRBM
    learn : callable
        :func:`learnt` without its first arguments.
    goes_on : bool
        Whether the fit begins where the last one has ended.
    progress : Progress or None
        Of a fit that was interrupted, maybe in the second part.

    Returns
    -------
    failure : str or None
        Of the fit that is kept.
    """
    begins = not goes_on if progress is None else progress.own.get("begins", False)
    first = None if progress is None else progress.own.get("first")
    if first is None:
        told = None

        def is_end(monitor, ended):
            nonlocal first, told
            told = monitor.told()
            may_begin = begins and ended != "callback" and estimator._may_begin_anew()
            if told is not None and may_begin:
                first = _first_fit(estimator, monitor, told)
            return first is None

        learn(goes_on, progress, concluded=is_end, begins=begins, first=None)
        if first is None:
            return told
        if name := name_in_print(estimator):
            print(f"[{name}] Chains stay in groups of rows; the fit begins anew by tempered chains")
        estimator._tempers, goes_on, progress = True, False, None
    return _learnt_again(estimator, first, learn, goes_on, progress)


def _learnt_again(estimator, first, learn, goes_on, progress):
    """Fit by tempered chains, and keep the better fit; returns the failure of what is kept."""
    failure, is_chosen, before = None, False, vars(estimator).get("_training")

    def choose(monitor, ended):
        nonlocal failure, is_chosen
        is_chosen = True
        failure = first.told if monitor.failure else first.told_if_better_than(monitor)
        if failure is not None:
            first.put_back(estimator)
        return True

    try:
        learn(goes_on, progress, concluded=choose, begins=True, first=first)
    except DivergenceError:
        failure = first.told
        first.put_back(estimator)
    except BaseException:
        has_begun = progress is None or vars(estimator).get("_training") is not before
        if has_begun and not is_chosen:
            first.put_back(estimator)
            warnings.warn(first.told, ConvergenceWarning, stacklevel=7)  # the line of the user
        raise
    return failure


def _first_fit(estimator, monitor, told):
    attributes = {name: vars(estimator)[name] for name in _names(estimator)}
    value, std = monitor.estimated(monitor.shown)
    return FirstFit(attributes, monitor.failure, told, monitor.shown, value, std)


def _names(estimator):
    """Return the names of all that an estimator has but what is the same in both fits."""
    return [name for name in vars(estimator) if not is_of_scikit_learn(name)]
