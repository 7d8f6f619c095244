"""Denoising the binary symmetric channel: Figs. 8 and 9 of Tramel et al. (2018).

    python examples/benchmarks/tap_machines/fig8_9_denoising.py [--hidden N ...] [--out PNG]

RBMs of several sizes are trained on all 60 000 thresholded images of MNIST, in batches of 100 with
three sweeps that start at the states of Gibbs chains. Bits of test images are flipped with
probability p. The score is Matthews' correlation between the rounded posterior means and the true
bits of each image (0 if one of them is constant), averaged over images, with its standard error.

OPE is the pointwise estimate, which takes bits to be independent with the means of the training
images; 1-NN is the nearest training image; TAP is one solution of the TAP equations, starting from
the pointwise estimate; Gibbs is the posterior mean over the second half of ``--chain`` sweeps from
the noisy image, for ``--chain-rows`` images.
"""

import argparse

import numpy as np
from _paper import PLAIN, heading, mnist, progress, table

from skrbm import TAPRBM
from skrbm.arrays import make_rng
from skrbm.inference import TAP, Gibbs, sample
from skrbm.machine import conditional


def trained(n_hidden, n_epochs, X):
    """Return a TAPRBM."""
    settings = {"batch_size": 100, "inference": TAP(max_iter=3, start="chains")}
    settings |= {"n_iter": n_epochs, "random_state": 0}
    return TAPRBM(n_hidden, **PLAIN | settings).fit(X)


def flipped(X, p):
    """Return X with bits flipped, the same ones for each method."""
    noise = np.random.default_rng(round(1000 * p)).random(X.shape)
    return (X != (noise < p)).astype(np.float32)


def pointwise(mean, Y, p):
    one, zero = np.where(Y > 0, 1 - p, p) * mean, np.where(Y > 0, p, 1 - p) * (1 - mean)
    return one / (one + zero)


def nearest(X, Y):
    """Return the rows of X that differ from those of Y in the fewest bits."""
    exemplars = X.astype(np.float32)
    bits = exemplars.sum(axis=1)
    blocks = np.array_split(Y, -(-len(Y) // 100))
    return X[np.concatenate([(bits - 2 * Y @ exemplars.T).argmin(axis=1) for Y in blocks])]


def gibbs_means(rbm, Y, p, n_sweeps):
    """Return the mean over the second half of a chain for each row, started at the row."""
    machine = rbm.machine_.tilted(0, np.log((1 - p) / p) * (2 * Y - 1))
    rng = make_rng(0, machine.weights[0])
    chains = sample(Gibbs(), machine, Gibbs().state_at(machine, Y, rng), rng, n_sweeps // 2)
    total = 0.0
    for _ in range(n_sweeps // 2):
        chains = sample(Gibbs(), machine, chains, rng, 1)
        total = total + machine.units[0].mean(conditional(machine, 0, chains.layers))
    return total / (n_sweeps // 2)


def matthews(truth, means):
    """Return Matthews' correlation along the last axis, 0 where one of both is constant."""
    truth, guess = truth.astype(float), (means > 0.5).astype(float)
    t, g = truth.mean(axis=-1), guess.mean(axis=-1)
    spread = np.sqrt(t * (1 - t) * g * (1 - g))
    covariance = (truth * guess).mean(axis=-1) - t * g
    return np.divide(covariance, spread, out=np.zeros_like(spread), where=spread > 0)


def methods(rbms, mean, X, args):
    """Return functions (Y, p) -> posterior means, by name."""
    found = {"OPE": lambda Y, p: pointwise(mean, Y, p), "1-NN": lambda Y, p: nearest(X, Y)}
    for n, rbm in rbms.items():
        found[f"{n} TAP"] = lambda Y, p, rbm=rbm: rbm.denoise(
            Y, flip_probability=p, prior_mean=mean, random_state=0
        )
        found[f"{n} Gibbs"] = lambda Y, p, rbm=rbm: gibbs_means(
            rbm, Y[: args.chain_rows], p, args.chain
        )
    return found


def draw(pictures, rows, flips, path):
    """Draw Fig. 8, the scores over p, and Fig. 9, the estimates of one digit."""
    import matplotlib.pyplot as plt

    names = [name for name in pictures if "Gibbs" not in name]
    curves = [name for name in names if name not in ("truth", "noisy")]
    height = 1.1 * len(names)
    figure = plt.figure(figsize=(7.5, 3.2 + height), layout="constrained")
    above, below = figure.subfigures(2, 1, height_ratios=(3.2, height))
    axis = above.subplots()
    colours = {}
    for name in curves:
        curve = [row[2] for row in rows if row[0] == name]
        size = name.split()[0]
        colour = "k" if size in ("OPE", "1-NN") else colours.setdefault(size, f"C{len(colours)}")
        style = "--" if name == "OPE" or "TAP" in name else "-"
        axis.plot(flips, curve, style, color=colour, label=name)
    axis.set(xlabel="flip probability", ylabel="Matthews' correlation")
    axis.legend()
    for axis, (name, p) in zip(
        below.subplots(len(names), len(flips)).flat,
        [(name, p) for name in names for p in flips],
        strict=True,
    ):
        axis.imshow(pictures[name][p].reshape(28, 28), cmap="gray_r", vmin=0, vmax=1)
        axis.set(xticks=[], yticks=[])
        if name == names[0]:
            axis.set_title(f"p = {p:g}", fontsize=10)
        if p == flips[0]:
            axis.set_ylabel(name, fontsize=10, rotation=0, ha="right", va="center")
    figure.savefig(path, dpi=100)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hidden", type=int, nargs="*", default=[25, 50, 100, 500])
    parser.add_argument("--epochs", type=int, nargs="*", default=[15, 15, 15, 10])
    parser.add_argument("--images", type=int, default=1000, help="noisy images")
    parser.add_argument("--flips", type=float, nargs="*", default=[0.02, 0.1, 0.2, 0.3, 0.4, 0.45])
    parser.add_argument("--chain", type=int, default=200, help="sweeps of Gibbs sampling")
    parser.add_argument("--chain-rows", type=int, default=200)
    parser.add_argument("--out", help="where to save the picture")
    args = parser.parse_args()
    heading(__file__, args)
    X, truth = mnist("train")[0], mnist("test", args.images)[0]
    sizes = zip(args.hidden, args.epochs, strict=True)
    rbms = {n_hidden: trained(n_hidden, n_epochs, X) for n_hidden, n_epochs in sizes}
    rows = []
    pictures = {
        "truth": {p: truth[0] for p in args.flips},
        "noisy": {p: flipped(truth, p)[0] for p in args.flips},
    }
    for name, method in methods(rbms, X.mean(axis=0), X, args).items():
        for p in args.flips:
            means = method(flipped(truth, p), p)
            scores = matthews(truth[: len(means)], means)
            error = float(scores.std() / np.sqrt(len(scores)))
            rows.append((name, p, float(scores.mean()), error, len(means)))
            progress(rows[-1])
            pictures.setdefault(name, {})[p] = means[0]
    table(("method", "p", "correlation", "se", "images"), rows)
    if args.out:
        draw(pictures, rows, args.flips, args.out)


if __name__ == "__main__":
    main()
