"""How parameters follow expectations: model phases, optimisers, learners, monitors, the loop."""

from ._average import Average
from ._chains import CHAINS, GRADIENTS, ChainPhase, Noise
from ._deep import DeepPhase
from ._fixed_points import STARTS, FixedPointPhase
from ._gradient import (
    NATURAL,
    BatchLearner,
    CenteredGradient,
    MachineGradient,
    MomentLearner,
    NaturalParameters,
    Training,
    check_integral,
)
from ._lbfgs import minimise
from ._loop import Monitor, NoTask, Trainer, recorder
from ._model_phase import ModelPhase
from ._monitors import LikelihoodMonitor
from ._optimizers import OPTIMIZERS, PENALTIES, SGD, Adam, ArrayGradient, Gradient, Optimizer
from ._rates import AutomaticRate, RateState
from ._tracking import LogPartitionTracker, SmallSteps

__all__ = [
    "CHAINS",
    "GRADIENTS",
    "NATURAL",
    "OPTIMIZERS",
    "PENALTIES",
    "SGD",
    "STARTS",
    "Adam",
    "ArrayGradient",
    "AutomaticRate",
    "Average",
    "BatchLearner",
    "CenteredGradient",
    "ChainPhase",
    "DeepPhase",
    "FixedPointPhase",
    "Gradient",
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
    "RateState",
    "SmallSteps",
    "Trainer",
    "Training",
    "check_integral",
    "minimise",
    "recorder",
]
