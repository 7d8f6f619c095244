"""Sweeps of belief propagation on a GPU as kernels, written in Triton, which torch brings.

By one operation after the other a sweep reads and writes all messages a dozen times, and starts
dozens of operations. Here it does the former once and starts two kernels.
"""

from contextlib import nullcontext
from functools import cache

import torch
import triton
import triton.language as tl

from ._belief_propagation import LARGE, Messages
from ._odds import Odds

_MOST_COLUMNS = 8192  # of the messages; a row of them is in registers at once
_ROWS = 16  # hidden units that one program answers, one after the other
_ELEMENTS = 256  # of a row for each group of 32 threads
# Messages that are multiplied before a logarithm is taken: the largest weights of a dtype allow it.
_FACTORS = {torch.float32: 4, torch.float64: 2}


@triton.jit
def _product(a, b):
    return a * b


@triton.jit
def _answer(R, E, s, WAY: tl.constexpr):
    """Return the messages that answer R, by the ``way`` of a class of ``_odds``."""
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
    return tl.exp(-tl.minimum(tl.maximum(belief, -limit), limit)).to(dtype)


@triton.jit
def _send(
    R, E, beliefs, c, hidden, total, residual, n_visible, n_hidden, n_blocks, limit, tol,
    KEEP: tl.constexpr, TO_HIDDEN: tl.constexpr, TO_VISIBLE: tl.constexpr,
    ROWS: tl.constexpr, FACTORS: tl.constexpr, N: tl.constexpr,
):  # fmt: skip
    """Answer the messages of some hidden units of an instance, and add up their logarithms."""
    instance, block = tl.program_id(0).to(tl.int64), tl.program_id(1)
    if tl.load(residual + instance) <= tol:
        return
    j = tl.arange(0, N)
    inside = j < n_visible
    dtype = R.dtype.element_ty
    beliefs += instance * (n_visible + n_hidden) + j
    s = _against(tl.load(beliefs, mask=inside, other=0.0), limit, dtype)
    logs = tl.zeros([N], tl.float64)
    for first in range(0, ROWS, FACTORS):
        factors = tl.full([N], 1, dtype)
        for k in tl.static_range(FACTORS):
            i = block * ROWS + first + k
            if i < n_hidden:
                place = R + (instance * n_hidden + i) * n_visible + j
                old = tl.load(place, mask=inside, other=1.0)
                odds = tl.load(E + i * n_visible + j, mask=inside, other=1.0)
                sent = _answer(old, odds, s, TO_HIDDEN)
                products = tl.reduce(tl.reshape(sent, [N // FACTORS, FACTORS]), 1, _product)
                belief = tl.load(c + instance * n_hidden + i)
                belief += tl.sum(tl.log(products).to(tl.float64))
                tl.store(hidden + instance * n_hidden + i, belief)
                new = _answer(sent, odds, _against(belief, limit, dtype), TO_VISIBLE)
                factors *= new
                if KEEP > 0:
                    new = KEEP * old + (1 - KEEP) * new
                tl.store(place, new, mask=inside)
        logs += tl.log(factors).to(tl.float64)
    tl.store(total + (instance * n_blocks + block) * n_visible + j, logs, mask=inside)


@triton.jit
def _settle(
    beliefs, means, b, hidden, total, n_iter, residual,
    n_visible, n_hidden, n_blocks, tol, large,
    KEEP: tl.constexpr, N: tl.constexpr,
):  # fmt: skip
    """Take in the new beliefs of an instance, and find by how much it has moved."""
    instance = tl.program_id(0).to(tl.int64)
    if tl.load(residual + instance) <= tol:
        return
    j, n = tl.arange(0, N), n_visible + n_hidden
    is_visible, is_hidden = j < n_visible, (j >= n_visible) & (j < n)
    belief = tl.load(b + instance * n_visible + j, mask=is_visible, other=0.0)
    for block in range(n_blocks):
        logs = total + (instance * n_blocks + block) * n_visible + j
        belief += tl.load(logs, mask=is_visible, other=0.0)
    belief += tl.load(hidden + instance * n_hidden + j - n_visible, mask=is_hidden, other=0.0)
    mean = 1 / (1 + tl.exp(-belief))
    inside, beliefs, means = j < n, beliefs + instance * n + j, means + instance * n + j
    old_belief = tl.load(beliefs, mask=inside, other=0.0)
    old_mean = tl.load(means, mask=inside, other=0.5)
    if KEEP > 0:
        belief = KEEP * old_belief + (1 - KEEP) * belief
        mean = KEEP * old_mean + (1 - KEEP) * mean
    tl.store(beliefs, belief, mask=inside)
    tl.store(means, mean, mask=inside)
    moved = tl.abs(belief - old_belief) / tl.maximum(tl.abs(belief), large)
    moved = tl.max(tl.where(inside, moved, 0.0))
    change = tl.where(inside, mean - old_mean, 0.0)
    tl.store(residual + instance, tl.maximum(tl.sum(change * change) / n, moved * moved))
    tl.store(n_iter + instance, tl.load(n_iter + instance) + 1)


def can_sweep(odds):
    """Whether sweeps over messages of these odds are done here."""
    return sum(odds.E.shape) <= _MOST_COLUMNS and _works(odds.E.device)


@cache
def _works(device):
    """Whether kernels can be built, which takes a compiler of C as well."""
    R = torch.ones((1, 1, 1), device=device)
    x = torch.zeros((1, 2), device=device, dtype=torch.float64)
    try:
        swept(Odds(R[0], "sum"), Messages((x,), (None,), R, (x,)), x[:, :1], x[:, :1], 1, 0.0, 0.0)
    except Exception:  # of no class in common: Triton's, the driver's and the compiler's
        return False
    return True


def swept(odds, state, b, c, n_sweeps, tol, damping):
    """Return the state after some sweeps, in which instances rest once they have converged.

    Parameters
    ----------
    odds : Odds
    state : Messages
        With both layers in one array; it is written over.
    b, c : arrays of shape (n, n_units), float64
    n_sweeps : int
    tol, damping : float

    Returns
    -------
    state : Messages
    n_iter, residual : arrays of shape (n,), float64
    """
    R, beliefs, means = (x.contiguous() for x in (state.odds, *state.beliefs, *state.means))
    state, E = state._replace(odds=R, beliefs=(beliefs,), means=(means,)), odds.E.contiguous()
    (n, n_hidden, n_visible), real = R.shape, {"dtype": torch.float64, "device": R.device}
    factors, n_blocks = _FACTORS[R.dtype], triton.cdiv(n_hidden, _ROWS)
    b, c = b.contiguous(), c.contiguous()
    hidden, total = (
        torch.empty((n, n_hidden), **real),
        torch.empty((n, n_blocks, n_visible), **real),
    )
    n_iter, residual = torch.zeros(n, **real), torch.full((n,), torch.inf, **real)
    width, whole = (max(16, triton.next_power_of_2(k)) for k in (n_visible, n_visible + n_hidden))
    to_hidden, to_visible = odds.product
    send = {"KEEP": damping, "TO_HIDDEN": to_hidden.way, "TO_VISIBLE": to_visible.way}
    send |= {"ROWS": _ROWS, "FACTORS": factors, "N": width, "num_warps": _n_warps(width)}
    on_it = torch.cuda.device(R.device) if R.is_cuda else nullcontext()  # Triton asks which it is
    with on_it:
        for _ in range(n_sweeps):
            _send[n, n_blocks](
                R, E, beliefs, c, hidden, total, residual, n_visible, n_hidden, n_blocks,
                odds.limit, tol, **send,
            )  # fmt: skip
            _settle[n,](
                beliefs, means, b, hidden, total, n_iter, residual, n_visible, n_hidden, n_blocks,
                tol, LARGE, KEEP=damping, N=whole, num_warps=_n_warps(whole),
            )  # fmt: skip
    return state, n_iter, residual


def _n_warps(width):
    return min(max(width // _ELEMENTS, 1), 16)
