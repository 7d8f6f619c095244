"""Warnings and errors."""


class DataRangeWarning(UserWarning):
    """Data outside the range of the visible units."""


class LikelihoodWarning(UserWarning):
    """Uncertain estimate of log Z or of a log-likelihood."""


class DistributedError(RuntimeError):
    """A fit on several ranks ended because another rank failed; the last parameters are kept."""


class DivergenceError(ArithmeticError):
    """Parameters diverged or a density cannot be normalized; the last good parameters are kept."""
