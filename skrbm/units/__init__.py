"""Kinds of units: what a layer's variables are."""

from ._base import Theta, Unit, digits, log_weight
from ._bernoulli import Bernoulli
from ._categorical import Categorical
from ._column_units import ColumnUnits, joined
from ._counts import Binomial, Poisson
from ._fractional import Fractional
from ._gaussian import Gaussian
from ._multinomial import Multinomial
from ._relu import DoubleReLU, ReLU
from ._spin import Spin
from ._truncated import TruncatedGaussBernoulli, TruncatedGaussian

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
    "UNITS",
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
    "Spin",
    "Theta",
    "TruncatedGaussBernoulli",
    "TruncatedGaussian",
    "Unit",
    "digits",
    "joined",
    "log_weight",
]
