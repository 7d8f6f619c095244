"""Kinds of units: what a layer's variables are."""

from ._base import Theta, Unit, log_weight
from ._bernoulli import Bernoulli
from ._gaussian import Gaussian

UNITS = {"bernoulli": Bernoulli, "gaussian": Gaussian}

__all__ = ["UNITS", "Bernoulli", "Gaussian", "Theta", "Unit", "log_weight"]
