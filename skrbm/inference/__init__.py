"""Fixed points and samplers, which estimate the moments of a model."""

from ._adaptive_tap import AdaptiveTAP
from ._annealing import (
    Annealed,
    SmallSteps,
    anneal,
    effective_part,
    own_bases,
    resampled,
    resampled_index,
)
from ._belief_propagation import BeliefPropagation
from ._clamped import (
    clamped,
    clamped_mean,
    completed,
    mean_of_chains,
    one_sweep,
    rows_with_holes,
    tempered_mean,
    with_rows,
)
from ._deep import given_visible, with_visible
from ._fixed_point import (
    FixedPoint,
    Magnetizations,
    Solution,
    map_rows,
    solve,
    solve_to_convergence,
)
from ._gibbs import Gibbs, chain_ends
from ._held import by_site, held
from ._ladder import Ladder, collected, exchange_rate, gains_of, ladder_of, renewed
from ._langevin import GibbsLangevin, Langevin
from ._log_partition import (
    AIS,
    SMC,
    LogPartition,
    independent_log_partition,
    mean_of_weights,
    of_runs,
)
from ._mean_field import TAP, NaiveMeanField
from ._mixing import (
    CORRELATED,
    LADDER_STEPS,
    N_CHECKED,
    N_SWEEPS,
    by_rungs,
    chain_autocorrelation,
    ends_of,
    is_small,
    some_rows,
)
from ._needs import CAPABILITIES, InferenceMethod, Needs
from ._propagation import Propagated, propagate, propagate_rows, sum_classes
from ._registry import FIXED_POINTS, METHODS, SAMPLERS, method_names, resolve
from ._relaxed_bp import RelaxedBP
from ._sampler import Chains, Sampler, autocorrelation_between, draw_visible, last_visible, sample
from ._tempering import (
    RARE_EXCHANGES,
    Exchanges,
    Replicas,
    Tempering,
    bennett,
    log_partitions_given,
)

__all__ = [
    "CAPABILITIES",
    "TAP",
    "AdaptiveTAP",
    "BeliefPropagation",
    "Chains",
    "Exchanges",
    "FixedPoint",
    "Gibbs",
    "GibbsLangevin",
    "Ladder",
    "Langevin",
    "Magnetizations",
    "NaiveMeanField",
    "Needs",
    "Propagated",
    "RelaxedBP",
    "Sampler",
    "Solution",
    "Tempering",
    "ladder_of",
    "propagate",
    "sample",
    "solve",
]
