"""Where the chains of the model phase start, and the moments that are taken from them."""

import numpy as np
import pytest
from _exact import STATISTICS, clamped
from _machines import gradient, random_machine
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from skrbm.arrays import make_rng
from skrbm.inference import Gibbs
from skrbm.learning import CHAINS, GRADIENTS, Noise
from skrbm.machine import condition

LEVEL = 1e-6
KINDS = ("gaussian", "bernoulli")
MACHINE = random_machine(KINDS, (3, 4), 0)


class Recorded(Gibbs):
    """Gibbs sampling that remembers its states."""

    seen = []  # noqa: RUF012

    def step(self, machine, state, rng):
        state, info = super().step(machine, state, rng)
        self.seen.append(state)
        return state, info


def sums_by_hand(machine, V, H, gradient_name):
    """Means over rows of the statistics of each layer that it has, and of h x."""
    layers = [[function(rows) for function in STATISTICS.values()] for rows in (V, H)]
    if gradient_name == "marginal":
        held = clamped(machine, V)
        layers[1] = [np.array([one.statistic(name, 1) for one in held]) for name in STATISTICS]
    parts = []
    for theta, statistics in zip(machine.thetas, layers, strict=True):
        present = zip(theta[:5], statistics, strict=True)
        parts += [rows.mean(axis=0) for part, rows in present if part is not None]
    return [*parts, layers[1][0].T @ V / len(V)]


ATOM = "truncated_gauss_bernoulli"


@pytest.mark.parametrize(
    "kinds", [KINDS, (ATOM, "bernoulli"), ("bernoulli", ATOM), (ATOM, ATOM)], ids="-".join
)
@pytest.mark.parametrize("gradient_name", sorted(GRADIENTS))
@pytest.mark.parametrize("n_steps, burn_in", [(1, 0), (1, None), (4, 0), (4, 2), (4, 3), (4, None)])
def test_moments_are_means_over_the_steps_after_burn_in(kinds, gradient_name, n_steps, burn_in):
    """By plain sums over the states that the sampler went through; the start is none of them."""
    machine = random_machine(kinds, (3, 4), 0)
    phase = CHAINS["noise"](Recorded(n_steps, burn_in=burn_in), gradient_name)
    X, Recorded.seen[:] = np.ones((5, 3)), []
    rng = make_rng(0, X)
    state, _, model = phase.phases(machine, phase.init(machine, rng, 5, X), X, rng)
    assert len(Recorded.seen) == n_steps
    counted = Recorded.seen[n_steps - 1 if burn_in is None else burn_in :]
    V, H = (np.concatenate([s.layers[l] for s in counted]) for l in (0, 1))
    expected = sums_by_hand(machine, V, H, gradient_name)
    for part, sums in zip(gradient(machine, model), expected, strict=True):
        assert_allclose(part, sums, rtol=1e-8, atol=1e-10)
    assert_array_equal(phase.visible(state), Recorded.seen[-1].layers[0])


def test_data_moments_are_expected_or_drawn():
    X = np.random.default_rng(1).standard_normal((30_000, 3))
    rng = make_rng(2, X)
    found = {}
    for name in GRADIENTS:
        phase = CHAINS["data"](Gibbs(), gradient=name)
        _, data, _ = phase.phases(MACHINE, phase.init(MACHINE, rng, 1, X), X, rng)
        found[name] = gradient(MACHINE, data)
        drawn = data.blocks[0].means[1]
        assert (set(np.unique(drawn)) == {0, 1}) == (name == "joint")
    expected = 1 / (1 + np.exp(-condition(MACHINE, X).field))
    assert_allclose(found["marginal"][2], expected.mean(axis=0), rtol=1e-12)
    # 30 000 draws of bits: 6 standard errors of at most 0.5 / sqrt(n).
    assert_allclose(found["joint"][2], found["marginal"][2], atol=6 * 0.5 / np.sqrt(30_000))


def test_noise_has_the_law_asked_for():
    mean, scale = np.array([1.0, 0.0, -5.0]), np.array([2.0, 1.0, 0.0])
    phase = CHAINS["noise"](Gibbs(), noise=Noise(mean, scale))
    noise = phase.noise_rows(MACHINE, make_rng(3, mean), 20_000)
    for i in (0, 1):
        z = (noise[:, i] - mean[i]) / scale[i]
        assert stats.kstest(z, "norm").pvalue > LEVEL / 2
    assert_array_equal(noise[:, 2], -5.0)
    free = CHAINS["noise"](Gibbs()).noise_rows(MACHINE, make_rng(4, mean), 20_000)
    theta = MACHINE.thetas[0]
    z = (free - theta.field / theta.precision) * np.sqrt(theta.precision)
    assert all(stats.kstest(z[:, i], "norm").pvalue > LEVEL / 3 for i in range(3))
