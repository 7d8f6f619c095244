from typing import ClassVar

from skrbm.estimators._base import BaseRBM
from skrbm.estimators._shared import shares_parameters
from skrbm.units import Bernoulli, Gaussian


@shares_parameters
class HopfieldRBM(BaseRBM):
    """Binary visible and Gaussian hidden units, by persistent contrastive divergence."""

    _optimizer_defaults: ClassVar[dict] = {"alpha": 0.0, "schedule": "constant"}

    def __init__(
        self,
        n_components=256,
        *,
        inference="pcd",
        optimizer="sgd",
        learning_rate=0.1,
        batch_size=100,
        n_iter=20,
        early_stopping=False,
        init="random",
        warm_start=False,
        verbose=0,
        random_state=None,
    ):
        self.n_components = n_components
        self.inference = inference
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.n_iter = n_iter
        self.early_stopping = early_stopping
        self.init = init
        self.warm_start = warm_start
        self.verbose = verbose
        self.random_state = random_state

    def _units(self):
        return Bernoulli(), Gaussian()
