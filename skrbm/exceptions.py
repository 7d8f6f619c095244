"""Warnings and errors of skrbm."""


class DataRangeWarning(UserWarning):
    """The data lie outside what the visible units can represent."""


class LikelihoodWarning(UserWarning):
    """A log-likelihood rests on an estimate of log Z that is uncertain."""


class DistributedError(RuntimeError):
    """A fit of several ranks has ended because of another rank. The last good parameters stay."""


class DivergenceError(ArithmeticError):
    """Values are not finite, or a density has no integral. The last good parameters are kept."""
