"""Warnings and errors of skrbm."""


class DataRangeWarning(UserWarning):
    """The data lie outside what the visible units can represent."""


class DivergenceError(ArithmeticError):
    """Training produced values that are not finite; the last finite parameters are kept."""
