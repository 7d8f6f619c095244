"""Kinds of visible and hidden units."""

from ._base import Theta, Unit, log_weight
from ._binary import Bernoulli, Fractional, Spin
from ._categorical import Categorical
from ._columns import ColumnUnits, joined
from ._counts import Binomial, Multinomial, Poisson
from ._gaussian import Gaussian
from ._interval import TruncatedGaussBernoulli, TruncatedGaussian
from ._relu import DoubleReLU, ReLU
from ._spiked import SpikedGaussian

UNITS = {
    "bernoulli": Bernoulli,
    "binomial": Binomial,
    "double_relu": DoubleReLU,
    "gaussian": Gaussian,
    "relu": ReLU,
    "spin": Spin,
    "truncated_gauss_bernoulli": TruncatedGaussBernoulli,
    "truncated_gaussian": TruncatedGaussian,
}

__all__ = [
    "Bernoulli",
    "Binomial",
    "Categorical",
    "ColumnUnits",
    "DoubleReLU",
    "Fractional",
    "Gaussian",
    "Multinomial",
    "Poisson",
    "ReLU",
    "SpikedGaussian",
    "Spin",
    "Theta",
    "TruncatedGaussBernoulli",
    "TruncatedGaussian",
    "Unit",
]
