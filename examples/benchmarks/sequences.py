"""Log-likelihood, time and correlations of machines of three alignments.

    python examples/benchmarks/sequences.py [lattice] [kunitz] [rf00379] [--seeds 0]
        [--split clusters] [--held-out 0.1] [--params '{"n_iter": 40}']

The alignments are in SKRBM_DATA/sequences: 46265 lattice proteins of 27 sites, without gaps; 11819
Kunitz domains of 53 sites (PF00014); 3827 RNA sequences of 136 sites (RF00379). Each sequence has
the weight 1 / (sequences that agree with it at 80 % of the sites or more), in training and in all
means; of lattice proteins all weights are 1. Clusters of such neighbours are held out as a whole,
so that no held-out sequence has a neighbour in training; ``--split rows`` holds out rows at random,
as figures of other packages mostly do, and ``--held-out 0`` holds out none.

Printed for each seed: processor seconds of the fit; nats per site of training and of held-out
sequences by AIS of 200 chains, with its standard error; "plain" is the mean of held-out sequences
without weights; and the Pearson correlation of connected
pair correlations of the held-out sequences (without them, of training) with those of 10 000
samples, by Gibbs chains of 100 sweeps from the chains of the fit, and with those of training.
"""

import argparse
import json
import time

import numpy as np
from _common import data_folder, heading, progress, table
from sklearn.model_selection import GroupShuffleSplit

from skrbm import CategoricalRBM
from skrbm.evaluation import AIS, log_partition
from skrbm.sequences import (
    pair_correlation,
    read_fasta,
    sequence_clusters,
    sequence_weights,
)

AMINO = "ACDEFGHIKLMNPQRSTVWY"
SETS = {  # file, letters, part held out, what differs from the defaults
    "lattice": (
        "Lattice_Proteins_MSA",
        AMINO,
        0.108,
        {"n_iter": 95, "penalty": "l1b", "alpha": 6e-7},
    ),
    "kunitz": ("Kunitz_domain_MSA", "-" + AMINO, 0.1, {"n_iter": 60}),
    "rf00379": ("RF00379", "-ACGU", 0.2, {"n_iter": 100, "penalty": "l1b", "alpha": 1e-3}),
}
NAMES = "set seed rows s train held_out plain std r_samples r_train".split()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="*", default=list(SETS), metavar="SET")
    parser.add_argument("--seeds", type=int, nargs="*", default=[0])
    parser.add_argument("--split", choices=["clusters", "rows"], default="clusters")
    parser.add_argument("--held-out", type=float, help="part of the clusters or rows to hold out")
    parser.add_argument("--params", type=json.loads, default={}, help="parameters, as JSON")
    args = parser.parse_args()
    heading(__file__, args)
    rows = []
    for name in args.sets:
        data = parts_of(name, args.held_out, args.split)
        for seed in args.seeds:
            rows.append((name, seed, *measured(name, data, seed, args.params)))
            progress(rows[-1])
    table(NAMES, rows)


def parts_of(name, part, kind):
    """Return (codes, weights) of training and of what is held out, and the number of letters."""
    file, letters, usual, _ = SETS[name]
    codes = read_fasta(data_folder() / "sequences" / f"{file}.fasta", letters).codes
    rows, part = np.arange(len(codes)), usual if part is None else part
    weights, split = sequence_weights(codes), (rows, rows[:0])
    if part:
        splitter = GroupShuffleSplit(1, test_size=part, random_state=0)
        groups = sequence_clusters(codes) if kind == "clusters" else rows
        (split,) = splitter.split(codes, groups=groups)
    return [(codes[rows], weights[rows]) for rows in split], len(letters)


def measured(name, data, seed, params):
    """Fit, and return what is printed."""
    (train, held_out), q = data
    n_sites, params = train[0].shape[1], {**SETS[name][-1], **params}
    params = {"n_components": 100, "hidden": "double_relu", "random_state": seed, **params}
    rbm, begin = CategoricalRBM(categories=[range(q)] * n_sites, **params), time.process_time()
    rbm.fit(train[0], sample_weight=train[1])
    seconds = time.process_time() - begin
    estimate = log_partition(rbm, AIS(200, 1000), random_state=seed)
    parts = train, held_out, (held_out[0], None)
    found = [per_site(rbm, *part, estimate.value) for part in parts]
    progress((name, seed, seconds, *found))  # ahead of the samples, which take long
    samples = rbm.sample(10_000, n_steps=100, random_state=seed)
    against = (samples, None), train
    part, weights = held_out if len(held_out[0]) else train
    found += [estimate.std / n_sites]
    found += [pair_correlation(part, other, q, weights, own) for other, own in against]
    return len(held_out[0]), seconds, *found


def per_site(rbm, codes, weights, log_z):
    """Return the mean log-likelihood of sequences over the number of sites; NaN if none."""
    if not len(codes):
        return float("nan")
    log_p = -rbm.free_energy(codes) - log_z
    return float(np.average(log_p, weights=weights)) / codes.shape[1]


if __name__ == "__main__":
    main()
