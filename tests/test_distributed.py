"""Two ranks that torch, MPI or Dask connect: the same parameters on both, and errors that name one.

What ranks do is tested without a library in ``test_ranks.py``.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from skrbm import RBM, TAPRBM, RBMClassifier
from skrbm._ranks import ranks
from skrbm.distributed import DistributedError, MPICommunicator, TorchCommunicator, fit, use
from skrbm.inference import TAP
from skrbm.learning import SGD
from skrbm.persistence import Checkpoint

pytestmark = pytest.mark.arrays

X = (np.random.default_rng(0).random((60, 5)) < 0.4).astype(float)


def run_rank(library, ends_by):
    """Fit on one rank, of which the second may end itself; prints what is left, and the error."""
    make = {"torch": TorchCommunicator, "mpi": MPICommunicator}[library]
    communicator = make()
    if ends_by is None:  # a second one, which rank 1 makes while rank 0 still has its first
        time.sleep(1 - communicator.rank)
        del communicator
        communicator = make()

    def schedule(progress):
        if communicator.rank == 1 and progress == 0.5:
            if ends_by == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if ends_by == "error":
                raise OSError("the disk is full")
        return 1.0

    rbm, error = RBM(3, n_iter=8, random_state=0, optimizer=SGD(schedule=schedule)), None
    try:
        with use(communicator):
            rbm.fit(X[20:] if communicator.rank else X[:20])
    except DistributedError as found:
        error = str(found)
        with pytest.raises(DistributedError):  # no sum is taken for that of the fit that has ended
            communicator.all_reduce(np.ones(4))
    line = [communicator.rank, error, rbm.n_iter_, rbm.components_.tolist()]
    print("\n" + json.dumps(line), flush=True)


def environment():
    folders = [str(Path(__file__).parent), str(Path(__file__).parents[1]), *sys.path]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}


def by_torch(ends_by):
    """Start two processes that find each other by the environment, as of torchrun or Slurm."""
    pytest.importorskip("torch")
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(found.getsockname()[1])}
    code = f"import test_distributed; test_distributed.run_rank('torch', {ends_by!r})"
    return [
        subprocess.Popen(
            [sys.executable, "-c", code],
            env={**environment(), **place, "WORLD_SIZE": "2", "RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]


def by_mpi(ends_by):
    """Start two processes by mpirun."""
    pytest.importorskip("mpi4py")
    if shutil.which("mpirun") is None:
        pytest.skip("mpirun is not installed")
    code = f"import test_distributed; test_distributed.run_rank('mpi', {ends_by!r})"
    command = ["mpirun", "-n", "2", sys.executable, "-c", code]
    pipe = subprocess.PIPE
    return [subprocess.Popen(command, env=environment(), stdout=pipe, stderr=pipe, text=True)]


def outcomes(processes):
    """Return what the ranks print, those that are there in the end, in order."""
    printed = [process.communicate(timeout=120) for process in processes]
    lines = [json.loads(line) for out, _ in printed for line in out.splitlines() if line[:1] == "["]
    assert lines, printed
    return sorted(lines)


@pytest.mark.parametrize("start", [by_torch, by_mpi])
def test_ranks_have_the_same_parameters(start):
    (_, *one), (_, *other) = outcomes(start(None))
    assert one[:2] == [None, 8]
    assert one == other


@pytest.mark.parametrize("start", [by_torch, by_mpi])
def test_an_error_of_one_rank_ends_the_other_which_names_it(start):
    lines = outcomes(start("error"))  # the rank of the error prints nothing
    ((rank, error, n_iter, components),) = lines
    assert (rank, n_iter) == (0, 4)
    assert "rank 1 has ended by OSError: the disk is full" in error
    assert np.isfinite(components).all()


def test_a_rank_that_is_killed_is_named_by_the_others():
    processes = by_torch("kill")
    processes[1].wait(timeout=60)
    begin = time.monotonic()
    ((rank, error, n_iter, _),) = outcomes(processes)
    assert time.monotonic() - begin < 60
    assert (rank, n_iter) == (0, 4)
    assert "rank 1 is lost" in error


@pytest.fixture
def client():
    """Return the client of a cluster of two workers of one thread each."""
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        yield client


def blocks_of(X):
    return pytest.importorskip("dask.array").from_array(X, chunks=(15, X.shape[1]))


def test_workers_of_dask_take_the_steps_that_one_process_takes(client):
    pytest.importorskip("torch")
    # Solutions that start at all rows of a batch of all rows: nothing is random.
    init = 0.5 * np.random.default_rng(1).standard_normal((3, 5)), np.zeros(3), np.zeros(5)
    weights = 1 + np.arange(60) % 3
    options = {"inference": TAP(start="data"), "optimizer": SGD(0.5, alpha=0.0, schedule="linear")}
    rbm = TAPRBM(3, batch_size=1000, init=init, n_iter=6, **options)
    found = fit(clone(rbm), blocks_of(X), None, weights, client=client)
    one = clone(rbm).fit(X, sample_weight=weights)
    assert_allclose(found.components_, one.components_, rtol=1e-9)
    assert_allclose(found.score(X), one.score(X), rtol=1e-9)
    assert found.starts_.shape[0] < one.starts_.shape[0]  # two ranks have taken part


def test_workers_of_dask_learn_from_labels(client):
    pytest.importorskip("torch")
    y = np.where(X[:, 0] > 0, "on", "off")
    model = RBMClassifier(RBM(3, n_iter=3, batch_size=10, random_state=0))
    found = fit(clone(model), blocks_of(X), y, client=client)
    assert list(found.classes_) == ["off", "on"]
    assert_allclose(found.predict_proba(X).sum(axis=1), 1.0)


def test_a_fit_of_workers_goes_on_from_checkpoints(client, tmp_path):
    """With other workers, who get the blocks of the ranks before them."""
    pytest.importorskip("torch")
    rbm = RBM(3, n_iter=6, batch_size=10, random_state=0)
    checked = clone(rbm).set_callbacks(Checkpoint(tmp_path, keep=9))
    whole = fit(checked, blocks_of(X), client=client)
    for rank in (0, 1):
        for path in sorted((tmp_path / f"rank-{rank}").iterdir())[3:]:
            path.unlink()
    client.restart()
    begun = clone(rbm).set_callbacks(Checkpoint(tmp_path, keep=9))
    found = fit(begun, blocks_of(X), resume=tmp_path, client=client)
    assert found is begun and found.n_iter_ == 6
    assert_array_equal(found.components_, whole.components_)
    assert len(list((tmp_path / "rank-1").iterdir())) > 3
    with pytest.raises(ValueError, match="had other rows"):
        fit(clone(rbm), blocks_of(X[::-1] + 1e-3), resume=tmp_path, client=client)
    with pytest.raises(ValueError, match="are of RBM, but estimator is TAPRBM"):
        fit(TAPRBM(3), blocks_of(X), resume=tmp_path, client=client)


def test_an_error_of_the_rows_of_a_rank_names_it(client):
    pytest.importorskip("torch")
    full = blocks_of(X)
    X_empty = full.map_blocks(lambda block, block_id: block[15 * (block_id[0] > 1) :], dtype=float)
    with pytest.raises(ValueError, match="0 sample") as found:
        fit(RBM(3), X_empty, client=client)
    assert "Raised on rank 1" in found.value.__notes__[0]


def test_workers_that_are_threads_are_refused():
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 2, "processes": False, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        with pytest.raises(ValueError, match="separate processes"):
            fit(RBM(), blocks_of(X), client=client)


def test_a_worker_that_is_killed_ends_the_fit_with_the_last_parameters(client, tmp_path):
    pytest.importorskip("torch")
    clock = tmp_path / "killed"

    def schedule(progress):
        if ranks().rank == 1 and progress == 0.5:
            clock.write_text(str(time.time()))
            os.kill(os.getpid(), signal.SIGKILL)
        return 1.0

    rbm = RBM(3, n_iter=8, optimizer=SGD(schedule=schedule))
    with pytest.raises(DistributedError, match="rank 1 is lost"):
        fit(rbm, blocks_of(X), client=client)
    assert time.time() - float(clock.read_text()) < 60
    assert rbm.n_iter_ == 4
    assert np.isfinite(rbm.components_).all()


@pytest.fixture
def interruptible():
    """SIGINT as in a program that a user started; it is ignored in one that a shell put behind."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interruption_of_the_client_ends_the_fit_on_its_workers(client, tmp_path):
    """Who are free for the next fit."""
    pytest.importorskip("torch")
    begun, main = tmp_path / "begun", threading.main_thread().ident

    def schedule(progress):
        if progress > 0:  # before the end of the first epoch there would be nothing to keep
            begun.touch()
        return 1.0

    def interrupt():
        while not begun.exists():
            time.sleep(0.1)
        signal.pthread_kill(main, signal.SIGINT)

    rbm = RBM(3, n_iter=10**6, optimizer=SGD(schedule=schedule))
    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        fit(rbm, blocks_of(X), client=client)
    assert 1 <= rbm.n_iter_ < 10**6 and np.isfinite(rbm.components_).all()
    assert fit(RBM(3, n_iter=2), blocks_of(X), client=client).n_iter_ == 2
