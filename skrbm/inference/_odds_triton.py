"""Sweeps of belief propagation on a GPU as kernels in Triton, which comes with torch.

If a sweep runs as separate operations, it reads and writes all messages a dozen times, and starts
dozens of operations. Here one kernel does all sweeps: messages are read and written once per sweep,
and their logarithms are added up in registers. An instance is handled by one program, or by several
if there are few instances: each of these has the messages of some hidden units, and they wait for
each other once per sweep.
"""

from contextlib import nullcontext
from functools import cache

import torch
import triton
import triton.language as tl

from ._belief_propagation import LARGE, Messages
from ._odds import Odds

_MOST_UNITS = 8192  # of a layer: a whole row of messages is in registers at once
_TILE = 4096  # messages that are updated at a time, in rows with one per visible unit
_MOST_ROWS = 64  # of a tile
_OF_A_THREAD = 32  # messages per thread
_REGISTERS = 128  # per thread, so that a processor runs several programs
_ALL_REGISTERS = 65_536  # per processor
# Messages that are multiplied before a logarithm is taken, as the largest weights of a dtype allow.
_FACTORS = {torch.float32: 4, torch.float64: 2}
_PAIRS = (8, 128)  # hidden and visible units whose pairs one program sums
_PROGRAMS = 2048  # that keep a GPU busy


@triton.jit
def _product(a, b):
    return a * b


@triton.jit
def _answer(R, E, s, WAY: tl.constexpr):
    """Return the replies to the messages R, by the ``way`` of a class of ``_odds``."""
    t = R * s
    if WAY == 0:
        t = (t + E) / (t + 1)
    elif WAY == 1:
        t = tl.maximum(t, E) / tl.maximum(t, 1)
    else:
        t = tl.where(s < 1, E, tl.full(E.shape, 1, E.dtype))
    return t


@triton.jit
def _against(belief, limit, dtype: tl.constexpr):
    """Return the odds against 1, as ``Odds.against`` does."""
    belief = tl.minimum(tl.maximum(belief, -limit), limit)
    if dtype == tl.float32:  # exp in float64 takes as long as everything else
        power = belief * -1.4426950408889634
        whole = tl.floor(power)
        against = tl.exp2((power - whole).to(dtype)) * tl.exp2(whole.to(dtype))
    else:
        against = tl.exp(-belief)
    return against


@triton.jit
def _settled(belief, old_belief, old_mean, inside, large, KEEP: tl.constexpr):
    """Return new beliefs and means, the largest change of a belief and squared changes of means."""
    mean = 1 / (1 + tl.exp(-belief))
    if KEEP > 0:
        belief = KEEP * old_belief + (1 - KEEP) * belief
        mean = KEEP * old_mean + (1 - KEEP) * mean
    moved = tl.abs(belief - old_belief) / tl.maximum(tl.abs(belief), large)
    change = tl.where(inside, mean - old_mean, 0.0)
    return belief, mean, tl.max(tl.where(inside, moved, 0.0)), tl.sum(change * change)


@triton.jit
def _sweep(
    R, E, beliefs, means, b, c, hidden, n_iter, residual, sums, counts,
    n_visible, n_hidden, n_sweeps, n_new, n_parts, n_own, limit, tol, large,
    KEEP: tl.constexpr, TO_HIDDEN: tl.constexpr, TO_VISIBLE: tl.constexpr,
    ROWS: tl.constexpr, FACTORS: tl.constexpr, OF_ROWS: tl.constexpr,
    N: tl.constexpr, M: tl.constexpr, IS_SPLIT: tl.constexpr,
):  # fmt: skip
    """Sweep over the messages of an instance, or of a part of it, until it has converged.

    Parts are numbered in the order in which they start. So those of an instance start one after the
    other, and none waits for one that cannot start.
    """
    number = tl.program_id(0)
    if IS_SPLIT:
        number = tl.atomic_add(counts, 1)
    instance, part, n = (number // n_parts).to(tl.int64), number % n_parts, n_visible + n_hidden
    R += instance * n_hidden * n_visible
    beliefs += instance * n
    means += instance * n
    c += instance * n_hidden
    hidden += instance * 2 * n_hidden
    sums += instance * 2 * n_parts * n_visible
    counts += instance + 1
    dtype: tl.constexpr = R.dtype.element_ty
    j, i = tl.arange(0, N), tl.arange(0, M)
    is_visible, is_hidden = j < n_visible, i < n_hidden
    b_v = tl.load(b + instance * n_visible + j, mask=is_visible, other=0.0)
    belief_v = tl.load(beliefs + j, mask=is_visible, other=0.0)
    mean_v = tl.load(means + j, mask=is_visible, other=0.5)
    belief_h = tl.load(beliefs + n_visible + i, mask=is_hidden, other=0.0)
    mean_h = tl.load(means + n_visible + i, mask=is_hidden, other=0.5)
    moved, n_done = tl.full([], float("inf"), tl.float64), 0
    end = tl.minimum((part + 1) * n_own, n_hidden)
    while (n_done < n_sweeps) & ((moved > tol) | (moved != moved)):
        s = _against(belief_v, limit, dtype)[None, :]
        logs = tl.zeros([N], tl.float64)
        half = n_done % 2  # memory that parts still in the last sweep do not read
        for first in range(part * n_own, end, ROWS):
            row = first + tl.arange(0, ROWS)
            is_row = row < end
            place = row[:, None] * n_visible + j[None, :]
            inside = is_row[:, None] & is_visible[None, :]
            odds = tl.load(E + place, mask=inside, other=1.0)
            if n_done < n_new:
                m = tl.load(means + n_visible + row, mask=is_row, other=0.0).to(dtype)[:, None]
                old = (1 - m) + m * odds
            else:
                old = tl.load(R + place, mask=inside, other=1.0)
            sent = _answer(old, odds, s, TO_HIDDEN)
            parts = tl.reduce(tl.reshape(sent, [ROWS, N // FACTORS, FACTORS]), 2, _product)
            belief = tl.load(c + row, mask=is_row, other=0.0)
            belief += tl.sum(tl.log(parts).to(tl.float64), 1)
            tl.store(hidden + half * n_hidden + row, belief, mask=is_row)
            new = _answer(sent, odds, _against(belief, limit, dtype)[:, None], TO_VISIBLE)
            parts = tl.reduce(tl.reshape(new, [ROWS // OF_ROWS, OF_ROWS, N]), 1, _product)
            logs += tl.sum(tl.log(parts).to(tl.float64), 0)
            if KEEP > 0:
                new = KEEP * old + (1 - KEEP) * new
            tl.store(R + place, new, mask=inside)
        if IS_SPLIT:
            here = sums + half * n_parts * n_visible + j
            tl.store(here + part * n_visible, logs, mask=is_visible)
            tl.debug_barrier()
            arrived = tl.atomic_add(counts, 1) + 1
            while arrived < (n_done + 1) * n_parts:
                arrived = tl.atomic_add(counts, 0)
            tl.debug_barrier()
            logs = tl.zeros([N], tl.float64)
            for other in range(n_parts):
                logs += tl.load(
                    here + other * n_visible, mask=is_visible, other=0.0, cache_modifier=".cg"
                )
        tl.debug_barrier()
        new_h = tl.load(
            hidden + half * n_hidden + i, mask=is_hidden, other=0.0, cache_modifier=".cg"
        )
        belief_v, mean_v, most_v, sum_v = _settled(
            b_v + logs, belief_v, mean_v, is_visible, large, KEEP
        )
        belief_h, mean_h, most_h, sum_h = _settled(new_h, belief_h, mean_h, is_hidden, large, KEEP)
        most = tl.maximum(most_v, most_h)
        moved = tl.maximum((sum_v + sum_h) / n, most * most)
        n_done += 1
        tl.debug_barrier()
    if part == 0:
        tl.store(beliefs + j, belief_v, mask=is_visible)
        tl.store(means + j, mean_v, mask=is_visible)
        tl.store(beliefs + n_visible + i, belief_h, mask=is_hidden)
        tl.store(means + n_visible + i, mean_h, mask=is_hidden)
        tl.store(residual + instance, moved)
        tl.store(n_iter + instance, n_done)


@triton.jit
def _sum_pairs(
    R, E, beliefs, total, n, n_visible, n_hidden, n_of_a_part, limit,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Sum E[h] E[v | h = 1] over some instances."""
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    j = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    part = tl.program_id(2)
    is_row, is_column = i < n_hidden, j < n_visible
    place, inside = i[:, None] * n_visible + j[None, :], is_row[:, None] & is_column[None, :]
    odds = tl.load(E + place, mask=inside, other=1.0)
    pairs = tl.zeros([ROWS, COLUMNS], tl.float64)
    for instance in range(part * n_of_a_part, tl.minimum(n, (part + 1) * n_of_a_part)):
        at = tl.cast(instance, tl.int64)
        sent = tl.load(R + at * n_hidden * n_visible + place, mask=inside, other=1.0)
        own = beliefs + at * (n_visible + n_hidden)
        visible = tl.load(own + j, mask=is_column, other=0.0)
        hidden = tl.load(own + n_visible + i, mask=is_row, other=0.0)
        mean = (1 / (1 + tl.exp(-hidden))).to(odds.dtype)[:, None]
        against = _against(visible, limit, odds.dtype)[None, :]
        pairs += (mean / (sent * against + odds)).to(tl.float64)
    tl.store(total + part.to(tl.int64) * n_hidden * n_visible + place, pairs * odds, mask=inside)


def can_sweep(odds):
    """Whether these kernels can do sweeps with these odds."""
    return max(odds.E.shape) <= _MOST_UNITS and _works(odds.E.device)


@cache
def _works(device):
    """Whether kernels can be built, which also needs a C compiler."""
    x = torch.zeros((1, 1), device=device, dtype=torch.float64)
    odds = Odds(x, "sum", 0.0)
    try:
        swept(odds, started(x, x, x), x, x, 1, 0.0, 0.0)
    except Exception:  # those of Triton, the driver and the compiler share no base class
        return False
    return True


def started(visible, hidden, means):
    """Return the state before the first sweep, with the messages of hidden ``means``."""
    both = torch.concat((torch.sigmoid(visible), means), 1)
    return Messages((both,), (None,), None, (torch.concat((visible, hidden), 1),))


def swept(odds, state, b, c, n_sweeps, tol, damping):
    """Return state, n_iter and residual after sweeps; converged instances no longer change.

    The state has both layers in one array, like that of :func:`started`, and is overwritten.
    """
    is_new, E = state.odds is None, odds.E.contiguous()
    beliefs, means, b, c = (x.contiguous() for x in (*state.beliefs, *state.means, b, c))
    (n_hidden, n_visible), (n, _) = E.shape, beliefs.shape
    R = E.new_empty((n, n_hidden, n_visible)) if is_new else state.odds.contiguous()
    width, height = (max(16, 1 << (k - 1).bit_length()) for k in (n_visible, n_hidden))
    n_rows = min(max(_TILE // width, 1), _MOST_ROWS)
    n_warps = min(max(n_rows * width // (32 * _OF_A_THREAD), 1), 16)
    n_own = _n_of(n_hidden, _n_parts(R, n_rows, n_warps))
    n_own = _n_of(n_own, n_rows) * n_rows
    n_parts = _n_of(n_hidden, n_own)
    n_iter, residual = beliefs.new_empty((2, n))
    hidden, sums = b.new_empty((n, 2, n_hidden)), b.new_empty((n, 2, n_parts, n_visible))
    counts = torch.zeros(n + 1, dtype=torch.int32, device=R.device)
    to_hidden, to_visible = odds.product
    factors = _FACTORS[R.dtype]
    more = {} if torch.version.hip else {"maxnreg": _REGISTERS}
    with _on(R):
        _sweep[n * n_parts,](
            R, E, beliefs, means, b, c, hidden, n_iter, residual, sums, counts,
            n_visible, n_hidden, n_sweeps, int(is_new), n_parts, n_own, odds.limit, tol, LARGE,
            KEEP=damping, TO_HIDDEN=to_hidden.way, TO_VISIBLE=to_visible.way,
            ROWS=n_rows, FACTORS=factors, OF_ROWS=min(factors, n_rows), N=width, M=height,
            IS_SPLIT=n_parts > 1, num_warps=n_warps, **more,
        )  # fmt: skip
    return Messages((means,), (None,), R, (beliefs,)), n_iter, residual


def _n_of(whole, part):
    """Return the number of parts in a whole; Triton's own function takes ten times as long."""
    return -(-whole // part)


def _n_parts(R, n_rows, n_warps):
    """Return the number of parts per instance with which all processors have work."""
    (n, n_hidden, _), n_at_once = R.shape, 1
    if R.is_cuda and not torch.version.hip:
        n_processors = torch.cuda.get_device_properties(R.device).multi_processor_count
        n_at_once = n_processors * (_ALL_REGISTERS // (_REGISTERS * 32 * n_warps))
    return max(1, min(n_at_once // n, _n_of(n_hidden, n_rows)))


def pairs(odds, R, beliefs):
    """Return the sum over instances of E[h v] in sum-product, of shape (n_hidden, n_visible).

    R are messages to the visible units, and ``beliefs`` those of the visible and hidden units in
    one array.
    """
    (n, n_hidden, n_visible), E = R.shape, odds.E.contiguous()
    tiles = _n_of(n_hidden, _PAIRS[0]), _n_of(n_visible, _PAIRS[1])
    n_of_a_part = _n_of(n, min(n, _n_of(_PROGRAMS, tiles[0] * tiles[1])))
    n_parts = _n_of(n, n_of_a_part)
    total = torch.empty((n_parts, *E.shape), dtype=torch.float64, device=R.device)
    with _on(R):
        _sum_pairs[*tiles, n_parts](
            R, E, beliefs.contiguous(), total, n, n_visible, n_hidden, n_of_a_part, odds.limit,
            ROWS=_PAIRS[0], COLUMNS=_PAIRS[1], num_warps=4,
        )  # fmt: skip
    return torch.sum(total, 0).to(R.dtype)


def _on(R):
    """Return the context of the device of an array, which Triton does not look up itself."""
    return torch.cuda.device(R.device) if R.is_cuda else nullcontext()
