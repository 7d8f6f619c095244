"""Array libraries behind one interface: namespaces, products, random numbers and threads."""

from ._columns import (
    Columns,
    ColumnSummary,
    block_rows,
    dense,
    dense_rows,
    has_missing,
    joined_rows,
    last_rows,
    nonzero,
    row_blocks,
    sparse_rows,
    squared,
    take_columns,
    take_rows,
    value_range,
    weighted_sum,
)
from ._later import number, number_of, numbers, put_off, require
from ._namespace import (
    Array,
    Index,
    are_finite,
    as_like,
    below,
    can_replay,
    cast,
    copied,
    cumulative_sum,
    from_numpy,
    is_finite,
    is_foreign,
    is_on_device,
    is_sparse,
    is_torch,
    like,
    log_odds,
    log_products,
    log_sum_exp,
    namespace,
    parameter_reference,
    row_sums,
    sigmoid,
    softplus,
    softplus_sums,
    to_numpy,
    working_dtype,
)
from ._products import add_products, matmul
from ._random import CommonRng, Rng, make_rng, seed_sequence
from ._special import (
    cholesky,
    erfcx,
    gammaln,
    inverse_factor,
    main_directions,
    ndtri,
    solve_positive,
)
from ._threads import n_threads, one_blas_thread, share, split
