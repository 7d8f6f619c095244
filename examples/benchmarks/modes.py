"""Machines with modes that chains do not leave: persistent chains beside tempered ones.

    python examples/benchmarks/modes.py clusters [--seeds 10] [--seconds 6]
    python examples/benchmarks/modes.py digits [--epochs 25] [--sweeps 1000] [--first-seed 0]
    python examples/benchmarks/modes.py log_z [--seeds 10] [--epochs 100]
    python examples/benchmarks/modes.py real [--seeds 5] [--seconds 6] [--dimensions 2 8]

clusters: 5 000 rows of 18 bits around eight patterns, with weights that fall by a factor of 0.6 and
1 % of the bits flipped, and 12 hidden units. Each method has the same processor time on one core,
with a learning rate that falls to zero in a line; methods take turns on each data set. All but the
plain one have centred gradients and averaged parameters, as RBM has by default. Printed are the
Kullback-Leibler divergence from the true distribution, by enumeration of all 2^18 rows, and half
the sum of the errors of the weights of the patterns, each with the rows nearest to it.

digits: MNIST's digits 0 and 1 and 200 hidden units, trained with tempered chains; after three
fifths of the epochs the rate falls to a two-hundredth. Chains of the fitted machine start at digits
of one class and go on by Gibbs sampling or along the ladder. A logistic regression that was trained
on the data tells the class of their visible values. Printed are how often a chain comes to the
class that it visits less often, the share of class 1 in all sweeps, and the log-likelihood of test
images.

log_z: a machine of data set 0 of the clusters, trained with tempered chains. Printed are the errors
of estimates of log Z, along its ladder and over temperatures, by the sum over all configurations.
Seeds are those of the estimates.

real: 4 000 rows of a mixture of four normal distributions with deviation 1, whose means are 8 apart
in the first two of some dimensions, with weights 0.4, 0.3, 0.2 and 0.1, and 8 hidden units of
GaussianBernoulliRBM by Adam. Printed are the divergence from the mixture, on 20 000 rows of it, and
the error of the weights, by as many exact samples; both by sums over the hidden units.
"""

import argparse
import time

import numpy as np
from _common import heading, mnist, progress, table
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from skrbm import RBM, GaussianBernoulliRBM
from skrbm.arrays import make_rng
from skrbm.evaluation import exact_log_partition, log_partition
from skrbm.inference import TAP, Gibbs, Tempering, sample

N_BITS, N_MODES, FLIPPED, N_ROWS = 18, 8, 0.01, 5000
METHODS = {
    "PCD-1, plain": {"learning_rate": 0.1, "centered": False, "average": False},
    "PCD-1": {"learning_rate": 0.4},
    "PCD-10": {"learning_rate": 0.8, "n_steps": 10},
    # 1.0 fails on data sets 6 and 8.
    "tempered": {"learning_rate": 0.6, "starts": "tempered", "batch_size": 200},
    "TAP, data": {"learning_rate": 0.2, "inference": TAP(max_iter=3), "starts": "data"},
    "TAP, chains": {"learning_rate": 0.2, "inference": TAP(max_iter=3), "starts": "chains"},
    "TAP, tempered": {"learning_rate": 0.2, "inference": TAP(max_iter=3), "starts": "tempered"},
}
REAL = {name: {"starts": name} for name in ("noise", "annealed", "persistent", "tempered")}
REAL_WEIGHTS = np.array([0.4, 0.3, 0.2, 0.1])


def clusters(seed):
    """Return rows, the distance of all configurations from the patterns, and the weights."""
    generator = np.random.default_rng(seed)
    while True:
        patterns = generator.integers(0, 2, (N_MODES, N_BITS))
        apart = (patterns[:, None] != patterns[None]).sum(axis=2)
        if (apart + N_BITS * np.eye(N_MODES)).min() >= 6:
            break
    weights = 0.6 ** np.arange(N_MODES)
    weights /= weights.sum()
    X = patterns[generator.choice(N_MODES, N_ROWS, p=weights)]
    X = np.abs(X - (generator.random(X.shape) < FLIPPED)).astype(np.float32)
    states = ((np.arange(2**N_BITS)[:, None] >> np.arange(N_BITS)) & 1).astype(np.float32)
    distances = np.stack([(states != pattern).sum(axis=1) for pattern in patterns], axis=1)
    return X, states, distances, weights


def measured(rbm, states, distances, weights):
    """Return the divergence from the true distribution, and the error of the weights."""
    flips = distances * np.log(FLIPPED) + (N_BITS - distances) * np.log(1 - FLIPPED)
    truth = np.logaddexp.reduce(np.log(weights) + flips, axis=1)
    log_p = -rbm.free_energy(states)
    log_p -= np.logaddexp.reduce(log_p)
    divergence = (np.exp(truth) * (truth - log_p)).sum()
    mass = np.bincount(distances.argmin(axis=1), np.exp(log_p), N_MODES)
    return divergence, np.abs(mass - weights).sum() / 2


def fitted(X, params, seconds, seed, Estimator=RBM):
    """Return a machine fitted for about so many seconds of processor time, and the seconds."""
    params = {"n_components": 12, "batch_size": 100, "schedule": "linear", **params}

    def fit(n_iter, seed):
        begin = time.process_time()
        rbm = Estimator(n_iter=n_iter, random_state=seed, **params).fit(X)
        return rbm, time.process_time() - begin

    fit(5, seed)  # warms up
    first = fit(20, seed)[1]
    n_trial = max(40, round(0.35 * seconds / first * 20))
    each = (fit(n_trial, seed)[1] - first) / (n_trial - 20)  # without what a fit begins with
    return fit(20 + max(0, round((seconds - first) / each)), seed)


def compare_clusters(args):
    results = {name: [] for name in args.methods}
    for seed in range(args.first_seed, args.first_seed + args.seeds):
        X, *truth = clusters(seed)
        for name in args.methods:
            params = METHODS[name]
            rbm, seconds = fitted(X, params, args.seconds, seed)
            n_updates = rbm.n_iter_ * -(-N_ROWS // rbm.batch_size)
            results[name].append((*measured(rbm, *truth), n_updates, seconds))
            progress((name, seed, *map(float, results[name][-1])))
    rows = []
    for name, found in results.items():
        rows.append((name, *summary(found)))
    table(("chains", "KL, nats", "largest KL", "weights off", "updates", "s"), rows)


def summary(found):
    """Return the mean divergence with its deviation, the largest one, and means of the others."""
    means, deviations, largest = (f(found, axis=0) for f in (np.mean, np.std, np.max))
    return f"{means[0]:.3f} +- {deviations[0]:.3f}", largest[0], *means[1:]


def mixture(n, dimensions, generator):
    """Return rows of four separate normal distributions, their log-densities, and the means."""
    means = np.zeros((4, dimensions))
    means[:, :2] = 8.0 * np.array([[0, 0], [1, 0], [0, 1], [1, 1]])
    X = means[generator.choice(4, n, p=REAL_WEIGHTS)] + generator.standard_normal((n, dimensions))
    squares = ((X[:, None] - means) ** 2).sum(axis=2)
    log_p = np.logaddexp.reduce(np.log(REAL_WEIGHTS) - squares / 2, axis=1)
    return X, log_p - dimensions * np.log(2 * np.pi) / 2, means


def exact_samples(rbm, n, generator):
    """Return samples of a machine, by the probabilities of all hidden configurations."""
    K = rbm.n_components
    H = ((np.arange(2**K)[:, None] >> np.arange(K)) & 1).astype(float)
    shift, mean, variances = H @ rbm.components_, rbm.intercept_visible_, rbm.variances_
    log_p = H @ rbm.intercept_hidden_ + (shift * (shift / 2 + mean) / variances).sum(axis=1)
    p = np.exp(log_p - np.logaddexp.reduce(log_p))
    noise = np.sqrt(variances) * generator.standard_normal((n, mean.size))
    return mean + shift[generator.choice(len(H), n, p=p)] + noise


def compare_real(args):
    rows = []
    for dimensions in args.dimensions:
        for name in args.starts:
            found = []
            for seed in range(args.first_seed, args.first_seed + args.seeds):
                generator = np.random.default_rng(seed)
                X = mixture(4000, dimensions, generator)[0]
                params = {"optimizer": "adam", "n_components": 8, "n_steps": args.steps}
                params |= {"learning_rate": 0.02, **REAL[name]}
                rbm, seconds = fitted(X, params, args.seconds, seed, GaussianBernoulliRBM)
                X, truth, means = mixture(20_000, dimensions, generator)
                V = exact_samples(rbm, 20_000, generator)
                nearest = ((V[:, None] - means) ** 2).sum(axis=2).argmin(axis=1)
                off = np.abs(np.bincount(nearest, minlength=4) / 20_000 - REAL_WEIGHTS).sum() / 2
                divergence = float(truth.mean()) - rbm.score(X)
                found.append((divergence, off, rbm.n_iter_ * 40, seconds))
                progress((name, dimensions, seed, *map(float, found[-1])))
            rows.append((dimensions, name, *summary(found)))
    table(("dimensions", "starts", "KL, nats", "largest KL", "weights off", "updates", "s"), rows)


def falls_late(progress):
    """Return the factor on the rate: so small in the end that weights of classes come to rest."""
    return 1.0 if progress < 0.6 else 0.005


def digits(args):
    (X, y), (X_test, y_test) = mnist("train"), mnist("test")
    X, y, X_test = X[y < 2].astype(np.float32), y[y < 2], X_test[y_test < 2].astype(np.float32)
    classes = LogisticRegression(max_iter=200).fit(X, y)
    settings = {"learning_rate": args.rate, "batch_size": 100, "schedule": falls_late}
    settings["average"] = False  # a mean over steps gives classes other weights
    begin = time.process_time()
    settings["n_states"] = args.states
    n_iter = args.epochs or 25
    rbm = RBM(200, n_iter=n_iter, starts="tempered", random_state=args.first_seed, **settings)
    rbm.fit(X)
    print(
        f"{len(X)} rows, {n_iter} epochs of {time.process_time() - begin:.0f} s of processor "
        f"time, {len(rbm.ladder_)} rungs"
    )
    machine, n = rbm.machine_, args.chains
    ladder = Tempering(rbm.ladder_)
    half = X[y == 0][: n // 2], X[y == 1][: n - n // 2]
    rows = []
    for name, sampler in (("Gibbs", Gibbs()), ("ladder", ladder)):
        rng, seen = make_rng(0, machine.weights[0]), []
        state = sampler.start(machine, np.concatenate(half), rng)
        begin = time.process_time()
        sample(
            sampler,
            machine,
            state,
            rng,
            args.sweeps,
            callback=lambda step, state, info, seen=seen: seen.append(
                classes.predict(state.layers[0])
            ),
        )
        seen = np.array(seen)
        begins = np.concatenate([np.ones((1, n), bool), seen[1:] != seen[:-1]])
        visits = np.minimum((begins & (seen == 0)).sum(axis=0), (begins & (seen == 1)).sum(axis=0))
        shares = seen.mean(axis=0)
        error = shares.std(ddof=1) / np.sqrt(n)
        row = (name, float(np.median(visits)), int(visits.min()))
        rows.append((*row, f"{shares.mean():.3f} +- {error:.3f}", time.process_time() - begin))
    score = log_partition(rbm, "tempering", random_state=0)
    test = float(-rbm.free_energy(X_test).mean() - score.value)
    print(f"share of class 1 in the data: {y.mean():.3f}")
    print(f"test rows: {test:.2f} +- {score.std:.2f} nats")
    table(("chains", "visits, median", "fewest", "share of class 1", "s"), rows)


def compare_log_z(args):
    X = clusters(0)[0]
    params = {**METHODS["tempered"], "n_components": 12, "schedule": "linear"}
    rbm = RBM(n_iter=args.epochs or 100, random_state=0, **params).fit(X)
    exact = exact_log_partition(rbm)
    print(f"{rbm.n_iter_} epochs, {len(rbm.ladder_)} rungs, log Z {exact:.4f} by a sum")
    estimates = {
        "Bennett's ratio along the ladder": lambda **seed: log_partition(rbm, "tempering", **seed),
        "annealing along the rungs": lambda **seed: log_partition(rbm, "ais", **seed),
        "temperatures, from units that know no data": lambda **seed: log_partition(
            rbm.machine_, "ais", **seed
        ),
        "temperatures, from units of the data": lambda **seed: log_partition(
            rbm.machine_, "ais", starts=X, **seed
        ),
    }
    rows = []
    for name, estimate in estimates.items():
        estimate(random_state=args.first_seed)  # warms up
        begin = time.process_time()
        seeds = range(args.first_seed, args.first_seed + args.seeds)
        errors = np.array([estimate(random_state=seed).value for seed in seeds]) - exact
        seconds = (time.process_time() - begin) / args.seeds
        rows.append((name, float(np.sqrt((errors**2).mean())), seconds))
    table(("estimate", "rms error, nats", "s"), rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=["clusters", "digits", "log_z", "real"])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--starts", nargs="+", choices=list(REAL), default=list(REAL))
    parser.add_argument("--dimensions", nargs="+", type=int, default=[2, 8])
    parser.add_argument("--steps", type=int, default=10, help="of real chains for each batch")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--rate", type=float, default=0.02)
    parser.add_argument("--states", type=int, help="chains in learning; default: the batch size")
    parser.add_argument("--chains", type=int, default=100)
    parser.add_argument("--sweeps", type=int, default=1000)
    args = parser.parse_args()
    heading(__file__, args)
    with threadpool_limits(1):
        parts = {"clusters": compare_clusters, "digits": digits, "log_z": compare_log_z}
        parts["real"] = compare_real
        parts[args.part](args)


if __name__ == "__main__":
    main()
