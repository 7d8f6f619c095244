"""The estimators."""

from ._bernoulli_rbm import BernoulliRBM
from ._categorical_rbm import CategoricalRBM
from ._deep_tap_machine import DeepTAPMachine
from ._gaussian_bernoulli_rbm import GaussianBernoulliRBM
from ._rating_rbm import RatingRBM
from ._rbm import RBM
from ._rbm_classifier import RBMClassifier
from ._rbm_imputer import RBMImputer
from ._rbm_outlier_detector import RBMOutlierDetector
from ._replicated_softmax_rbm import ReplicatedSoftmaxRBM
from ._tabular_rbm import TabularRBM
from ._tap_rbm import TAPRBM
from .conditional import ConditionalRBM
from .frank_wolfe import FrankWolfeRBM

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
]
