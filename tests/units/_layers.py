"""Kinds of units for the tests of the contract, and the distributions of their columns.

A layer has seven columns. Those of a mixed layer each have the distribution of their own kind.
"""

import numpy as np
from _documented import Ternary
from _exact import Counts, Line, groups, kinds
from scipy.special import logsumexp

from skrbm.units import (
    UNITS,
    Bernoulli,
    Binomial,
    Categorical,
    ColumnUnits,
    DoubleReLU,
    Gaussian,
    Poisson,
    Spin,
    Theta,
    TruncatedGaussBernoulli,
)

N_UNITS = 7
KINDS = {
    **UNITS,
    "categorical": lambda: Categorical((3, 4)),
    "columns": lambda: ColumnUnits(
        [
            (Bernoulli(), [4]),
            (Gaussian(), [0, 5]),
            (TruncatedGaussBernoulli(), [1]),
            (Spin(), [6]),
            (DoubleReLU(), [2, 3]),
        ]
    ),
    "columns with categories": lambda: ColumnUnits(
        [(Spin(), 1), (Gaussian(), 1), (Categorical((2, 3)), 5)]
    ),
    "discrete columns": lambda: ColumnUnits(
        [(Bernoulli(), [1, 5]), (Categorical(3), [2, 3, 4]), (Spin(), [0, 6])]
    ),
    "poisson": Poisson,
    "unit of the guide": Ternary,
}


class Sum:
    """The law exp(theta . statistics(x)) on a finite support."""

    def __init__(self, field, precision, values, spike):
        x = np.array(values)
        log_weights = field * x - 0.5 * precision * x**2
        if spike is not None:
            log_weights = log_weights + spike * (x != 0)
        self.log_z, self.points = logsumexp(log_weights), x
        self.probabilities = np.exp(log_weights - self.log_z)
        self.mean = self.probabilities @ x
        self.variance = self.probabilities @ (x - self.mean) ** 2


def kind_of(unit, column):
    """The kind of one column of a layer."""
    ((kind, _),) = (pair for pair in kinds(unit, N_UNITS) if column in pair[1])
    return kind


def has(unit, statistic):
    """Which columns have a statistic of their own."""
    return np.concatenate([column_has(unit, statistic, i) for i in range(N_UNITS)])


def column_has(unit, statistic, column):
    kind = kind_of(unit, column)
    n = 1 if kind.has_variances else N_UNITS  # a category has a field alone
    if n > 1:
        return [statistic == "field"]
    return [getattr(kind.default_theta(1, np.zeros(1)), statistic) is not None]


def own_theta(unit, theta, column):
    """The parameters of one column of a layer, with the statistics that it has; numbers."""
    parts = zip(Theta._fields, theta, strict=True)
    return Theta(*(float(p[column]) if column_has(unit, s, column)[0] else None for s, p in parts))


def law_of(unit, theta, column, field=0.0, precision=0.0):
    """The law of one column of a layer, with a field and a precision added."""
    own = own_theta(unit, theta, column)
    precision += own.precision or 0.0
    return law(kind_of(unit, column), own.field + field, precision, *own[2:5])


def law(unit, field, precision=0.0, spike=None, absolute=None, skew=None):
    if isinstance(unit, Binomial | Poisson):
        return Counts(unit, field, precision)
    if unit.values is not None:
        return Sum(field, precision, unit.values, spike)
    return Line(field, precision, unit.bounds, spike, absolute, skew)


class Bit:
    """One column of a group: 1 with a probability."""

    def __init__(self, probability):
        self.points, self.mean = np.array([0.0, 1.0]), probability
        self.probabilities = np.array([1 - probability, probability])
        self.variance = probability * (1 - probability)


def sites(unit):
    """The columns of each group or, where columns are independent, column, in order."""
    found = []
    for kind, columns in kinds(unit, N_UNITS):
        local = groups(kind, len(columns)) or np.arange(len(columns))[:, None]
        found += [columns[site] for site in local]
    return sorted(found, key=lambda site: site[0])


def log_partitions(unit, theta):
    """The log-partition function of each group, or of each unit where columns are independent."""
    return [
        law_of(unit, theta, *site).log_z
        if len(site) == 1
        else logsumexp(theta.field[site].astype(np.float64))
        for site in sites(unit)
    ]


def laws(unit, theta):
    """One law for each column of a theta of one dimension, from its rounded parameters."""
    found = []
    for site in sites(unit):
        if len(site) == 1:
            found.append((site[0], law_of(unit, theta, site[0])))
        else:
            field = theta.field[site].astype(np.float64)
            probabilities = np.exp(field - logsumexp(field))
            found += zip(site, map(Bit, probabilities), strict=True)
    return [line for _, line in sorted(found, key=lambda pair: pair[0])]
