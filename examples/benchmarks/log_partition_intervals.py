"""How often 95 % intervals of log Z contain it, on machines whose log Z can be enumerated.

    python examples/benchmarks/log_partition_intervals.py [--machines 10] [--ais] [--reverse]
        [--published 0] [--brackets 0]

``--machines`` is their number for each of 20 cases. Random ones have normal weights of standard
deviation ``s``. Their biases are balanced, minus half of the sums of the weights, so that
configurations and their complements compete: hard on purpose. Trained ones learn scikit-learn's
digits by persistent chains for ``s`` passes over the data, each with its own seed. All have one
layer that is summed exactly; SMC, and AIS with ``--ais``, do not use that and have their default
settings. ``--reverse`` counts the machines where the quick reverse estimate, by which scores warn,
speaks against an estimate of SMC, by whether that is good: at most half a nat from log Z.
``--brackets n`` brackets log Z of the machines of the first case by n pairs of a forward and a
reverse estimate each, by SMC or, with ``--ais``, by AIS. It counts pairs that agree although both
are wrong, by more than three of their standard errors. ``--published n`` adds n seeds on the
published CD25 machine of 784 x 500 units, whose log Z is 451.25 +- 0.03
(``reference_machines.py``). SKRBM_DATA says where it is.
"""

import argparse
import time
import warnings

import numpy as np
from _common import data_folder, heading, progress, published_machine, table
from sklearn.datasets import load_digits

from skrbm import RBM
from skrbm.estimators._log_partition import kept_reverse, reverse_is_larger
from skrbm.evaluation import AIS, SMC, bracket, exact_log_partition, log_partition
from skrbm.units import Categorical

# Visible and hidden units, their numbers, and standard deviations of the weights.
RANDOM = (
    ("bernoulli", "bernoulli", 10, 8, (0.5, 1.0, 2.0, 4.0, 8.0)),
    ("bernoulli", "bernoulli", 40, 5, (1.0, 4.0)),
    ("bernoulli", "bernoulli", 6, 60, (0.5, 2.0)),
    ("bernoulli", "gaussian", 10, 4, (0.4,)),
    ("gaussian", "bernoulli", 6, 8, (0.4, 0.8)),
    ("truncated_gaussian", "bernoulli", 6, 8, (1.0, 4.0)),
    ("truncated_gauss_bernoulli", "bernoulli", 6, 8, (1.0, 4.0)),
    ("categorical", "bernoulli", 12, 8, (1.0, 3.0)),
)
PASSES = (3, 50)
CD25, GOOD = 451.25, 0.5


def random_machine(visible, hidden, n_visible, n_hidden, s, seed):
    """Return a fitted estimator with random weights."""
    W = s * np.random.default_rng(seed).standard_normal((n_hidden, n_visible))
    balanced = -W.sum(axis=0) / 2 if visible == "bernoulli" else np.zeros(n_visible)
    if visible == "categorical":
        visible = Categorical([n_visible // 3] * 3)
    biases = -W.sum(axis=1) / 2 if hidden == "bernoulli" else np.zeros(n_hidden)
    kinds = {"visible": visible, "hidden": hidden}
    return RBM.from_parameters(W, biases, balanced, **kinds, random_state=seed)


def trained_machine(n_hidden, n_passes, seed):
    """Return a machine of scikit-learn's digits, without what it was trained on."""
    X = (load_digits().data > 7).astype(float)
    rbm = RBM(n_hidden, learning_rate=0.1, n_iter=n_passes, random_state=seed).fit(X)
    return rbm


def cases(n):
    """Yield what each case is called, its strength, and its machines."""
    for visible, hidden, n_visible, n_hidden, strengths in RANDOM:
        name = f"{n_visible} {visible} x {n_hidden} {hidden}"
        for s in strengths:
            kind = visible, hidden, n_visible, n_hidden, s
            yield name, s, [random_machine(*kind, seed) for seed in range(n)]
    for n_passes in PASSES:
        machines = [trained_machine(16, n_passes, seed) for seed in range(n)]
        yield "64 bernoulli x 16 bernoulli, trained", n_passes, machines


def tried(model, truth, method, seed):
    """Return whether the interval contains log Z, the error, its estimate and the seconds."""
    begin = time.process_time()
    found = log_partition(model, method, random_state=seed)
    low, high = found.interval
    seconds = time.process_time() - begin
    return low <= truth <= high, found.value - truth, found.std, seconds


def summary(results):
    """Return the part of intervals that hold, the rms error, and median error bar and seconds."""
    holds, errors, stds, seconds = map(np.array, zip(*results, strict=True))
    rms = np.sqrt(np.mean(errors**2))
    return f"{holds.sum()} of {len(holds)}", rms, np.median(stds), np.median(seconds)


def warned(models, truths):
    """Return how many estimates are good, and how many warnings there are of good and of others."""
    good, false, true = 0, 0, 0
    for seed, (model, truth) in enumerate(zip(models, truths, strict=True)):
        found = log_partition(model, SMC(), random_state=seed)
        is_good, warns = (
            abs(found.value - truth) <= GOOD,
            reverse_is_larger(found, kept_reverse(model)),
        )
        good, false, true = good + is_good, false + (is_good and warns), true + (warns > is_good)
    return good, false, true


def compare_brackets(n_machines, n_pairs, method):
    """Print how many pairs of estimates of strongly coupled machines agree, and are both wrong."""
    *kind, strengths = RANDOM[0]
    rows = []
    for s in strengths:
        agree, wrong = 0, 0
        for seed in range(n_machines):
            model = random_machine(*kind, s, seed)
            truth = exact_log_partition(model)
            for k in range(n_pairs):
                options = {"method": method, "reverse": method, "random_state": n_pairs * seed + k}
                found = bracket(model, **options)
                ends = found.forward, found.reverse
                both = all(abs(end.value - truth) > 3 * end.std for end in ends)
                agree, wrong = agree + found.agrees, wrong + (found.agrees and both)
        rows.append((s, n_machines * n_pairs, agree, wrong))
    table(("s", "pairs", "agree", "of these both wrong"), rows)


def published(methods, seeds):
    """Return a row of the table for each method, and print each interval."""
    if data_folder() is None:
        raise SystemExit("set the environment variable SKRBM_DATA to the folder of the machine")
    model, rows = published_machine(), []
    for method in methods:
        results = []
        for seed in seeds:
            results.append(tried(model, CD25, method, seed))
            holds, error, std, seconds = results[-1]
            print(f"seed {seed}: error {error:.3f}, se {std:.3f}, holds {holds}, {seconds:.1f} s")
        rows.append(("CD25", "", type(method).__name__, *summary(results)))
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--machines", type=int, default=10)
    parser.add_argument("--ais", action="store_true")
    parser.add_argument("--reverse", action="store_true")
    parser.add_argument("--published", type=int, default=0)
    parser.add_argument("--brackets", type=int, default=0)
    parser.add_argument("--first-seed", type=int, default=0)
    args = parser.parse_args()
    heading(__file__, args)
    warnings.simplefilter("ignore")
    if args.brackets:
        return compare_brackets(args.machines, args.brackets, "ais" if args.ais else "smc")
    methods = [SMC(), *([AIS()] if args.ais else [])]
    rows, everything = [], {type(method).__name__: [] for method in methods}
    counts = np.zeros(3, dtype=int)
    for name, s, models in cases(args.machines) if args.machines else ():
        truths = [exact_log_partition(model) for model in models]
        if args.reverse:
            counts += warned(models, truths)
            progress((name, s, len(models), *counts))
            continue
        for method in methods:
            pairs = enumerate(zip(models, truths, strict=True))
            results = [tried(model, truth, method, k) for k, (model, truth) in pairs]
            everything[type(method).__name__] += results
            rows.append((name, s, type(method).__name__, *summary(results)))
    rows += [
        ("all", "", name, *summary(results)) for name, results in everything.items() if results
    ]
    if args.reverse:
        n = 20 * args.machines
        print(f"{counts[0]} of {n} estimates are good; warnings of them: {counts[1]}")
        print(f"warnings of the others: {counts[2]} of {n - counts[0]}")
        return
    if args.published:
        first = args.first_seed
        rows += published(methods, range(first, first + args.published))
    table(("machine", "s", "method", "holds", "rms error", "median se", "median s"), rows)


if __name__ == "__main__":
    main()
