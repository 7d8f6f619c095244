"""The weights of the steps in an average of parameters, by their closed form."""

import numpy as np
from _machines import random_machine
from numpy.testing import assert_allclose

from skrbm.learning._average import Average


def test_late_steps_weigh_more():
    """The k-th of n steps weighs 4 k (k + 1) (k + 2) / (n (n + 1) (n + 2) (n + 3))."""
    n = 20
    machines = [random_machine(("bernoulli", "bernoulli"), (4, 3), seed) for seed in range(n)]
    average = Average.of(machines[0])
    for machine in machines[1:]:
        average = average.moved(machine)
    k = np.arange(1, n + 1)
    weights = 4 * k * (k + 1) * (k + 2) / (n * (n + 1) * (n + 2) * (n + 3))
    leaves = zip(average.published(machines[-1]).leaves, *(m.leaves for m in machines), strict=True)
    for mean, *parts in leaves:
        assert_allclose(mean, np.tensordot(weights, parts, 1), rtol=1e-12)
