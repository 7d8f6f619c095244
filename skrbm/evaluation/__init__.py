"""Log-partition functions, likelihoods, solutions of fixed points, and diagnosis of chains.

Every function takes a fitted estimator of a density, a :class:`Density` or a
:class:`~skrbm.machine.Machine`.
"""

from ..inference import AIS, SMC, LogPartition
from ._deep import DeepDensity
from ._density import Density, density_of
from ._diagnose import Diagnosis, diagnose
from ._log_partition import (
    Bracket,
    bracket,
    can_enumerate,
    exact_log_partition,
    exact_marginals,
    log_partition,
    reverse_log_partition,
)
from ._pseudo_likelihood import pseudo_log_likelihood
from ._solutions import Solutions, find_solutions, solutions
from ._tree import SolutionTree, solution_tree

__all__ = [
    "AIS",
    "SMC",
    "Bracket",
    "DeepDensity",
    "Density",
    "Diagnosis",
    "LogPartition",
    "SolutionTree",
    "Solutions",
    "bracket",
    "can_enumerate",
    "density_of",
    "diagnose",
    "exact_log_partition",
    "exact_marginals",
    "find_solutions",
    "log_partition",
    "pseudo_log_likelihood",
    "reverse_log_partition",
    "solution_tree",
    "solutions",
]
