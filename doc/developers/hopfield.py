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
        self._store(locals())

    def _units(self):
        return Bernoulli(), Gaussian()
