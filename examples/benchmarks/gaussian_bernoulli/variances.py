"""The course of the log-variances over the epochs, and filters (Fig. 3 of Liao et al. 2022).

    python examples/benchmarks/gaussian_bernoulli/variances.py --epochs 10 --n-components 256

Prints the smallest, the median and the largest log-variance of standardized pixels that vary, after
epochs 1, 2, 4 and so on and after the last, and saves filters with ``--out``.
"""

import numpy as np
from _paper import filters, heading, images, progress, show, table
from images import options, relative_variances

from skrbm import GaussianBernoulliRBM
from skrbm.inference import GibbsLangevin
from skrbm.learning import SGD, Adam


def main():
    args = options(__doc__).parse_args()
    heading(__file__, args)
    X, _ = images(args.data, "train", args.rows)
    X = X + args.noise * np.random.default_rng(0).standard_normal(X.shape, dtype=np.float32)
    kind = {"sgd": SGD, "adam": Adam}[args.optimizer]
    rbm = GaussianBernoulliRBM(
        args.n_components,
        inference=GibbsLangevin(
            args.step_size, adjust_after=None, n_steps=args.n_steps, burn_in=args.burn_in
        ),
        optimizer=kind(alpha=0.0, schedule="constant", max_grad_norm=10.0),
        learning_rate=args.learning_rate,
        batch_size=args.batch_size,
        random_state=args.seeds[0],
    )
    rows = []
    for epoch in range(1, args.epochs + 1):
        rate = args.learning_rate * 0.5 * (1 + np.cos(np.pi * (epoch - 1) / args.epochs))
        rbm.set_params(learning_rate=rate).partial_fit(X)
        if epoch & (epoch - 1) == 0 or epoch == args.epochs:
            logs = np.log(relative_variances(rbm))
            rows.append((epoch, float(logs.min()), float(np.median(logs)), float(logs.max())))
            progress(rows[-1])
    table(("epoch", "least log variance", "median", "largest"), rows)
    if args.out is not None:
        args.out.mkdir(parents=True, exist_ok=True)
        show(args.out / "filters.png", filters(rbm))


if __name__ == "__main__":
    main()
