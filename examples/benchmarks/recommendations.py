"""Recommendations: predicted ratings, and items that users choose next.

    python examples/benchmarks/recommendations.py ratings [--seeds 3]
    python examples/benchmarks/recommendations.py choices [--seeds 3]

Data are generated in the shape of MovieLens 100k: 943 users and 1656 items, some of them popular,
of which each user rates or chooses 20 to 700. A fifth of the entries is held out, so that 5 % are
known.

ratings: 1 to 5, generated from effects of items and users, 8 factors and noise. Printed are root
mean squared errors of held-out ratings. Alternating least squares (ALS) and RatingRBM both start
from the effects. For ALS the best of six combinations of the number of factors and the penalty is
selected on the held-out ratings; RatingRBM has default settings.

choices: an item is chosen or not, depending on 12 sparse factors and its popularity. Printed is the
recall among the 20 highest scores of items that were not chosen in training. For EASE (Steck 2019)
the best of three penalties is selected on the held-out choices; RBM and TAPRBM have default
settings, except for the 50 units of TAPRBM.
"""

import argparse
import time
import warnings

import numpy as np
import scipy.sparse as sp
from _common import heading, progress, table
from threadpoolctl import threadpool_limits

from skrbm import RBM, TAPRBM, RatingRBM

N_USERS, N_ITEMS, HELD_OUT = 943, 1656, 0.2


def numbers_of_items(rng):
    """Return how many items each user rates: 104 on average, 20 to 700."""
    numbers = rng.lognormal(0, 0.9, N_USERS)
    return np.clip(numbers * (0.063 * N_ITEMS / numbers.mean()), 20, 700).astype(int)


def chosen_items(log_p, numbers, rng):
    """Return which items users have, drawn without replacement, a bool array."""
    keys = log_p + rng.gumbel(size=log_p.shape)
    return keys.argsort(axis=1).argsort(axis=1) >= log_p.shape[1] - numbers[:, None]


def ratings(rng, rank=8):
    """Return ratings of training and test, with NaN elsewhere."""
    users, items = (rng.normal(size=(n, rank)) / rank**0.25 for n in (N_USERS, N_ITEMS))
    of_users, of_items = 0.4 * rng.normal(size=N_USERS), 0.5 * rng.normal(size=N_ITEMS)
    factors, popular = users @ items.T, -np.log(np.arange(N_ITEMS) + 20.0)
    seen = chosen_items(popular + 0.5 * factors + 0.3 * of_items, numbers_of_items(rng), rng)
    means = 3.6 + of_users[:, None] + of_items + 0.55 * factors
    found = np.clip(np.rint(means + 0.85 * rng.normal(size=seen.shape)), 1, 5)
    test = seen & (rng.random(seen.shape) < HELD_OUT)
    return np.where(seen & ~test, found, np.nan), np.where(test, found, np.nan)


def effects(X, users=5.0, items=10.0):
    """Return the ratings by the mean and penalized effects of users and items."""
    seen, mean = ~np.isnan(X), np.nanmean(X)
    apart, of_users = np.where(seen, X - mean, 0.0), np.zeros((len(X), 1))
    for _ in range(15):
        of_items = (apart - seen * of_users).sum(axis=0) / (seen.sum(axis=0) + items)
        of_users = (apart - seen * of_items).sum(axis=1, keepdims=True)
        of_users /= seen.sum(axis=1, keepdims=True) + users
    return mean + of_users + of_items


def alternating_least_squares(X, rank, penalty, rng, n_iter=15):
    """Return the ratings by effects and a product of factors, which are found in turn."""
    seen, base, ridge = ~np.isnan(X), effects(X), penalty * np.eye(rank)
    apart = np.where(seen, X - base, 0.0)
    users, items = (0.1 * rng.normal(size=(n, rank)) for n in X.shape)
    for _ in range(n_iter):
        for own, other, rows, known in (
            (users, items, apart, seen),
            (items, users, apart.T, seen.T),
        ):
            for i in range(len(own)):
                part = other[known[i]]
                own[i] = np.linalg.solve(part.T @ part + ridge, part.T @ rows[i, known[i]])
    return base + users @ items.T


def choices(rng, rank=12):
    """Return choices of training, a sparse array, and of test, a bool array."""
    users, items = (
        rng.normal(size=(n, rank)) * (rng.random((n, rank)) < 0.3) for n in (N_USERS, N_ITEMS)
    )
    popular = -1.2 * np.log(np.arange(N_ITEMS) + 20.0)
    seen = chosen_items(popular + 1.4 * users @ items.T, numbers_of_items(rng), rng)
    test = seen & (rng.random(seen.shape) < HELD_OUT)
    return sp.csr_array((seen & ~test).astype(np.float32)), test


def cosine(X):
    """Return the scores of items by their cosine similarities."""
    rows = X.toarray()
    products = rows.T @ rows
    norms = np.sqrt(np.diag(products)) + 1e-9
    similar = products / norms / norms[:, None]
    np.fill_diagonal(similar, 0)
    return X @ similar


def ease(X, penalty):
    """Return the scores by a linear model of each item given the others (Steck 2019)."""
    rows = X.toarray().astype(np.float64)
    inverse = np.linalg.inv(rows.T @ rows + penalty * np.eye(rows.shape[1]))
    weights = inverse / -np.diag(inverse)
    np.fill_diagonal(weights, 0)
    return X @ weights


def recall(scores, X, test, k=20):
    """Return the mean part of the held-out choices of a user among the best k, at most k."""
    scores = np.where(X.toarray() > 0, -np.inf, scores)
    best = np.argpartition(-scores, k, axis=1)[:, :k]
    found, n = np.take_along_axis(test, best, axis=1).sum(axis=1), test.sum(axis=1)
    return float(np.mean(found[n > 0] / np.minimum(n[n > 0], k)))


def timed(function, *args):
    """Return what a function returns, and the processor time that it takes."""
    begin = time.process_time()
    return function(*args), time.process_time() - begin


def measured_ratings(seed):
    """Yield rows of the table: name, seconds of fit and of prediction, error."""
    X, test = ratings(np.random.default_rng(seed))

    def error(found):
        return float(np.sqrt(np.nanmean((np.clip(found, 1, 5) - test) ** 2)))

    found, seconds = timed(effects, X)
    yield "effects of users and items", seconds, 0.0, error(found)
    runs = [
        timed(alternating_least_squares, X, rank, penalty, np.random.default_rng(seed))
        for rank in (4, 8)
        for penalty in (5, 10, 20)
    ]
    best, seconds = min(((error(found), seconds) for found, seconds in runs), key=lambda r: r[0])
    yield "ALS, best of six", seconds, 0.0, best
    rbm, fit = timed(RatingRBM(random_state=seed).fit, X)
    found, seconds = timed(rbm.impute, X)
    yield "RatingRBM()", fit, seconds, error(found)


def measured_choices(seed):
    """Yield rows of the table: name, seconds of fit and of scores, recall."""
    X, test = choices(np.random.default_rng(seed))
    popularity = np.tile(X.sum(axis=0), (X.shape[0], 1))
    yield "popularity", 0.0, 0.0, recall(popularity, X, test)
    found, seconds = timed(cosine, X)
    yield "cosine of items", 0.0, seconds, recall(found, X, test)
    runs = [timed(ease, X, penalty) for penalty in (100, 200, 400)]
    best = max(recall(found, X, test) for found, _ in runs)
    yield "EASE, best of three", 0.0, runs[0][1], best
    yield "TAPRBM(50)", *of_machine(TAPRBM(50, random_state=seed), X, test)
    yield "RBM()", *of_machine(RBM(random_state=seed), X, test)


def of_machine(rbm, X, test):
    """Return seconds of fit and of scores, and the recall."""
    _, fit = timed(rbm.fit, X)
    found, seconds = timed(lambda: rbm.inverse_transform(rbm.transform(X)))
    return fit, seconds, recall(found, X, test)


SCORES = {"ratings": "root mean squared error", "choices": "recall at 20"}


def compare(task, seeds):
    """Print the table of a task, means and standard deviations over seeds."""
    measured = {"ratings": measured_ratings, "choices": measured_choices}[task]
    found, rows = {}, []
    with threadpool_limits(1):
        for seed in range(seeds):
            for name, *numbers in measured(seed):
                progress([seed, name, *numbers])
                found.setdefault(name, []).append(numbers)
    for name, numbers in found.items():
        mean, std = np.mean(numbers, axis=0), np.std(numbers, axis=0, ddof=1)
        rows.append([name, *(f"{m:.2f}" for m in mean[:2]), f"{mean[2]:.4f} ± {std[2]:.4f}"])
    table(["model", "fit (s)", "prediction (s)", SCORES[task]], rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("task", choices=[*SCORES])
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    heading(__file__, args)
    warnings.simplefilter("ignore")
    compare(args.task, args.seeds)


if __name__ == "__main__":
    main()
