"""Models as units, parameters and weights; their energies and moments."""

from ._energy import (
    check_has_integral,
    coupling,
    difference,
    energy,
    free_energy,
    has_integral,
    in_double,
    interpolate,
    log_correction,
    log_ratio,
    may_lack_integral,
    precise_free_energy,
    uncoupled,
)
from ._enumeration import (
    MAX_UNITS,
    blocks_of_rows,
    can_enumerate,
    check_enumerable,
    configurations,
    enumerable_layers,
    log_partition,
    n_enumerated,
)
from ._gauge import zero_sum
from ._machine import (
    Machine,
    above_visible,
    condition,
    conditional,
    coupled,
    hidden_layers,
    input_field,
    is_per_row,
    turned_over,
)
from ._moments import Block, Moments, data_moments

__all__ = [
    "Block",
    "Machine",
    "Moments",
    "condition",
    "conditional",
    "configurations",
    "coupling",
    "data_moments",
    "energy",
    "enumerable_layers",
    "free_energy",
    "input_field",
    "interpolate",
    "log_partition",
]
