"""Machines with whole units in place of units that count in part."""

from typing import NamedTuple

import numpy as np

from ...machine import MAX_UNITS
from .._bernoulli_rbm import BernoulliRBM
from ._mixture import machine_of, rounded
from ._samples import ExactModel, WeightedRows


class RoundingLoss(NamedTuple):
    """What :meth:`FrankWolfeRBM.to_bernoulli_rbm` changes.

    Attributes
    ----------
    bound : float
        No log-likelihood changes by more than this, in nats (Prop. 3.2 of Ping et al. 2016); NaN
        for ``rounding="nearest"``, which has no such bound.
    divergence : float
        KL divergence of the rounded machine from the fitted one, in nats: exact with at most 20
        visible units, otherwise estimated from the chains in ``starts_``.
    """

    bound: float
    divergence: float


def whole_units(mixture, rounding):
    """Return a mixture whose units all count once; ValueError if it cannot be."""
    if rounding not in (None, "absorb", "nearest"):
        raise ValueError(f"rounding must be None, 'absorb' or 'nearest', got {rounding!r}")
    n_parts = int((mixture.counts % 1 != 0).sum())
    if rounding is None and n_parts:
        raise ValueError(
            f"{n_parts} of {mixture.counts.size} units have multiplicities that are not whole, "
            "which a BernoulliRBM cannot have; set rounding='absorb' (scales the weights) or "
            "'nearest', or fit with step='1/t'"
        )
    whole = rounded(mixture, rounding)
    if not whole.units:
        raise ValueError("the machine has no hidden unit left, and a BernoulliRBM needs one")
    return whole


def whole_rbm(grown, whole, params):
    """Return whole units as a :class:`BernoulliRBM` with parameters, by default the grown one's."""
    if "n_components" in params:
        raise ValueError(
            f"n_components is no choice: the machine has {len(whole.units)} whole units; use "
            "truncate for a smaller one"
        )
    machine = machine_of(whole, grown.components_)
    params = {"random_state": grown.random_state, "binarize": grown.binarize, **params}
    parts = machine.weights[0], machine.thetas[1].field, machine.thetas[0].field
    rbm = BernoulliRBM.from_parameters(*parts, **params)
    if hasattr(grown, "feature_names_in_"):
        rbm.feature_names_in_ = grown.feature_names_in_
    return rbm


def rounding_loss(mixture, whole, rounding, starts):
    """Return the :class:`RoundingLoss` of a mixture that has become one of whole units."""
    rows = WeightedRows(starts)
    if mixture.bias.size <= MAX_UNITS:
        rows = ExactModel(mixture.bias.size, starts).sweep(mixture).training
    change = whole.hidden(rows) - mixture.hidden(rows)
    part = mixture.counts % 1
    bound = float("nan") if rounding == "nearest" else (1 - part)[part > 0].sum() * np.log(2)
    return RoundingLoss(float(bound), rows.log_mean_exp(change) - float(rows.mean(change)))
