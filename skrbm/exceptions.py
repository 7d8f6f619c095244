"""Warnings and errors."""


class DataRangeWarning(UserWarning):
    """Data outside the range of the visible units."""


class LikelihoodWarning(UserWarning):
    """A log-likelihood is based on an uncertain estimate of log Z."""


class DistributedError(RuntimeError):
    """A fit on several ranks has ended because of another rank; the last parameters are kept."""


class DivergenceError(ArithmeticError):
    """Values are not finite, or a density cannot be normalized; the last parameters are kept."""
