"""Machines of outputs given features."""

from ._estimator import ConditionalRBM

__all__ = ["ConditionalRBM"]
