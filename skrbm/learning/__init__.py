"""Training: model phases, optimizers, step length, early stopping and the loop over epochs."""

from ._average import Average
from ._chains import CHAINS, GRADIENTS, N_SWEEPS, ChainPhase, remaining
from ._deep import DeepPhase
from ._early_stopping import EarlyStopping
from ._fixed_points import STARTS, FixedPointPhase
from ._labels import LabelColumns
from ._learner import CORRELATED, BatchLearner, MomentLearner, Training, check_integral
from ._length import StepLength
from ._likelihood import LikelihoodMonitor
from ._loop import Monitor, NoTask, Trainer, recorder
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
from ._seen import SeenPhase
from ._starts import Noise
from ._together import machine_of_first
from ._tracking import LogPartitionTracker, SmallSteps
