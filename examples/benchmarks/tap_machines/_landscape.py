"""What the scripts for Figs. 4 to 7 of Tramel et al. (2018) share: a fit that records solutions."""

import argparse

from _paper import TABLE_1, tap_machine

from skrbm.inspection import SolutionsRecorder


def parser(doc, data=tuple(TABLE_1)):
    """Return the parser of the arguments that all figures have; ``data`` are those it allows."""
    arguments = argparse.ArgumentParser(description=doc.splitlines()[0])
    arguments.add_argument("--data", choices=data, default="binary-mnist")
    arguments.add_argument("--scale", type=float, default=1.0, help="multiplies the 10 epochs")
    arguments.add_argument("--rows", type=int, default=60000)
    arguments.add_argument("--hidden", type=int, default=100)
    arguments.add_argument("--speed", type=float, default=10.0, help="multiplies Table 1's rate")
    arguments.add_argument("--sweeps", type=int, default=10)
    arguments.add_argument("--alpha", type=float, help="L2 penalty in place of Table 1's")
    arguments.add_argument("--out", help="where to save the picture")
    return arguments


def train(args, X, starts=None, epochs=()):
    """Return a machine trained on X, rows of ``args.data``, and the recorder of its solutions."""
    recorder = SolutionsRecorder(starts, epochs=epochs)
    rbm = tap_machine(args.data, X, args.hidden, sweeps=args.sweeps, alpha=args.alpha)
    rbm.set_params(n_iter=last_epoch(args), learning_rate=args.speed * rbm.learning_rate)
    return rbm.set_callbacks(recorder).fit(X), recorder


def last_epoch(args):
    """Return the number of epochs."""
    return max(1, round(10 * args.scale))
