"""RBMs trained on images by the settings of the released code, and by its loop (Table 1, Fig. 3a).

    python examples/benchmarks/gaussian_bernoulli/released.py [--rows 10000] [--n-components 512]
        [--epochs 100] [--n-steps 20] [--samplers Gibbs Gibbs-Langevin] [--seeds 0] [--no-loop]

The code that Liao et al. (2022) released scales all pixels by one mean and one standard deviation,
starts at weights from N(0, 1 / (n + m)), follows the gradient of drawn hidden units with a rate of
0.01, and divides energies by the size of the batch, so that Gibbs-Langevin chains run at a
temperature of this size. Samples end with the mean of the visible units given the hidden ones.
``learned`` does this with :class:`~skrbm.GaussianBernoulliRBM`; ``loop`` is the loop of the
released code (``grbm.py``, ``main.py``) rewritten in NumPy. They share data, start and settings,
but no random numbers.

Printed are, for each sampler and seed, the Fréchet distance between samples and test images in the
features of a small classifier (not the paper's Inception FID), the mean and the smallest
log-variance of scaled pixels, and seconds. The paper has 4096 hidden units, 60 000 images, 3000
epochs and chains of 100 steps.
"""

import argparse
import time

import numpy as np
from _paper import FrechetDistance, heading, images, progress, table
from scipy.special import expit

from skrbm import GaussianBernoulliRBM
from skrbm.inference import Gibbs, GibbsLangevin

MEAN, DEVIATION = 0.1307, 0.3081  # of all pixels of MNIST, from 0 to 1
ETA, INNER, SAMPLED = 20.0, 10, 100  # Langevin step, inner steps, chains in sampling


def scaled(X):
    return ((X / 255 - MEAN) / DEVIATION).astype(np.float32)


def grey(V):
    return 255 * (V * DEVIATION + MEAN)


def start(n, m, seed):
    """Return initial weights, of shape (n_visible, n_hidden)."""
    return np.random.default_rng(seed).standard_normal((n, m), dtype=np.float32) / np.sqrt(n + m)


def sampler_of(name, n_steps, batch):
    """Return a sampler whose chains start at noise and see energies divided by the batch size."""
    if name == "Gibbs":
        return Gibbs(n_steps, start="noise", burn_in=0)
    return GibbsLangevin(
        ETA / batch,
        adjust_after=None,
        step_scale="mean_variance",
        temperature=batch,
        n_steps=n_steps,
        start="noise",
        burn_in=0,
        n_inner_steps=INNER,
    )


def learned(X, name, args, seed):
    """Return samples and log-variances of the estimator."""
    W, n = start(X.shape[1], args.n_components, seed), X.shape[1]
    arrays = (W.T, np.zeros(W.shape[1]), np.zeros(n), np.ones(n))
    arrays = [part.astype(np.float32) for part in arrays]
    rbm = GaussianBernoulliRBM(
        args.n_components,
        inference=sampler_of(name, args.n_steps, args.batch_size),
        gradient="joint",
        standardize=False,
        learning_rate=args.rate,
        batch_size=args.batch_size,
        n_iter=args.epochs,
        init=GaussianBernoulliRBM.from_parameters(*arrays),
        random_state=seed,
    ).fit(X)
    rbm.set_params(inference=sampler_of(name, args.n_steps - 1, SAMPLED))
    V = rbm.sample(args.samples, random_state=seed)
    H = np.random.default_rng(seed).random((len(V), args.n_components)) < rbm.transform(V)
    return rbm.intercept_visible_ + H @ rbm.components_, np.log(rbm.variances_)


class Loop:
    """The released code's training and sampling."""

    def __init__(self, n, m, seed):
        self.W = start(n, m, seed)
        self.b, self.mu, self.log_var = (np.zeros(k, np.float32) for k in (m, n, n))
        self.rng = np.random.default_rng([seed, 1])

    @property
    def var(self):
        return np.maximum(np.exp(self.log_var), np.float32(1e-8))

    def hidden(self, v):
        p = expit((v / self.var) @ self.W + self.b)
        return (self.rng.random(p.shape, dtype=np.float32) < p).astype(np.float32)

    def noise(self, v):
        return self.rng.standard_normal(v.shape, dtype=np.float32)

    def chains(self, v, n_steps, name):
        """Yield (v, h) of each step."""
        var, h = self.var, self.hidden(v)
        etas = ETA * var.mean() * 0.5 * (1 + np.cos(np.pi * np.arange(INNER) / INNER))
        for _ in range(n_steps):
            means = self.mu + h @ self.W.T
            if name == "Gibbs":
                v = means + self.noise(v) * np.sqrt(var)
            else:
                for eta in etas.astype(np.float32):
                    gradient = (v - means) / var / len(v)
                    v = v - eta * gradient + self.noise(v) * np.sqrt(2 * eta)
            h = self.hidden(v)
            yield v, h

    def gradients(self, v, h):
        """Return the mean gradients of the energy."""
        scaled, pulled = v / self.var, h @ self.W.T
        squares = -0.5 * (v - self.mu) ** 2 / self.var + scaled * pulled
        W = -(scaled.T @ h) / len(v)
        return W, -h.mean(axis=0), ((self.mu - v) / self.var).mean(axis=0), squares.mean(axis=0)

    def step(self, v, name, n_steps, rate):
        """Take one step of contrastive divergence from noise, with gradients of norm 10 at most."""
        data = self.gradients(v, self.hidden(v))
        kept = [self.gradients(*pair) for pair in self.chains(self.noise(v), n_steps, name)]
        model = [np.mean(parts, axis=0) for parts in zip(*kept, strict=True)]
        steps = [a - b for a, b in zip(data, model, strict=True)]
        norm = np.sqrt(sum((part**2).sum() for part in steps))
        rate = rate * min(1.0, 10.0 / norm)
        for part, step in zip((self.W, self.b, self.mu, self.log_var), steps, strict=True):
            part -= (rate * step).astype(np.float32)


def loop(X, name, args, seed):
    """Return samples and log-variances of the released loop."""
    found = Loop(X.shape[1], args.n_components, seed)
    for epoch in range(args.epochs):
        rate = args.rate * 0.5 * (1 + np.cos(np.pi * epoch / args.epochs))
        order = found.rng.permutation(len(X))
        for first in range(0, len(X), args.batch_size):
            rows = X[order[first : first + args.batch_size]]
            found.step(rows, name, args.n_steps, rate)
    V = []
    for _ in range(0, args.samples, SAMPLED):
        v = found.rng.standard_normal((SAMPLED, X.shape[1]), dtype=np.float32)
        *_, (_, h) = found.chains(v, args.n_steps - 1, name)
        V.append(found.mu + h @ found.W.T)
    return np.concatenate(V), np.log(found.var)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--n-components", type=int, default=512)
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--n-steps", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=512)
    parser.add_argument("--rate", type=float, default=0.01)
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--samplers", nargs="+", default=["Gibbs-Langevin", "Gibbs"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--no-loop", action="store_true")
    args = parser.parse_args()
    heading(__file__, args)
    X, y = images("mnist", "train", args.rows)
    distance = FrechetDistance(X, y, images("mnist", "test", 5000)[0])
    rows = [("training images", "", "", distance(X[: args.samples]), "", "", "")]
    for name in args.samplers:
        for seed in args.seeds:
            for by in (learned,) if args.no_loop else (learned, loop):
                begin = time.perf_counter()
                V, log_var = by(scaled(X), name, args, seed)
                spent = time.perf_counter() - begin
                log_var = float(log_var.mean()), float(log_var.min())
                rows.append((name, by.__name__, seed, distance(grey(V)), *log_var, spent))
                progress(rows[-1])
    names = ("sampler", "by", "seed", "distance", "mean log-variance", "smallest", "seconds")
    table(names, rows)


if __name__ == "__main__":
    main()
