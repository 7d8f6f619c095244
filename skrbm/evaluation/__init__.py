"""Log-partition functions, likelihoods, solutions of fixed points, and diagnosis of chains.

Every function takes a fitted estimator of a density, a :class:`Density` or a
:class:`~skrbm.machine.Machine`.
"""

from ..inference import AIS, SMC, LogPartition
from ._density import Density
from ._diagnose import Diagnosis, diagnose
from ._log_partition import Bracket, bracket, log_partition, reverse_log_partition
from ._pseudo_likelihood import pseudo_log_likelihood
from ._solutions import Solutions, SolutionTree, solution_tree, solutions

__all__ = [
    "AIS",
    "SMC",
    "Bracket",
    "Density",
    "Diagnosis",
    "LogPartition",
    "SolutionTree",
    "Solutions",
    "bracket",
    "diagnose",
    "log_partition",
    "pseudo_log_likelihood",
    "reverse_log_partition",
    "solution_tree",
    "solutions",
]
