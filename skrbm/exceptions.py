"""Warnings and errors of skrbm."""


class DataRangeWarning(UserWarning):
    """The data lie outside what the visible units can represent."""


class DivergenceError(ArithmeticError):
    """Values are not finite, or a law has no integral; training keeps the last good parameters."""
