"""Gaussian units."""

import math
from dataclasses import dataclass

import numpy as np

from .._checks import check_number, look_up
from ..arrays import (
    cast,
    cholesky,
    inverse_factor,
    is_finite,
    like,
    matmul,
    namespace,
    require,
    row_sums,
    to_numpy,
    weighted_sum,
)
from ._base import Theta, Unit

_ROUNDING = 1e-12  # part of the mean that is no deviation, in float64
_SMALLEST = 1e-2  # eigenvalue of correlations of pairs of columns
_LEAST_SHRINKAGE = 1e-5  # of correlations, so that columns may depend on each other exactly


@dataclass(frozen=True)
class Gaussian(Unit):
    """Unit on the real line with distribution exp(field * x - precision * x**2 / 2).

    With ``covariance="full"`` the columns of a visible layer have the distribution
    exp(field' x - x' P x / 2), with one precision matrix P for all hidden states. The hidden
    units then need not describe linear correlations.

    A column that is constant in training gets the median standard deviation of the others, but at
    least the absolute value of its constant (1 if that is 0), so that other values have a sensible
    density.

    Parameters
    ----------
    min_precision : float, default=1e-6
        Lower bound on the precision of the units during training, in the coordinates of training
        (standardized columns). With a full covariance it bounds the eigenvalues of the precision
        matrix.
    covariance : {"diag", "full"}, default="diag"
        Whether columns are independent given the hidden units, or share a precision matrix.
    """

    min_precision: float = 1e-6
    covariance: str = "diag"
    is_gaussian = True
    has_precision = True
    has_central_moments = True

    def __new__(cls, min_precision=1e-6, covariance="diag"):
        return object.__new__(_FullGaussian if cls is Gaussian and covariance == "full" else cls)

    def __post_init__(self):
        check_number("min_precision", self.min_precision, above=0)
        look_up("covariance", self.covariance, {"diag": None, "full": None})

    def log_partition(self, theta):
        self.check_proper(theta)
        xp = namespace(theta.field)
        quadratic = theta.field * theta.field / theta.precision
        return 0.5 * (quadratic - xp.log(theta.precision)) + 0.5 * math.log(2 * math.pi)

    def mean(self, theta):
        return theta.field / theta.precision

    def tail_precision(self, theta):
        return theta.precision

    def mean_variance(self, theta):
        self.check_proper(theta)
        mean = self.mean(theta)
        return mean, namespace(mean).ones_like(mean) / theta.precision

    def central_moments(self, theta):
        mean, variance = self.mean_variance(theta)
        return mean, variance, namespace(mean).zeros_like(mean), 3 * variance * variance

    def mode(self, theta):
        return self.mean(theta)

    def sample(self, theta, rng):
        noise = rng.normal(theta.field.shape)
        noise /= namespace(noise).sqrt(theta.precision)
        noise += self.mean(theta)
        return noise

    def initial_theta(self, columns):
        mean = columns.means
        precision = 1 / _usual_variances(mean, columns.variances)
        return Theta(mean * precision, precision)

    def base_theta(self, theta, columns):
        # A marginal variance is no smaller than that given the hidden units; that of few rows is.
        mean, variance = columns.means, columns.variances
        own = 1 / cast(theta.precision, variance.dtype)
        precision = 1 / namespace(mean).maximum(variance, own)
        return Theta(mean * precision, precision)

    def project(self, theta):
        precision = namespace(theta.field).clip(theta.precision, self.min_precision, None)
        return Theta(theta.field, precision)


class _FullGaussian(Gaussian):
    """Real columns that are normal with one precision matrix.

    R is lower triangular with R' R = P^-1. In the coordinates u with x = R' u columns are
    independent and have unit variance, and log-partition functions are those of these columns.
    """

    is_gaussian = False  # of each column alone
    is_joint = True
    takes_precision = False
    has_further = True
    has_central_moments = False
    alternative = "inference 'gibbs', 'tempering' or 'naive_mean_field'"

    def __repr__(self):
        return super().__repr__().replace("_FullGaussian", "Gaussian", 1)

    def without_joint(self):
        return Gaussian(self.min_precision)

    def tilt(self, theta, field, precision=None):
        """Tilt the units; a precision must be one number for all columns and rows."""
        joint = theta.joint
        if precision is not None:
            if getattr(precision, "ndim", 0):
                raise ValueError(f"{self} units take no precisions; use {self.alternative}")
            joint = joint + precision * namespace(joint).eye(joint.shape[0], **like(joint))
        return Theta(field + theta.field, joint=joint)

    def _factor(self, theta):
        """Return R, or raise DivergenceError if the matrix is not positive definite."""
        R = inverse_factor(theta.joint)
        require(R[0, 0] == R[0, 0], self.divergence)
        return R

    def log_partition(self, theta):
        R = self._factor(theta)
        xp, u = namespace(R), matmul(theta.field, R.T)
        log_scales = xp.log(xp.linalg.diagonal(R))
        return 0.5 * (u * u) + (log_scales + 0.5 * math.log(2 * math.pi))

    def mean(self, theta):
        R = inverse_factor(theta.joint)
        return matmul(matmul(theta.field, R.T), R)

    def mean_variance(self, theta):
        R = self._factor(theta)
        mean = matmul(matmul(theta.field, R.T), R)
        return mean, namespace(R).sum(R * R, axis=0) + 0 * mean

    def further(self, theta):
        """Return minus half of the covariances, (n_rows, n, n) or (n, n)."""
        R = self._factor(theta)
        rows = theta.field.shape[:-1]
        return (namespace(R).broadcast_to(-0.5 * (R.T @ R), (*rows, *R.shape)),)

    def sample(self, theta, rng):
        R, noise = inverse_factor(theta.joint), rng.normal(theta.field.shape)
        noise += matmul(theta.field, R.T)
        return matmul(noise, R)

    def statistics(self, mean, variance=None, further=None):
        second = -0.5 * mean[..., :, None] * mean[..., None, :]
        return Theta(mean, joint=second if further is None else second + further[0])

    def total_statistics(self, weight, mean, variance=None, further=None):
        xp = namespace(mean)
        if getattr(weight, "ndim", 0):
            weighted = weight[:, None] * mean
            more = 0.0 if further is None else xp.tensordot(weight, further[0], axes=1)
        else:
            weighted = weight * mean
            more = 0.0 if further is None else weight * xp.sum(further[0], axis=0)
        joint = -0.5 * matmul(weighted.T, mean) + more
        return Theta(weighted_sum(weight, mean), joint=joint)

    def initial_theta(self, columns):
        """Return the normal distribution with the shrunk covariance of the columns."""
        R = inverse_factor(_shrunk_covariance(columns))
        joint = R.T @ R
        return Theta(joint @ _filled(columns.means), joint=joint)

    def base_theta(self, theta, columns):
        # A marginal covariance is no smaller than that given the hidden units, in any direction.
        mean, own = columns.means, theta.joint
        L = cholesky(cast(own, mean.dtype))
        scatter = columns.mean_products(lambda rows: (rows - mean) @ L)
        values, V = namespace(L).linalg.eigh(scatter)
        joint = L @ (V / namespace(L).clip(values, 1.0, None)) @ V.T @ L.T
        return Theta(joint @ mean, joint=joint)

    def default_theta(self, n, reference):
        xp = namespace(reference)
        zeros = xp.zeros(n, **like(reference))
        return Theta(zeros, joint=xp.eye(n, **like(reference)))

    def tail_precision(self, theta):
        return namespace(theta.joint).linalg.diagonal(theta.joint)

    def is_improper(self, theta):
        diagonal = namespace(theta.joint).linalg.diagonal(cholesky(theta.joint))
        return diagonal != diagonal

    def project(self, theta):
        if theta.joint is None:
            return theta
        one = namespace(theta.joint).eye(theta.joint.shape[0], **like(theta.joint))
        L = cholesky(theta.joint - self.min_precision * one)
        if bool(L[0, 0] == L[0, 0]):
            return theta
        xp, joint = namespace(theta.joint), 0.5 * (theta.joint + theta.joint.T)
        values, V = xp.linalg.eigh(joint)
        # Twice the floor, or rounding could lead below it again.
        joint = (V * xp.clip(values, 2 * self.min_precision, None)) @ V.T
        return Theta(theta.field, joint=0.5 * (joint + joint.T))


def _shrunk_covariance(columns):
    """Return the covariance matrix of columns, shrunk as much as their number of rows asks for.

    Correlations are shrunk (Ledoit and Wolf 2004), so that the result does not depend on units of
    measure. NaN is missing. Of data that are read in blocks variances alone are known.
    """
    if not hasattr(columns, "mean_products"):
        mean, variance = columns.means, columns.variances
        return _diagonal(_usual_variances(_filled(mean), _filled(variance)))
    counts = columns.mean_products(lambda rows: cast(rows == rows, rows.dtype))
    xp = namespace(counts)
    shares = xp.clip(xp.linalg.diagonal(counts), 1e-300, None)
    mean = columns.means_of(_filled) / shares
    variance = columns.means_of(lambda rows: _filled(rows - mean) ** 2) / shares
    scales = xp.sqrt(_usual_variances(mean, variance))

    def standard(rows):
        return _filled((rows - mean) / scales)

    products = columns.mean_products(standard) / xp.clip(counts, 1 / columns.n_rows, None)
    fourth = columns.means_of(lambda rows: row_sums(standard(rows) ** 2)[:, None] ** 2)[0]
    constant = cast(variance <= (_ROUNDING * mean) ** 2, products.dtype)
    products = products + _diagonal(constant)
    if not is_finite(products):
        raise ValueError(f"variances of X are too small for {products.dtype}; scale X")
    # Pairs have other rows in common than others, so that the least eigenvalues are noise.
    if bool(xp.any(counts < 1)):
        values, V = xp.linalg.eigh(products)
        shared = float(xp.mean(counts))
        noise = ((1 - shared) * counts.shape[0] / (shared * columns.n_rows)) ** 0.5
        raised = (V * xp.clip(values, max(_SMALLEST, noise), None)) @ V.T
        # This adds to the variances, which are known better than the correlations.
        ratios = xp.sqrt(xp.linalg.diagonal(products) / xp.linalg.diagonal(raised))
        products = ratios[:, None] * raised * ratios
    # The weight of the identity is that of sklearn.covariance.ledoit_wolf_shrinkage.
    diagonal, squares = xp.linalg.diagonal(products), float(xp.sum(products * products))
    apart = squares - float(xp.sum(diagonal)) ** 2 / products.shape[0]
    noise = (float(fourth) - squares) / columns.n_rows
    shrinkage = min(max(noise / apart, _LEAST_SHRINKAGE), 1.0) if apart > 0 else _LEAST_SHRINKAGE
    identity = shrinkage * xp.mean(diagonal) * _diagonal(xp.ones_like(scales))
    return scales[:, None] * ((1 - shrinkage) * products + identity) * scales


def deviations_of_constants(mean, deviation):
    """Return standard deviations for columns that are constant in training, whose own is 0.

    The median of the others, but no less than the size of the value, or 1 if that is 0. Constant
    columns tell nothing of their scale. One that is k times too large costs log k nats a row, the
    same for all rows; one that is k times too small costs a row with another value k**2 / 2.
    """
    xp, known = namespace(mean), to_numpy(deviation)
    median = float(np.median(known[known > 0])) if (known > 0).any() else 0.0
    size = xp.abs(mean)
    return xp.clip(xp.where(size > 0, size, xp.ones_like(size)), median, None)


def _usual_variances(mean, variance):
    """Return variances, with those of :func:`deviations_of_constants` where there is none."""
    xp = namespace(mean)
    varies = variance > (_ROUNDING * mean) ** 2
    known = xp.where(varies, variance, xp.zeros_like(variance))
    return xp.where(varies, variance, deviations_of_constants(mean, xp.sqrt(known)) ** 2)


def _diagonal(values):
    return values * namespace(values).eye(values.shape[0], **like(values))


def _filled(x):
    """Return an array with zeros for NaN."""
    xp = namespace(x)
    return xp.where(x == x, x, xp.zeros_like(x))
