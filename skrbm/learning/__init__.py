"""Training: model phases, optimizers, step length, early stopping and the loop over epochs."""

from ._balanced import BalancedPhase
from ._chains import (
    GRADIENTS,
    AnnealedPhase,
    ChainPhase,
    DataPhase,
    Noise,
    NoisePhase,
    most_rows,
)
from ._counted import CountedDataPhase, CountedPhase
from ._early_stopping import EarlyStopping
from ._fixed_points import STARTS, DeepPhase, FixedPointPhase
from ._labels import LabelColumns
from ._learner import BatchLearner, MomentLearner, check_integral
from ._length import LEAST_KNOWN, StepLength
from ._likelihood import LikelihoodMonitor
from ._loop import Monitor, Trainer, recorder
from ._low_rank import low_rank
from ._model_phase import ModelPhase
from ._optimizers import (
    OPTIMIZERS,
    SGD,
    Adam,
    ArrayGradient,
    Gradient,
    NaturalGradient,
    Optimizer,
)
from ._parameters import (
    NATURAL,
    ZERO_SUM,
    CountParameters,
    MachineGradient,
    NaturalParameters,
    StandardParameters,
)
from ._penalties import PENALTIES
from ._seen import SeenPhase
from ._tempered import TemperedPhase
from ._together import machine_of_first
from ._tracking import LogPartitionTracker
from ._training import Progress, Training
from ._weighted import WeightedPhase

_PHASES = (
    *(ChainPhase, BalancedPhase, WeightedPhase, TemperedPhase),
    *(DataPhase, NoisePhase, AnnealedPhase),
)
CHAINS = {phase.start: phase for phase in _PHASES}
"""Model phases by Markov chains, by the name of where these start."""

__all__ = [
    "SGD",
    "Adam",
    "ArrayGradient",
    "BatchLearner",
    "ChainPhase",
    "DeepPhase",
    "EarlyStopping",
    "FixedPointPhase",
    "Gradient",
    "LikelihoodMonitor",
    "ModelPhase",
    "MomentLearner",
    "Monitor",
    "NaturalGradient",
    "Optimizer",
    "Progress",
    "StepLength",
    "Trainer",
    "Training",
]
