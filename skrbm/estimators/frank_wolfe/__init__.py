"""Infinite machines, whose number of hidden units is learnt."""

from ._estimator import FrankWolfeRBM

__all__ = ["FrankWolfeRBM"]
