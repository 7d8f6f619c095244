"""Machines with Gaussian visible and binary hidden units."""

from ._estimator import GaussianBernoulliRBM

__all__ = ["GaussianBernoulliRBM"]
