"""The estimators."""

from ._bernoulli_rbm import BernoulliRBM
from ._conditional_rbm import ConditionalRBM
from ._deep_tap_machine import DeepTAPMachine
from ._frank_wolfe_rbm import FrankWolfeRBM
from ._gaussian_bernoulli_rbm import GaussianBernoulliRBM
from ._tap_rbm import TAPRBM

__all__ = [
    "TAPRBM",
    "BernoulliRBM",
    "ConditionalRBM",
    "DeepTAPMachine",
    "FrankWolfeRBM",
    "GaussianBernoulliRBM",
]
