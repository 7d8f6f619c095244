"""When training ends before its last epoch."""

from dataclasses import dataclass, replace

from .._checks import check_count, check_number
from .._params import HyperParameters, plain

_SHARE, _LEAST = 0.1, 5  # patience, as a fraction of the epochs, and in epochs at least


@dataclass(frozen=True)
class EarlyStopping(HyperParameters):
    """Stop when the validation score no longer improves, and keep the best parameters.

    Parameters
    ----------
    patience : int or None, default=None
        Training stops after this many epochs in a row without an improvement, at the next epoch
        whose score is measured. None is a tenth of the epochs, but at least 5, since scores of real
        columns may stagnate for a while before they improve again.
    validation_fraction : float in (0, 1), default=0.1
        Fraction of the rows that is held out for validation.
    tol : float or None, default=None
        Smallest improvement that counts, of the log-likelihood in nats per row or, for
        :class:`skrbm.ConditionalRBM`, of the error. None is 0.01 nats, or 0 for errors. The
        standard error of the difference from the best epoch is subtracted from this threshold.
    """

    patience: int | None = None
    validation_fraction: float = 0.1
    tol: float | None = None

    def __post_init__(self):
        check_count("patience", self.patience, 1, or_none=True)
        check_number("validation_fraction", self.validation_fraction, above=0, below=1)
        check_number("tol", self.tol, at_least=0, or_none=True)

    @classmethod
    def of(cls, given, n_iter, tol):
        """Return the rule behind a parameter ``early_stopping``; None if it is False.

        A ``patience`` of None becomes that of a fit with ``n_iter`` epochs, and a ``tol`` of None
        the given one.
        """
        if not given:
            return None
        rule = plain(given) if isinstance(given, cls) else cls()
        patience = max(_LEAST, int(_SHARE * n_iter)) if rule.patience is None else rule.patience
        return replace(rule, patience=patience, tol=tol if rule.tol is None else rule.tol)
