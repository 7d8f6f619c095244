"""Fits on the workers of a Dask cluster, each with its part of the rows."""

import copy
import math
from datetime import timedelta
from types import SimpleNamespace

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment

from .._checks import check_number
from .._ranks import ranks, use
from ..persistence._checkpoint import estimator_to_resume
from ._torch import TorchCommunicator


def fit(
    estimator,
    X,
    y=None,
    sample_weight=None,
    *,
    resume=None,
    client=None,
    timeout=45.0,
):
    """Fit an estimator to a Dask array on the workers that hold it.

    Each worker that holds blocks of rows is a rank. Consecutive blocks are assigned to the same
    rank, on the worker that holds most of them. Ranks communicate through ``torch.distributed``
    (gloo), so torch must be installed on the workers. All of them must be idle; each uses one of
    its threads for the duration of the fit.

    Parameters
    ----------
    estimator : estimator
        An estimator that supports training on several processes, such as :class:`skrbm.RBM`. It is
        fitted in place, as by ``fit``.
    X : dask.array.Array of shape (n_samples, n_features)
        Data in blocks of rows, dense or sparse. The memory of each worker must hold its blocks
        twice.
    y : array-like or dask.array.Array of shape (n_samples,) or (n_samples, n_outputs), default=None
        Only for estimators that learn from labels.
    sample_weight : array-like or dask.array.Array of shape (n_samples,), default=None
    resume : str or path-like, default=None
        Folder of the :class:`~skrbm.persistence.Checkpoint` of an interrupted fit, which is
        continued; all workers must have access to it. The blocks and the number of workers must be
        the same as before. The parameters of the estimator are replaced by those of the checkpoint.
    client : dask.distributed.Client, default=None
        By default the client created last.
    timeout : float, default=45.0
        As in :class:`TorchCommunicator`.

    Returns
    -------
    estimator : object
        Fitted, with the parameters and history of all ranks; ``starts_`` has the chains of one
        rank.

    Raises
    ------
    TypeError
        If X is not a Dask array, or ``estimator`` does not support several ranks.
    ValueError
        If ``timeout`` is not positive, if workers are not separate processes, if X does not have
        two dimensions, or if y or the weights do not have as many rows as X. If these are given,
        the lengths of all blocks must be known.
    DistributedError
        If a worker is lost. The estimator then has the parameters of the last complete epoch.
    KeyboardInterrupt
        After Ctrl-C, which ends the fit on all workers; the estimator then also has the parameters
        of the last complete epoch. A second Ctrl-C stops waiting for the workers. A single worker
        continues until its fit is complete.
    """
    from dask.distributed import get_client

    check_number("timeout", timeout, above=0)
    if isinstance(estimator, type) or not getattr(estimator, "_fits_on_ranks", False):
        raise TypeError(
            "estimator must be one of skrbm that supports several ranks, such as RBM(), got "
            f"{estimator!r}; for a Pipeline, fit the other steps first and pass their output as X"
        )
    client = get_client() if client is None else client
    groups = _by_worker(client, *_blocks(client, X, y, sample_weight))
    if any(worker.startswith("inproc://") for worker in groups):
        raise ValueError(
            "the workers must be separate processes, but those of this cluster are threads of "
            "one process; use LocalCluster(processes=True)"
        )
    first = next(iter(groups))
    address = tuple(client.submit(_meeting, timeout, workers=[first], pure=False).result())
    futures = [
        client.submit(
            _fit_rank,
            estimator,
            *blocks,
            (*address, rank, len(groups), timeout),
            resume,
            workers=[worker],
            pure=False,
            retries=0,
        )
        for rank, (worker, blocks) in enumerate(groups.items())
    ]
    try:
        _collect(estimator, futures, [*groups])
    except KeyboardInterrupt:
        if len(groups) > 1:
            client.run(_interrupt, address, workers=[first])
            _collect(estimator, futures, [*groups])
        raise
    finally:
        client.cancel(futures)
    return estimator


def _collect(estimator, futures, workers):
    """Copy the result of a rank to an estimator, once all have ended or one has failed."""
    from dask.distributed import as_completed

    for future in as_completed(futures):  # if one is lost, the others raise
        fitted, error = future.result()
        if error is not None or future is futures[0]:
            vars(estimator).update(vars(fitted))
        if error is not None:
            rank = futures.index(future)
            error.add_note(f"Raised on rank {rank}; the ranks are the workers {workers}.")
            raise error


def _blocks(client, X, *others):
    """Return lists of futures of the blocks of rows, and of what belongs to them, or None."""
    from dask import array

    if not isinstance(X, array.Array):
        raise TypeError(
            f"X must be a Dask array, such as dask.array.from_array(X, chunks=(10000, -1)), got "
            f"{type(X).__name__}"
        )
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions, of rows and features, got {X.ndim}")
    rows = X.rechunk({1: -1}) if len(X.chunks[1]) > 1 else X
    found = [client.compute([*rows.to_delayed().ravel()])]
    for other in others:
        if other is not None:
            other = array.asarray(other)
            if not math.isfinite(X.shape[0] + other.shape[0]):
                raise ValueError(
                    "with y or weights the lengths of blocks must be known: call "
                    "compute_chunk_sizes() of X, y and the weights first"
                )
            if other.shape[0] != X.shape[0]:
                raise ValueError(
                    f"X has {X.shape[0]} rows, but y or the weights have {other.shape[0]}"
                )
            other = other.rechunk((X.chunks[0], *((n,) for n in other.shape[1:])))
            other = client.compute([*other.to_delayed().ravel()])
        found.append(other)
    return found


def _by_worker(client, rows, *others):
    """Return a dict of the workers in the order of ranks, with the blocks of each one, lists.

    So ranks have the same rows in each fit on as many workers, which can continue from checkpoints.
    """
    from dask.distributed import wait

    # A block that is queued behind the task of a rank would keep all ranks waiting.
    computed = [block for blocks in (rows, *others) for block in blocks or ()]
    wait(computed)
    holders = client.who_has(computed)
    for block in computed:
        if not holders[block.key]:  # it could not be computed
            block.result()
    workers = sorted({worker for block in rows for worker in holders[block.key]})
    parts = np.array_split(np.arange(len(rows)), min(len(workers), len(rows)))
    held = [[sum(w in holders[rows[i].key] for i in part) for w in workers] for part in parts]
    return {
        workers[w]: [blocks and [blocks[i] for i in parts[rank]] for blocks in (rows, *others)]
        for rank, w in zip(*linear_sum_assignment(held, maximize=True), strict=True)
    }


_STORES = {}  # stores that this worker keeps for fits to come, by the address where ranks meet
_RUNNING = {}  # the ranks of the fits on this worker, by the same address


def _meeting(timeout):
    """Open the store where ranks meet on this worker, the first; returns its host and port."""
    from dask.distributed import get_worker
    from torch.distributed import TCPStore

    host = get_worker().address.rpartition("://")[2].rpartition(":")[0]
    store = TCPStore(host, 0, None, True, timedelta(seconds=timeout), wait_for_workers=False)
    _STORES[host, store.port] = store
    _RUNNING[host, store.port] = SimpleNamespace(interrupted=False)  # until the fit begins
    return host, store.port


def _interrupt(address):
    """Interrupt a fit of this worker, which tells the other ranks by its next sum."""
    if address in _RUNNING:
        _RUNNING[address].interrupted = True


def _fit_rank(estimator, blocks, labels, weights, place, resume):
    """Fit a copy of the estimator on one rank; returns it, and the error that has ended it."""
    from torch.distributed import TCPStore

    host, port, rank, size, timeout = place
    estimator = copy.deepcopy(estimator)
    X = sp.vstack(blocks, format="csr") if sp.issparse(blocks[0]) else np.concatenate(blocks)
    y, weights = (part and np.concatenate(part) for part in (labels, weights))
    try:
        store = _STORES.pop((host, port), None)
        if store is None:
            store = TCPStore(host, port, size, False, timedelta(seconds=timeout))
        with use(TorchCommunicator(timeout, store=store, rank=rank, size=size)):
            before, _RUNNING[host, port] = _RUNNING.get((host, port)), ranks()
            if before is not None and before.interrupted:
                ranks().interrupted = True
            if resume is not None:
                own = {k: v for k, v in vars(estimator).items() if "_callback" in k}
                begun = estimator_to_resume(resume)
                if type(begun) is not type(estimator):
                    raise ValueError(
                        f"the checkpoints in {resume} are of {type(begun).__name__}, but estimator "
                        f"is {type(estimator).__name__}; pass the one whose fit was interrupted"
                    )
                estimator = begun
                vars(estimator).update(own)
            estimator.fit(X, y, sample_weight=weights)
    except (Exception, KeyboardInterrupt) as error:
        return estimator, error
    finally:
        _RUNNING.pop((host, port), None)
    return estimator, None
