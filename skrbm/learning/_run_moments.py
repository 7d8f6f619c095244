"""Moments of runs of Markov chains, of which several steps may count."""

from ..arrays import namespace, number
from ..inference import map_rows
from ..machine import Block, Moments


def moments_of(X, above):
    """Return moments of rows X and of means, variances and further statistics above them."""
    mean, variance, further = above
    return Moments((Block((X, mean), (None, variance), 1.0 / X.shape[0], None, (None, further)),))


class RunMoments:
    """Means of the moments of a run, which are summed up step by step."""

    def __init__(self, machine, sampler, gradient, burn_in):
        self.machine, self.sampler, self.gradient = machine, sampler, gradient
        self.burn_in, self.rates, self.n_steps, self.last = burn_in, [], 0, None
        self.pair, self.thetas = None, None

    def count(self, step, state, info):
        """Take a step, counted from 1, into the means."""
        if "acceptance" in info:
            self.rates.append(info["acceptance"])
        if step <= self.burn_in:
            return
        above = self.gradient(
            self.machine.units[1],
            lambda: self.sampler.hidden_theta(self.machine, state),
            lambda: state.layers[1],
        )
        if self.last is not None:  # rows are summed up only if there are those of a second step
            self._sum_up()
        X = state.layers[0]
        self.last, self.n_steps = moments_of(X, above), self.n_steps + 1

    def _sum_up(self):
        machine, last = self.machine, self.last
        if self.pair is None:
            self.pair = namespace(machine.weights[0]).zeros_like(machine.weights[0])
        self.pair = last.add_pair(machine, 0, self.pair, 1.0)
        thetas = [last.statistics(unit, l) for l, unit in enumerate(machine.units)]
        if self.thetas is not None:
            thetas = map_rows(lambda a, b: a + b, tuple(self.thetas), tuple(thetas))
        self.thetas = tuple(thetas)

    def moments(self):
        """Return the means of what was counted: the rows themselves if they are of one step."""
        if self.pair is None:
            return self.last
        self._sum_up()
        scale = 1.0 / self.n_steps
        thetas = (theta.map(lambda part: scale * part) for theta in self.thetas)
        return Moments((), ((0, scale * self.pair),), tuple(enumerate(thetas)))

    def acceptance(self):
        """Return the mean rate of acceptance of the run, or None if nothing was rejected."""
        if not self.rates:
            return None
        rates = (number(namespace(rate).mean(rate)) for rate in self.rates)
        return sum(rates) / len(self.rates)
