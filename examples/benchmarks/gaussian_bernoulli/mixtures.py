"""Densities of mixtures of three normal distributions: Fig. 1 of Liao et al. (2022).

    python examples/benchmarks/gaussian_bernoulli/mixtures.py
    python examples/benchmarks/gaussian_bernoulli/mixtures.py --released --epochs 2000

Printed are test log-densities, with log Z by quadrature, and the fraction of each component among
samples, for the five samplers and for scikit-learn's GaussianMixture. Chains are annealed from
noise, and the optimizer is Adam. Training starts at small variances, and with hidden units whose
thresholds pass through rows of the data; otherwise nearly all hidden units vanish.

With ``--released`` the mixtures and settings are those of the code that the authors released: 1000
rows, 256 hidden units with weights from N(0, 1 / 258), biases of 0, variances of 1, chains of 100
steps from noise in which every step counts, draws of hidden units in the gradient, and gradient
ascent with a rate of 0.01 that decreases to 0. In that code, Langevin and Gibbs-Langevin chains
without acceptance run at a temperature of 100, the size of a batch; ``--temperature 1`` samples
from the model itself.
"""

import argparse
import time
from dataclasses import replace

import numpy as np
from _paper import SAMPLERS, heading, progress, table
from sklearn.mixture import GaussianMixture

from skrbm import GaussianBernoulliRBM

ANGLES = np.pi / 2 + 2 * np.pi / 3 * np.arange(3)
MEANS = 3 * np.column_stack([np.cos(ANGLES), np.sin(ANGLES)])
RELEASED = np.array([[-5.0, -5.0], [5.0, -5.0], [0.0, 5.0]])
MIXTURES = {
    "isotropic": (MEANS, np.full((3, 2), 0.5)),
    "anisotropic": (MEANS, np.array([[0.3, 1.0], [1.0, 0.3], [0.6, 0.6]])),
    "released isotropic": (RELEASED, np.ones((3, 2))),
    "released anisotropic": (RELEASED, np.array([[1.25, 0.5], [1.25, 0.5], [0.5, 1.25]])),
}
"""Means and standard deviations of the three components."""


def draw(mixture, n, rng):
    """Return ``n`` rows of the mixture."""
    which = rng.integers(3, size=n)
    means, deviations = mixture
    return means[which] + deviations[which] * rng.standard_normal((n, 2))


def log_components(mixture, X):
    """Return the log-density of each component, weighted by 1/3."""
    means, deviations = mixture
    squares = (((X[:, None] - means) / deviations) ** 2).sum(axis=2)
    return -0.5 * squares - np.log(deviations).sum(axis=1) - np.log(2 * np.pi) - np.log(3)


def log_densities(rbm, X, step=0.04, reach=14.0):
    """Return log p of rows, with log Z by a sum over a grid."""
    axis = np.arange(-reach, reach, step)
    parts = []
    for x in axis:
        grid = np.column_stack([np.full(axis.size, x), axis])
        parts.append(np.logaddexp.reduce(-rbm.free_energy(grid)))
    return -rbm.free_energy(X) - np.logaddexp.reduce(parts) - 2 * np.log(step)


def shares(mixture, V):
    """Return the share of each component among rows, by the nearest in density."""
    return np.bincount(log_components(mixture, V).argmax(axis=1), minlength=3) / len(V)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--n-components", type=int, default=32)
    parser.add_argument("--n-steps", type=int, default=10)
    parser.add_argument("--burn-in", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=1000)
    parser.add_argument("--epochs", type=int, default=900)
    parser.add_argument("--learning-rate", type=float, default=0.04)
    parser.add_argument("--optimizer", choices=("adam", "sgd"), default="adam")
    parser.add_argument("--released", action="store_true")
    parser.add_argument("--temperature", type=float, default=100.0)
    parser.add_argument("--kinds", nargs="+", choices=MIXTURES)
    parser.add_argument("--samplers", nargs="+", default=list(SAMPLERS))
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    heading(__file__, args)
    rows = []
    for kind in args.kinds or [kind for kind in MIXTURES if ("released" in kind) == args.released]:
        rows += compare(kind, args)
    table(("mixture", "model", "held out", "below truth", "shares", "acceptance", "seconds"), rows)


def compare(kind, args):
    """Return the rows of the table for one mixture."""
    mixture, rng = MIXTURES[kind], np.random.default_rng(0)
    n_rows = 1000 if args.released else args.rows
    X, X_test = draw(mixture, n_rows, rng), draw(mixture, 10_000, rng)
    truth = np.logaddexp.reduce(log_components(mixture, X_test), axis=1).mean()
    rows = [(kind, "truth", truth, 0.0, "", "", "")]
    gmm = GaussianMixture(3, random_state=0).fit(X)
    V = gmm.sample(10_000)[0]
    score = gmm.score(X_test)
    rows.append((kind, "GaussianMixture", score, truth - score, text(shares(mixture, V)), "", ""))
    for name in args.samplers:
        begin = time.perf_counter()
        rbm = (released if args.released else learned)(X, args, SAMPLERS[name])
        seconds = time.perf_counter() - begin
        score = log_densities(rbm, X_test).mean()
        V = rbm.sample(10_000, n_steps=100, random_state=1)
        rate = rbm.history_.get("acceptance", [float("nan")])[-1]
        share = text(shares(mixture, V))
        rows.append((kind, name, score, truth - score, share, rate, seconds))
        progress(rows[-1])
    return rows


def start(X, n_components, rng):
    """Return the machine to begin with."""
    variances = 0.1 * X.var(axis=0)
    components = np.sqrt(variances) * rng.standard_normal((n_components, X.shape[1]))
    rows = X[rng.integers(len(X), size=n_components)]
    hidden = -(components / variances * rows).sum(axis=1)
    visible = X.mean(axis=0) - components.sum(axis=0) / 2
    return GaussianBernoulliRBM.from_parameters(components, hidden, visible, variances)


def learned(X, args, sampler):
    """Return a machine that has learned from annealed chains."""
    init = start(X, args.n_components, np.random.default_rng(args.seed))
    rbm = GaussianBernoulliRBM(
        args.n_components,
        inference=replace(sampler, start="annealed", n_steps=args.n_steps, burn_in=args.burn_in),
        optimizer=args.optimizer,
        learning_rate=args.learning_rate,
        batch_size=args.batch_size,
        n_iter=args.epochs,
        init=init,
        random_state=args.seed,
    )
    return rbm.fit(X)


def released(X, args, sampler):
    """Return a machine that has learned with the settings of the released code."""
    n, rng = 256, np.random.default_rng(args.seed)
    W = rng.standard_normal((n, 2)) / np.sqrt(n + 2)
    sampler = replace(sampler, n_steps=100, burn_in=0, start="noise")
    if getattr(sampler, "adjust_after", 0) is None:
        sampler = replace(
            sampler,
            step_size=10.0 / 100,
            step_scale="mean_variance",
            temperature=args.temperature,
        )
    rbm = GaussianBernoulliRBM(
        n,
        inference=sampler,
        gradient="joint",
        optimizer="sgd",
        learning_rate=0.01,
        batch_size=100,
        n_iter=args.epochs,
        init=GaussianBernoulliRBM.from_parameters(W, np.zeros(n), np.zeros(2), np.ones(2)),
        random_state=args.seed,
    )
    return rbm.fit(X)


def text(values):
    return " ".join(f"{value:.3f}" for value in values)


if __name__ == "__main__":
    main()
