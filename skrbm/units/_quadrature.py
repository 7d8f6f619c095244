"""Tables of Gauss-Legendre quadrature, for the integrals of truncated distributions."""

from functools import cache
from typing import NamedTuple

import numpy as np


class Rule(NamedTuple):
    """Gauss-Legendre rule on [0, 1], and how far the logarithm of the density is followed."""

    order: int
    two_sided: float  # fall from a peak inside, on each side
    one_sided: float  # fall from a peak at the end
    fine: int  # order for samples: the polynomial through the nodes converges at half the rate
    panels: int  # equal parts of [0, 1] in which the distribution function is inverted
    newton: int

    @property
    def moments(self):
        """Rows for products with the density at the nodes: integral, and moments.

        First and second moments are about 0 and about 1/2: that nearer to the mean is used, which
        loses no digits.
        """
        v, w = nodes(self.order)
        return np.stack([w, w * v, w * v**2, w * (v - 0.5), w * (v - 0.5) ** 2])

    @property
    def high_moments(self):
        """The same up to the fourth."""
        v, w = nodes(self.order)
        about_0, about_half = ([w * (v - u) ** k for k in range(1, 5)] for u in (0.0, 0.5))
        return np.stack([w, *about_0, *about_half])

    @property
    def powers(self):
        """Columns for products with the coefficients A, B, C of a piece: the exponents."""
        v, _ = nodes(self.order)
        return np.stack([v, -(v**2), np.ones_like(v)], axis=1)

    @property
    def cumulative(self):
        """Integrals from 0 to the ends of the panels of the polynomial through the nodes."""
        u, w = np.polynomial.legendre.leggauss(self.order)
        ends = 2 * np.arange(1, self.panels + 1) / self.panels - 1
        at_ends = np.polynomial.legendre.legvander(ends, self.order)
        integrals = at_ends[:, 1:] - np.pad(at_ends[:, :-2], ((0, 0), (1, 0)))
        integrals[:, 0] = ends + 1
        return 0.25 * integrals @ (np.polynomial.legendre.legvander(u, self.order - 1).T * w)


DOUBLE = Rule(order=36, two_sided=30.0, one_sided=42.0, fine=44, panels=16, newton=2)
SINGLE = Rule(order=18, two_sided=15.0, one_sided=24.0, fine=30, panels=8, newton=2)


@cache
def nodes(order):
    """Return nodes and weights on [0, 1]."""
    u, w = np.polynomial.legendre.leggauss(order)
    return 0.5 * (u + 1), 0.5 * w


@cache
def table(rule, name, dtype):
    """Return a property of a rule in a dtype."""
    return getattr(rule, name).astype(dtype)
