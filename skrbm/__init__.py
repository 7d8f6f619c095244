"""Restricted Boltzmann machines as scikit-learn estimators."""

from .estimators import (
    RBM,
    TAPRBM,
    BernoulliRBM,
    CategoricalRBM,
    ConditionalRBM,
    DeepTAPMachine,
    FrankWolfeRBM,
    GaussianBernoulliRBM,
    RatingRBM,
    RBMClassifier,
    RBMImputer,
    RBMOutlierDetector,
    ReplicatedSoftmaxRBM,
    TabularRBM,
)
from .persistence import trusted_types

__version__ = "0.1.0.dev0"

__all__ = [
    "RBM",
    "TAPRBM",
    "BernoulliRBM",
    "CategoricalRBM",
    "ConditionalRBM",
    "DeepTAPMachine",
    "FrankWolfeRBM",
    "GaussianBernoulliRBM",
    "RBMClassifier",
    "RBMImputer",
    "RBMOutlierDetector",
    "RatingRBM",
    "ReplicatedSoftmaxRBM",
    "TabularRBM",
    "__version__",
    "trusted_types",
]
