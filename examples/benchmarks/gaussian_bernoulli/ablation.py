"""Hidden units, steps, inner steps, step size, adjustment and annealing (Tables 2 and 3).

    python examples/benchmarks/gaussian_bernoulli/ablation.py --epochs 10 --n-components 256

Everything else is as in images.py. Step sizes are in units of each pixel's own variance; in the
sampler of the paper's released code they are in units of the mean variance divided by the batch
size.
"""

import numpy as np
from _paper import FrechetDistance, heading, images, table
from images import learn, options

from skrbm.inference import GibbsLangevin


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
    return base, rows


def main():
    args = options(__doc__).parse_args()
    heading(__file__, args)
    X, y = images(args.data, "train", args.rows)
    X_test, _ = images(args.data, "test", 5000)
    distance, found = FrechetDistance(X, y, X_test), []
    base, settings = variants(args)
    settings.append(("annealed", {}, {"adjust_after": args.n_steps // 2, "anneal": True}))
    for name, changed, sampler in settings:
        now = type(args)(**{**vars(args), **changed})
        distances, seconds = [], []
        for seed in args.seeds:
            rbm, spent = learn(now, X, seed, GibbsLangevin(**{**base, **sampler}))
            distances.append(distance(rbm.sample(args.samples, random_state=seed)))
            seconds.append(spent)
        found.append((name, float(np.mean(distances)), float(np.ptp(distances)), np.mean(seconds)))
        print(*found[-1], flush=True)
    table(("setting", "distance", "range over seeds", "seconds"), found)


if __name__ == "__main__":
    main()
