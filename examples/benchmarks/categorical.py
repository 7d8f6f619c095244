"""Time of an epoch of persistent contrastive divergence of categories, against other code.

    python examples/benchmarks/categorical.py SEQUENCES.fasta

Aligned sequences, batches of 100 rows, 100 chains, one sweep for each batch, one BLAS thread,
float32, in seconds of the processor. ``numpy`` is the plain algorithm on a dense one-hot matrix,
below. ``rbms`` (0.5.0, by torch on the processor) is left out where it is not installed. All do the
same arithmetic; the last row has the estimator's own defaults, which centre gradients and average
parameters. Contenders take turns; the table has the median of the ratios of each turn to ``skrbm``.
"""

import argparse
import time

import numpy as np
from threadpoolctl import threadpool_limits

from skrbm import CategoricalRBM

N_HIDDEN, BATCH, RATE = 100, 100, 0.01


def sequences(path):
    """Return the aligned rows of a FASTA file as codes, uint8 of shape (n_rows, n_sites)."""
    rows = []
    with open(path) as file:
        for line in file:
            if line.startswith(">"):
                rows.append("")
            else:
                rows[-1] += line.strip()
    letters = np.array([list(row) for row in rows])
    return np.searchsorted(np.unique(letters), letters).astype(np.uint8)


def numpy_epoch(codes, q):
    """An epoch as a textbook has it; returns seconds."""
    generator, n_sites = np.random.default_rng(0), codes.shape[1]
    X = np.eye(q, dtype=np.float32)[codes].reshape(len(codes), -1)
    W = 0.01 * generator.standard_normal((N_HIDDEN, X.shape[1]), dtype=np.float32)
    b, c = np.zeros(X.shape[1], np.float32), np.zeros(N_HIDDEN, np.float32)
    chains = X[:BATCH]
    h = (generator.random((BATCH, N_HIDDEN)) < 0.5).astype(np.float32)
    begin = time.process_time()
    order = generator.permutation(len(X))
    for start in range(0, len(X), BATCH):
        v = X[order[start : start + BATCH]]
        mean = 1 / (1 + np.exp(-(v @ W.T + c)))
        field = (h @ W + b).reshape(BATCH, n_sites, q)
        p = np.exp(field - field.max(axis=2, keepdims=True))
        p /= p.sum(axis=2, keepdims=True)
        drawn = (p.cumsum(axis=2) < generator.random((BATCH, n_sites, 1))).sum(axis=2)
        chains = np.eye(q, dtype=np.float32)[np.minimum(drawn, q - 1)].reshape(BATCH, -1)
        mean_of_chains = 1 / (1 + np.exp(-(chains @ W.T + c)))
        h = (generator.random(h.shape, dtype=np.float32) < mean_of_chains).astype(np.float32)
        W += RATE * (mean.T @ v / len(v) - mean_of_chains.T @ chains / BATCH)
        b += RATE * (v.mean(axis=0) - chains.mean(axis=0))
        c += RATE * (mean.mean(axis=0) - mean_of_chains.mean(axis=0))
    return time.process_time() - begin


def rbms_epoch(codes, q):
    """An epoch of rbms 0.5.0; returns seconds."""
    import torch
    from rbms.potts_bernoulli.classes import PBRBM
    from rbms.training.pcd import fit_batch_pcd

    torch.set_num_threads(1)
    torch.manual_seed(0)
    X = torch.from_numpy(codes.astype(np.float32))
    weights = torch.ones((len(codes), 1))
    W = 0.01 * torch.randn(codes.shape[1], q, N_HIDDEN)
    rbm = PBRBM(W, torch.zeros(codes.shape[1], q), torch.zeros(N_HIDDEN))
    optimizer = torch.optim.SGD(rbm.parameters(), lr=RATE, maximize=True)
    for parameter in rbm.parameters():
        parameter.grad = torch.zeros_like(parameter)
    chains = rbm.init_chains(BATCH)
    begin = time.process_time()
    order = torch.randperm(len(X))
    for start in range(0, len(X), BATCH):
        index = order[start : start + BATCH]
        optimizer.zero_grad(set_to_none=False)
        batch = X[index], weights[index]
        chains, _ = fit_batch_pcd(batch, chains, rbm, 1, 1.0, centered=False)
        optimizer.step()
    return time.process_time() - begin


def skrbm_epoch(codes, q, **options):
    """An epoch of the estimator: what two more epochs of a fit take; returns seconds."""
    rbm = CategoricalRBM(N_HIDDEN, categories=[np.arange(q)] * codes.shape[1], **options)
    rbm.set_params(learning_rate=RATE, batch_size=BATCH, random_state=0)
    seconds = []
    for n_iter in (1, 3):
        begin = time.process_time()
        rbm.set_params(n_iter=n_iter).fit(codes)
        seconds.append(time.process_time() - begin)
    return (seconds[1] - seconds[0]) / 2


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--rows", type=int, default=None)
    arguments = parser.parse_args()
    codes = sequences(arguments.path)[: arguments.rows]
    q = int(codes.max()) + 1
    plain = {"centered": False, "average": False, "alpha": 0.0}
    contenders = {
        "skrbm": lambda: skrbm_epoch(codes, q, **plain),
        "numpy": lambda: numpy_epoch(codes, q),
        "rbms": lambda: rbms_epoch(codes, q),
        "skrbm, defaults": lambda: skrbm_epoch(codes, q),
    }
    try:
        import rbms  # noqa: F401
    except ImportError:
        del contenders["rbms"]
        print("rbms is not installed, and left out")
    found = {name: [] for name in contenders}
    with threadpool_limits(1):
        for _ in range(arguments.repeats):
            for name, epoch in contenders.items():
                found[name].append(epoch())
    print(f"{len(codes)} rows of {codes.shape[1]} sites, {q} values, {N_HIDDEN} hidden units")
    for name, seconds in found.items():
        ratio = np.median(np.divide(seconds, found["skrbm"]))
        print(f"{name:16} {np.median(seconds):6.2f} s   {ratio:5.2f} x skrbm")


if __name__ == "__main__":
    main()
