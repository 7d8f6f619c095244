"""Inference: fixed points and samplers over any machine."""

from ._adaptive_tap import AdaptiveTAP
from ._ais import AIS, LogPartition
from ._base import (
    Chains,
    FixedPoint,
    Magnetizations,
    Method,
    Sampler,
    Solution,
    map_rows,
    sample,
    settle,
    solve,
)
from ._belief_propagation import BeliefPropagation
from ._clamped import Clamped
from ._deep import given_visible, with_visible
from ._gibbs import ContrastiveDivergence, Gibbs
from ._langevin import STEP_SCALES, GibbsLangevin, Langevin
from ._mean_field import TAP, NaiveMeanField
from ._propagation import Propagated, propagate
from ._relaxed_bp import RelaxedBP
from ._resampling import resampled

FIXED_POINTS = {
    "naive_mean_field": NaiveMeanField(),
    "tap": TAP(),
    "tap3": TAP(order=3),
    "relaxed_bp": RelaxedBP(),
    "bp": BeliefPropagation(),
    "adaptive_tap": AdaptiveTAP(),
}
SAMPLERS = {
    "gibbs": Gibbs,
    "cd": ContrastiveDivergence,
    "langevin": Langevin,
    "gibbs_langevin": GibbsLangevin,
}

__all__ = [
    "AIS",
    "FIXED_POINTS",
    "SAMPLERS",
    "STEP_SCALES",
    "TAP",
    "AdaptiveTAP",
    "BeliefPropagation",
    "Chains",
    "Clamped",
    "ContrastiveDivergence",
    "FixedPoint",
    "Gibbs",
    "GibbsLangevin",
    "Langevin",
    "LogPartition",
    "Magnetizations",
    "Method",
    "NaiveMeanField",
    "Propagated",
    "RelaxedBP",
    "Sampler",
    "Solution",
    "given_visible",
    "map_rows",
    "propagate",
    "resampled",
    "sample",
    "settle",
    "solve",
    "with_visible",
]
