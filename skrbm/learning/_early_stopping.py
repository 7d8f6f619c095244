"""When training ends before its last epoch."""

from dataclasses import dataclass, replace

from .._checks import check_count, check_number
from .._params import HyperParameters, plain


@dataclass(frozen=True)
class EarlyStopping(HyperParameters):
    """Stop when the validation score no longer improves, and keep the best parameters.

    Parameters
    ----------
    patience : int, default=5
        Epochs in a row without an improvement after which training stops. Epochs in which nothing
        is measured do not count.
    validation_fraction : float in (0, 1), default=0.1
        Part of the rows that is held out for validation.
    tol : float or None, default=None
        Smallest improvement that counts: of the log-likelihood, in nats per row, or for
        :class:`skrbm.ConditionalRBM` of the error. None is 0.01 nats, and 0 for errors.
    """

    patience: int = 5
    validation_fraction: float = 0.1
    tol: float | None = None

    def __post_init__(self):
        check_count("patience", self.patience, 1)
        check_number("validation_fraction", self.validation_fraction, above=0, below=1)
        check_number("tol", self.tol, at_least=0, or_none=True)

    @classmethod
    def of(cls, given, **usual):
        """Return the rule behind a parameter ``early_stopping``; None if it is False.

        ``usual`` are the values of True, and of a ``tol`` that is None.
        """
        if isinstance(given, cls):
            given = plain(given)
            return replace(given, tol=usual["tol"]) if given.tol is None else given
        return cls(**usual) if given else None
