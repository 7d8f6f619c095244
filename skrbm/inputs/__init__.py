"""Checks and encoding of data, rows with weights, and data read in blocks."""

from ._block_rows import BlockRows, rows_of
from ._blocks import CheckedBlocks, RowBlocks, as_blocks, find_blocks, is_dask, whole_rows
from ._categories import joined_values, one_hot
from ._check_data import (
    canonical,
    check_complete,
    check_data,
    check_held,
    check_known,
    check_range,
    check_rows,
    check_scale_known,
    into_support,
    labelled_columns,
)
from ._coordinates import Coordinates, filled, varies
from ._frames import (
    FrameOfNumbers,
    check_container,
    columns_of,
    in_library,
    is_frame,
    library_of,
    missing_values,
    with_values,
)
from ._parameters import (
    LAYER_ATTRIBUTES,
    THETA_ATTRIBUTES,
    layers_from,
    machine_from,
    parameter,
    public_parts,
    theta_of,
)
from ._ratings import Effects, SeenRows, rows_of_entries, seen_entries
from ._rows import (
    DistinctRows,
    Rows,
    check_weights,
    distinct_rows,
    ends_of_ranks,
    rows_of_epoch,
    rows_with_weight,
    scaled_weights,
    split_missing,
)
from ._tables import CategoryEncoder, TableEncoder

__all__ = ["BlockRows", "RowBlocks", "Rows", "as_blocks"]
