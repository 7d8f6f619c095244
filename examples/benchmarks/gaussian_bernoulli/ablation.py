"""Hidden units, steps, inner steps, step size, adjustment and annealing (Tables 2 and 3).

    python examples/benchmarks/gaussian_bernoulli/ablation.py --epochs 10 --n-components 256

Everything else is as in images.py. Step sizes are in units of each pixel's own variance; in the
sampler of the paper's released code they are in units of the mean variance divided by the batch
size. The last setting multiplies the step size by half a cosine over the epochs, and adjusts the
second half of the steps; its samples are drawn with the first step size.
"""

import time
from dataclasses import replace

import numpy as np
from _paper import FrechetDistance, heading, images, progress, table
from images import learn, options

from skrbm import GaussianBernoulliRBM
from skrbm.inference import GibbsLangevin
from skrbm.learning import SGD


def variants(args):
    """Return the settings to try: name and what changes in the arguments and the sampler."""
    base = {"step_size": args.step_size, "adjust_after": None, "n_inner_steps": 10}
    rows = [("as given", {}, {})]
    rows += [(f"{n} hidden", {"n_components": n}, {}) for n in (args.n_components // 2,)]
    rows += [(f"{n} steps", {"n_steps": n}, {}) for n in (args.n_steps // 2, 2 * args.n_steps)]
    rows += [(f"K = {K}", {}, {"n_inner_steps": K}) for K in (1, 5)]
    rows += [
        (f"step size {size:g}", {}, {"step_size": size})
        for size in (args.step_size / 4, args.step_size / 2)
    ]
    rows += [
        (f"adjusted from {after}", {}, {"adjust_after": after})
        for after in (0, args.n_steps // 4, args.n_steps // 2)
    ]
    return base, [*rows, ("annealed", {}, {"adjust_after": args.n_steps // 2})]


def learn_annealed(args, X, seed, sampler):
    """Return what ``learn`` does, with steps that are shorter in each epoch."""
    sampler = replace(sampler, n_steps=args.n_steps, burn_in=args.burn_in)
    noise = np.random.default_rng(seed).standard_normal(X.shape, dtype=np.float32)
    X, begin = X + args.noise * noise, time.perf_counter()
    rbm = GaussianBernoulliRBM(
        args.n_components,
        optimizer=SGD(alpha=0.0, schedule="constant", max_grad_norm=10.0, average=False),
        batch_size=args.batch_size,
        random_state=seed,
    )
    for epoch in range(args.epochs):
        factor = 0.5 * (1 + np.cos(np.pi * epoch / args.epochs))
        shorter = replace(sampler, step_size=factor * sampler.step_size)
        rbm.set_params(learning_rate=factor * args.learning_rate, inference=shorter).partial_fit(X)
    return rbm.set_params(inference=sampler), time.perf_counter() - begin


def main():
    args = options(__doc__).parse_args()
    heading(__file__, args)
    X, y = images(args.data, "train", args.rows)
    X_test, _ = images(args.data, "test", 5000)
    distance, found = FrechetDistance(X, y, X_test), []
    base, settings = variants(args)
    for name, changed, sampler in settings:
        now = type(args)(**{**vars(args), **changed})
        trained = learn_annealed if name == "annealed" else learn
        distances, seconds = [], []
        for seed in args.seeds:
            rbm, spent = trained(now, X, seed, GibbsLangevin(**{**base, **sampler}))
            distances.append(distance(rbm.sample(args.samples, random_state=seed)))
            seconds.append(spent)
        spread = float(np.mean(distances)), float(np.ptp(distances))
        found.append((name, *spread, float(np.mean(seconds))))
        progress(found[-1])
    table(("setting", "distance", "range over seeds", "seconds"), found)


if __name__ == "__main__":
    main()
