"""Denoising the binary symmetric channel: Figs. 8 and 9 of Tramel et al. (2018).

    python examples/benchmarks/tap_machines/fig8_9_denoising.py [--hidden N ...] [--out PNG]

Thresholded MNIST. Machines of several sizes are trained on all 60 000 images, and the bits of
held-out ones are flipped with probability p. The score is Matthews' correlation of the rounded
posterior means with the true bits: of each image, averaged (0 where one of both is constant), with
its standard error, and of the bits of all images together.

Beside each other stand

OPE    the pointwise estimate, of independent bits with the means of the training images;
1-NN   the training image that differs from the noisy one in the fewest bits;
TAP    one solution of the TAP equations, from the pointwise estimate, as in the paper;
mean   the mean of ``--starts`` solutions, from there and from draws of the independent bits, if
       that is more than one;
Gibbs  the posterior mean by ``--chain`` sweeps of block Gibbs sampling from the noisy image, of
       which the first half is left out, for ``--chain-rows`` images: what the machine itself says,
       as far as the chain mixes.

The machines are trained in batches of 100 with three sweeps from the states of Gibbs chains, which
gives the most likelihood for the time and few false modes for noisy images to fall into;
``--epochs`` sets how long for each size. ``--machines`` names a folder where trained machines are
kept, and are found again. ``--split validation`` scores the last training images instead of test
images, for choices.
"""

import argparse
import time
from pathlib import Path

import numpy as np
from _paper import PLAIN, heading, mnist, table

from skrbm import TAPRBM
from skrbm.arrays import make_rng
from skrbm.inference import TAP, Gibbs, sample
from skrbm.machine import conditional


def trained(n_hidden, n_epochs, X, folder):
    """Return a machine, from the folder if it is there, and the seconds that its training took."""
    path = None if folder is None else Path(folder) / f"{n_hidden}_{n_epochs}_{len(X)}.npz"
    if path is not None and path.exists():
        found = np.load(path)
        parts = [found[name] for name in ("components", "hidden", "visible")]
        return TAPRBM.from_parameters(*parts, random_state=0), float(found["seconds"])
    begin = time.perf_counter()
    settings = {"starts": "chains", "batch_size": 100, "inference": TAP(max_iter=3)}
    settings |= {"n_iter": n_epochs, "random_state": 0}
    rbm = TAPRBM(n_hidden, **PLAIN | settings).fit(X)
    seconds = time.perf_counter() - begin
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        biases = {"hidden": rbm.intercept_hidden_, "visible": rbm.intercept_visible_}
        np.savez(path, components=rbm.components_, **biases, seconds=seconds)
    return rbm, seconds


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
    chains = sample(Gibbs(), machine, Gibbs().start(machine, Y, rng), rng, n_sweeps // 2)
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


def scores(truth, means):
    """Return the mean over images, its standard error and the score of all bits."""
    each = matthews(truth, means)
    pooled = float(matthews(truth.ravel()[None], means.ravel()[None])[0])
    return float(each.mean()), float(each.std() / np.sqrt(len(each))), pooled


def methods(machines, mean, X, args):
    """Return functions (Y, p) -> posterior means, by name."""
    found = {"OPE": lambda Y, p: pointwise(mean, Y, p), "1-NN": lambda Y, p: nearest(X, Y)}
    for n, rbm in machines.items():
        for name, n_starts in {"TAP": 1, "mean": args.starts}.items():
            if name == "mean" and n_starts == 1:
                continue
            found[f"{n} {name}"] = lambda Y, p, rbm=rbm, n_starts=n_starts: rbm.denoise(
                Y, flip_probability=p, prior_mean=mean, n_starts=n_starts, random_state=0
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
    parser.add_argument("--rows", type=int, default=60000, help="training images")
    parser.add_argument("--images", type=int, default=1000, help="noisy images")
    parser.add_argument("--flips", type=float, nargs="*", default=[0.02, 0.1, 0.2, 0.3, 0.4, 0.45])
    parser.add_argument("--starts", type=int, default=1)
    parser.add_argument("--chain", type=int, default=200, help="sweeps of Gibbs sampling")
    parser.add_argument("--chain-rows", type=int, default=200)
    parser.add_argument("--split", choices=["test", "validation"], default="test")
    parser.add_argument("--machines", help="folder of trained machines")
    parser.add_argument("--out", help="where to save the picture")
    args = parser.parse_args()
    heading(__file__, args)
    X = mnist("train", args.rows)[0]
    truth = mnist("test", args.images)[0] if args.split == "test" else X[-args.images :]
    X = X if args.split == "test" else X[: -args.images]
    machines = {}
    for n_hidden, n_epochs in zip(args.hidden, args.epochs, strict=True):
        machines[n_hidden], seconds = trained(n_hidden, n_epochs, X, args.machines)
        print(f"{n_hidden} hidden units, {n_epochs} epochs: trained in {seconds:.0f} s", flush=True)
    rows = []
    pictures = {
        "truth": {p: truth[0] for p in args.flips},
        "noisy": {p: flipped(truth, p)[0] for p in args.flips},
    }
    for name, method in methods(machines, X.mean(axis=0), X, args).items():
        for p in args.flips:
            begin = time.perf_counter()
            means = method(flipped(truth, p), p)
            seconds = time.perf_counter() - begin
            rows.append((name, p, *scores(truth[: len(means)], means), len(means), seconds))
            print(f"{name}, p = {p:g}: {rows[-1][2]:.3f} in {seconds:.1f} s", flush=True)
            pictures.setdefault(name, {})[p] = means[0]
    print()
    table(("method", "p", "mean MCC", "se", "pooled MCC", "images", "s"), rows)
    print()
    summary = [
        (name, *(f"{row[2]:.3f}" for row in rows if row[0] == name))
        for name in dict.fromkeys(row[0] for row in rows)
    ]
    table(("mean MCC at p =", *(f"{p:g}" for p in args.flips)), summary)
    if args.out:
        draw(pictures, rows, args.flips, args.out)


if __name__ == "__main__":
    main()
