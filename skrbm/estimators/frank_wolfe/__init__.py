"""RBMs whose number of hidden units is learned."""

from ._estimator import FrankWolfeRBM

__all__ = ["FrankWolfeRBM"]
