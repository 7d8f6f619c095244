"""Samples from noise of RBMs trained on images, by five samplers (Table 1, Figs. 3 to 7).

    python examples/benchmarks/gaussian_bernoulli/images.py --samplers Gibbs Gibbs-Langevin \
        [--data fashion-mnist] [--n-components 1024] [--epochs 50] [--seeds 0 1 2]

For each sampler and seed, the script prints the Fréchet distance between samples and test images in
the features of a small classifier that it trains itself (not the paper's Inception FID), the
smallest learned variance (of standardized pixels) and the seconds. With ``--out`` it saves a sheet
of samples for each sampler, with intermediate states and filters. Normal noise of ``--noise`` grey
levels is added to the training images: without it, pixels that are nearly always black have
standardized values of a hundred or more, and dominate the gradient. Adjusted samplers accept or
reject from step ``--adjust-after`` on.
"""

import argparse
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from _paper import (
    SAMPLERS,
    FrechetDistance,
    filters,
    heading,
    images,
    progress,
    show,
    table,
)

from skrbm import GaussianBernoulliRBM


def options(doc):
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("--data", choices=["mnist", "fashion-mnist"], default="mnist")
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--n-components", type=int, default=1024)
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--n-steps", type=int, default=20)
    parser.add_argument("--burn-in", type=int, default=0)
    parser.add_argument("--noise", type=float, default=10.0)
    parser.add_argument("--batch-size", type=int, default=512)
    parser.add_argument("--learning-rate", type=float, default=0.1)
    parser.add_argument("--optimizer", choices=("sgd", "adam"), default="sgd")
    parser.add_argument("--step-size", type=float, default=0.2)
    parser.add_argument("--adjust-after", type=int, default=0)
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--out", type=Path, default=None)
    return parser


def learn(args, X, seed, sampler):
    """Return a fitted machine and the seconds that it took."""
    rbm = GaussianBernoulliRBM(
        args.n_components,
        inference=replace(sampler, n_steps=args.n_steps, burn_in=args.burn_in),
        batch_size=args.batch_size,
        learning_rate=args.learning_rate,
        optimizer=args.optimizer,
        n_iter=args.epochs,
        random_state=seed,
    )
    noise = np.random.default_rng(seed).standard_normal(X.shape, dtype=np.float32)
    begin = time.perf_counter()
    rbm.fit(X + args.noise * noise)
    return rbm, time.perf_counter() - begin


def relative_variances(rbm):
    """Return learned variances of standardized pixels, of those that vary."""
    variances, scale = rbm.variances_, rbm.noise_scale_
    return (variances / np.where(scale > 0, scale, 1) ** 2)[scale > 0]


def main():
    parser = options(__doc__)
    parser.add_argument("--samplers", nargs="+", default=list(SAMPLERS), choices=list(SAMPLERS))
    args = parser.parse_args()
    heading(__file__, args)
    X, y = images(args.data, "train", args.rows)
    X_test, _ = images(args.data, "test", 5000)
    distance = FrechetDistance(X, y, X_test)
    rows, sheet = [("training images", "", distance(X[: args.samples]), "", "")], {}
    for name in args.samplers:
        sampler = SAMPLERS[name]
        if sampler.step_size is not None:
            sampler = replace(sampler, step_size=args.step_size)
            if sampler.adjust_after is not None:
                sampler = replace(sampler, adjust_after=args.adjust_after)
        for seed in args.seeds:
            rbm, seconds = learn(args, X, seed, sampler)
            steps = [0, args.n_steps // 4, args.n_steps // 2, args.n_steps]
            V, states = rbm.sample(args.samples, random_state=seed, return_steps=steps)
            least = float(relative_variances(rbm).min())
            rows.append((name, seed, distance(V), least, seconds))
            progress(rows[-1])
        sheet[name] = V[:12]
        if args.out is not None:
            args.out.mkdir(parents=True, exist_ok=True)
            stages = {f"{step} steps": states[i][:12] for i, step in enumerate(steps)}
            show(args.out / f"steps_{name.replace(', ', '_')}.png", stages)
            show(args.out / f"filters_{name.replace(', ', '_')}.png", filters(rbm))
    table(("sampler", "seed", "distance", "least variance", "seconds"), rows)
    if args.out is not None:
        show(args.out / "samplers.png", sheet)


if __name__ == "__main__":
    main()
