"""Log Z of the replicated softmax by its lengths and by annealing, beside the exact one.

    python examples/benchmarks/lengths_log_z.py [--seeds 3] [--lengths 10 100]

The machine has 6 hidden units, which are summed over, and learns 1000 documents as on the guide's
page on documents: 20 to 59 of 24 words, about one or two of three topics. Of two
estimates that do not use the sum, one carries 256 chains to longer and longer documents, as for
machines of more hidden units, and the other raises the weights from 0 at one length, by 100 chains
over 1000 temperatures.
"""

import argparse

import numpy as np
from _common import heading, table

from skrbm import ReplicatedSoftmaxRBM
from skrbm.arrays import make_rng
from skrbm.evaluation import AIS, _lengths, log_partition

N_TOPICS, N_WORDS, N_DOCUMENTS = 3, 8, 1000


def documents(rng):
    """Return counts of words of documents about one or two of the topics, 20 to 59 words each."""
    X = np.zeros((N_DOCUMENTS, N_TOPICS * N_WORDS))
    for row in X:
        about = rng.choice(N_TOPICS, rng.integers(1, 3), replace=False)
        topics = rng.choice(about, rng.integers(20, 60))
        np.add.at(row, N_WORDS * topics + rng.integers(N_WORDS, size=topics.size), 1)
    return X


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--lengths", type=int, nargs="+", default=[10, 100])
    args = parser.parse_args()
    heading(__file__, args)
    X = documents(np.random.default_rng(0))
    rbm = ReplicatedSoftmaxRBM(n_components=6, random_state=0).fit(X)
    rows = [("exact", *(f"{value:.3f}" for value in rbm.log_partitions(args.lengths)))]
    _lengths._EXACT = 0  # as if no sum were possible
    for seed in range(args.seeds):
        rng = make_rng(seed, rbm.machine_.weights[0])
        found = _lengths.length_partitions(rbm.machine_, rng, max(args.lengths))
        values, std = found.at(np.array(args.lengths, float))
        cells = (f"{value:.3f} ± {error:.3f}" for value, error in zip(values, std, strict=True))
        rows.append((f"by lengths, seed {seed}", *cells))
    for seed in range(args.seeds):
        ais = AIS(n_chains=100, schedule=1000)
        found = [log_partition(rbm.density(n), ais, random_state=seed) for n in args.lengths]
        cells = (f"{one.value:.3f} ± {one.std:.3f}" for one in found)
        rows.append((f"annealing, seed {seed}", *cells))
    table(("log Z", *(f"D = {n}" for n in args.lengths)), rows)


if __name__ == "__main__":
    main()
