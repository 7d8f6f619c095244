"""How parameters follow expectations: model phases, optimisers, learners, monitors, the loop."""

from ._automatic import AutomaticLearner
from ._average import Average
from ._chains import CHAINS, GRADIENTS, ChainPhase, Noise
from ._deep import DeepPhase
from ._fixed_points import STARTS, FixedPointPhase
from ._gradient import BatchLearner, MomentLearner, Training, check_integral
from ._labels import LabelColumns
from ._loop import Monitor, NoTask, Trainer, recorder
from ._model_phase import ModelPhase
from ._monitors import LikelihoodMonitor
from ._optimizers import OPTIMIZERS, SGD, Adam, ArrayGradient, Gradient, Optimizer
from ._parameters import (
    NATURAL,
    ZERO_SUM,
    CenteredGradient,
    CountParameters,
    MachineGradient,
    NaturalParameters,
    StandardParameters,
    WhitenedParameters,
    ZeroSumParameters,
)
from ._penalties import PENALTIES
from ._progress import Progress
from ._rates import AutomaticRate, RateState, gain_of, rule_for
from ._together import machine_of_first
from ._tracking import LogPartitionTracker, SmallSteps

__all__ = [
    "CHAINS",
    "GRADIENTS",
    "NATURAL",
    "OPTIMIZERS",
    "PENALTIES",
    "SGD",
    "STARTS",
    "ZERO_SUM",
    "Adam",
    "ArrayGradient",
    "AutomaticLearner",
    "AutomaticRate",
    "Average",
    "BatchLearner",
    "CenteredGradient",
    "ChainPhase",
    "CountParameters",
    "DeepPhase",
    "FixedPointPhase",
    "Gradient",
    "LabelColumns",
    "LikelihoodMonitor",
    "LogPartitionTracker",
    "MachineGradient",
    "ModelPhase",
    "MomentLearner",
    "Monitor",
    "NaturalParameters",
    "NoTask",
    "Noise",
    "Optimizer",
    "Progress",
    "RateState",
    "SmallSteps",
    "StandardParameters",
    "Trainer",
    "Training",
    "WhitenedParameters",
    "ZeroSumParameters",
    "check_integral",
    "gain_of",
    "machine_of_first",
    "recorder",
    "rule_for",
]
