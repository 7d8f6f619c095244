"""Data and parameters that users give: checks, and machines made of arrays."""

from ._arrays import LAYER_ATTRIBUTES, THETA_ATTRIBUTES, layers_from, machine_from, parameter
from ._coordinates import Coordinates, filled
from ._rows import (
    Rows,
    canonical,
    check_data,
    check_held,
    check_known,
    check_range,
    check_rows,
    ends_of_ranks,
    into_support,
    split_missing,
    warn_clipped,
)
from ._weights import DistinctRows, check_weights, distinct_rows, rows_of_epoch, rows_with_weight

__all__ = [
    "LAYER_ATTRIBUTES",
    "THETA_ATTRIBUTES",
    "Coordinates",
    "DistinctRows",
    "Rows",
    "canonical",
    "check_data",
    "check_held",
    "check_known",
    "check_range",
    "check_rows",
    "check_weights",
    "distinct_rows",
    "ends_of_ranks",
    "filled",
    "into_support",
    "layers_from",
    "machine_from",
    "parameter",
    "rows_of_epoch",
    "rows_with_weight",
    "split_missing",
    "warn_clipped",
]
