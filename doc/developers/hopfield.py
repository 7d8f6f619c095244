from numbers import Integral
from typing import ClassVar

from skrbm._sklearn import Interval
from skrbm.estimators._base import BaseRBM
from skrbm.estimators._parts import Parts
from skrbm.inference import Gibbs
from skrbm.learning import SGD, ChainPhase
from skrbm.units import Bernoulli, Gaussian


class HopfieldRBM(BaseRBM):
    """Binary visible and Gaussian hidden units, by persistent contrastive divergence."""

    _parameter_constraints: ClassVar[dict] = {
        **BaseRBM._parameter_constraints,
        "n_steps": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        n_components=256,
        *,
        n_steps=1,
        learning_rate=0.1,
        batch_size=100,
        n_iter=20,
        verbose=0,
        random_state=None,
        momentum=0.0,
        alpha=0.0,
        penalty="l2",
        schedule="constant",
        init="random",
        shuffle=True,
        early_stopping=False,
        validation_fraction=0.1,
        n_iter_no_change=5,
        tol=1e-2,
        warm_start=False,
        binarize=None,
    ):
        self.n_components = n_components
        self.n_steps = n_steps
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.n_iter = n_iter
        self.verbose = verbose
        self.random_state = random_state
        self.momentum = momentum
        self.alpha = alpha
        self.penalty = penalty
        self.schedule = schedule
        self.init = init
        self.shuffle = shuffle
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.warm_start = warm_start
        self.binarize = binarize

    def _units(self):
        return Bernoulli(), Gaussian()

    def _own_fixed_point(self):
        return None

    def _parts(self, rows=None):
        phase = ChainPhase(Gibbs(), start="persistent", n_steps=self.n_steps)
        return Parts(phase, SGD(self.momentum, self.alpha, self.penalty))
