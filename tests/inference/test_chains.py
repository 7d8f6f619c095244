"""Where the chains of the model phase start, and the moments that are taken from them."""

import numpy as np
import pytest
from _machines import gradient, random_machine
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from skrbm.arrays import make_rng
from skrbm.inference import CHAINS, GRADIENTS, Gibbs, GibbsLangevin, Langevin, sample
from skrbm.inference._chains import resampled
from skrbm.machine import Machine, condition
from skrbm.units import Bernoulli, Gaussian, Theta

LEVEL = 1e-6
KINDS = ("gaussian", "bernoulli")
MACHINE = random_machine(KINDS, (3, 4), 0)
SAMPLERS = [Gibbs(), Langevin(), GibbsLangevin()]
samplers = pytest.mark.parametrize("sampler", SAMPLERS, ids=lambda s: type(s).__name__)


class Recorded(Gibbs):
    """Gibbs sampling that remembers its states."""

    seen = []  # noqa: RUF012

    def step(self, machine, state, rng):
        state, info = super().step(machine, state, rng)
        self.seen.append(state)
        return state, info


@pytest.mark.parametrize("gradient_name", sorted(GRADIENTS))
@pytest.mark.parametrize("n_steps, burn_in", [(1, 0), (4, 0), (4, 2), (4, 3)])
def test_moments_are_means_over_the_steps_after_burn_in(gradient_name, n_steps, burn_in):
    """By plain sums over the states that the sampler went through; the start is none of them."""
    method = CHAINS["noise"](Recorded(), n_steps, burn_in, gradient_name)
    X, Recorded.seen[:] = np.ones((5, 3)), []
    rng = make_rng(0, X)
    state, _, model = method.phases(MACHINE, method.init(MACHINE, rng, 5, X), X, rng)
    assert len(Recorded.seen) == n_steps
    V, H = (np.concatenate([s.layers[l] for s in Recorded.seen[burn_in:]]) for l in (0, 1))
    if gradient_name == "marginal":
        H = 1 / (1 + np.exp(-condition(MACHINE, V).field))
    field, precision, hidden, pair = gradient(MACHINE, model)
    assert_allclose(field, V.mean(axis=0), rtol=1e-10)
    assert_allclose(precision, -0.5 * (V**2).mean(axis=0), rtol=1e-10)
    assert_allclose(hidden, H.mean(axis=0), rtol=1e-10)
    assert_allclose(pair, H.T @ V / len(V), rtol=1e-10, atol=1e-12)
    assert_array_equal(method.visible(state), Recorded.seen[-1].layers[0])


def test_data_moments_are_expected_or_drawn():
    X = np.random.default_rng(1).standard_normal((30_000, 3))
    rng = make_rng(2, X)
    found = {}
    for name in GRADIENTS:
        method = CHAINS["data"](Gibbs(), gradient=name)
        _, data, _ = method.phases(MACHINE, method.init(MACHINE, rng, 1, X), X, rng)
        found[name] = gradient(MACHINE, data)
        drawn = data.blocks[0].means[1]
        assert (set(np.unique(drawn)) == {0, 1}) == (name == "joint")
    expected = 1 / (1 + np.exp(-condition(MACHINE, X).field))
    assert_allclose(found["marginal"][2], expected.mean(axis=0), rtol=1e-12)
    # 30 000 draws of bits: 6 standard errors of at most 0.5 / sqrt(n).
    assert_allclose(found["joint"][2], found["marginal"][2], atol=6 * 0.5 / np.sqrt(30_000))


@samplers
def test_annealed_chains_have_the_shares_of_modes_that_they_cannot_cross(sampler):
    """Two normal laws ten deviations apart, one with four times the weight of the other.

    By a t-test over 20 runs, at a level of 1e-6; chains at noise that is the same for both modes
    have one half in each.
    """
    C, weight = np.array([[10.0, 0.0]]), 0.8
    b = np.array([-(C**2).sum() / 2 + np.log(weight / (1 - weight))])
    own = Theta(np.zeros(2), np.ones(2))
    machine = Machine((Gaussian(), Bernoulli()), (own, Theta(b)), (C,))
    noise, X = {"mean": np.array([5.0, 0.0]), "scale": np.array([5.0, 1.0])}, np.zeros((1000, 2))
    shares = {"annealed": [], "noise": []}
    for name, found in shares.items():
        for seed in range(20):
            method, rng = CHAINS[name](sampler, 30, **noise), make_rng(seed, X)
            state, _, _ = method.phases(machine, method.init(machine, rng, 1000, X), X, rng)
            found.append((method.visible(state)[:, 0] > 5).mean())
    assert stats.ttest_1samp(shares["annealed"], weight).pvalue > LEVEL / 3
    assert np.std(shares["annealed"]) < 0.05
    assert abs(np.mean(shares["noise"]) - 0.5) < 0.05


@pytest.mark.parametrize("Sampler", [Langevin, GibbsLangevin])
def test_annealing_adjusts_from_the_step_that_a_run_does(Sampler):
    adjusted = []

    class Watched(Sampler):
        def step(self, machine, state, rng):
            adjusted.append(self.adjust_after == 0)
            return super().step(machine, state, rng)

    X = np.zeros((5, 3))
    method, rng = CHAINS["annealed"](Watched(adjust_after=2), 4), make_rng(0, X)
    method.phases(MACHINE, method.init(MACHINE, rng, 5, X), X, rng)
    assert adjusted == 2 * [False, False, True, True]  # of the annealing, and of the run


def test_rows_are_drawn_systematically():
    """Each row as often as its weight says, rounded up or down; NaN counts for nothing."""
    rows, log_weights = np.arange(6.0)[:, None], np.log([0.1, 2.0, 1e-320, 3.0, 0.9, np.nan])
    weights = np.nan_to_num(np.exp(log_weights))
    expected = 6 * weights / weights.sum()
    for seed in range(20):
        drawn = resampled(rows, log_weights + 700, make_rng(seed, rows))
        counts = np.bincount(drawn[:, 0].astype(int), minlength=6)
        assert (np.floor(expected) <= counts).all() and (counts <= np.ceil(expected)).all()


@samplers
def test_noise_has_the_law_asked_for(sampler):
    mean, scale = np.array([1.0, 0.0, -5.0]), np.array([2.0, 1.0, 0.0])
    noise = CHAINS["noise"](sampler, mean=mean, scale=scale).noise(
        MACHINE, make_rng(3, mean), 20_000
    )
    for i in (0, 1):
        z = (noise[:, i] - mean[i]) / scale[i]
        assert stats.kstest(z, "norm").pvalue > LEVEL / 2
    assert_array_equal(noise[:, 2], -5.0)
    free = CHAINS["noise"](sampler).noise(MACHINE, make_rng(4, mean), 20_000)
    theta = MACHINE.thetas[0]
    z = (free - theta.field / theta.precision) * np.sqrt(theta.precision)
    assert all(stats.kstest(z[:, i], "norm").pvalue > LEVEL / 3 for i in range(3))


@samplers
def test_starts(sampler):
    """Chains move little in one step of next to no size: they are where they started."""
    X = 100 + np.arange(12.0).reshape(4, 3)
    rng = make_rng(5, X)
    ends = {}
    for name, chains in CHAINS.items():
        method = chains(sampler, mean=np.zeros(3), scale=np.ones(3))
        first = method.init(MACHINE, rng, 6, X)
        assert method.visible(first).shape == (6, 3)
        state, _, _ = method.phases(MACHINE, first, X, rng)
        ends[name] = first, method.visible(state)
    assert {ends[name][1].shape for name in ("noise", "annealed", "data")} == {(4, 3)}
    assert ends["persistent"][1].shape == (6, 3)


@pytest.mark.parametrize("sampler", SAMPLERS[1:], ids=lambda s: type(s).__name__)
def test_persistent_chains_go_on_in_a_machine_that_has_changed(sampler):
    """What a state keeps for the next step belongs to the old machine, and is worked out anew."""
    other = random_machine(KINDS, (3, 4), 1)
    X = np.zeros((5, 3))
    rng = make_rng(6, X)
    old = sample(sampler, MACHINE, sampler.start(MACHINE, X, rng), rng, 3)
    new = sampler.resumed(other, old)
    assert_array_equal(new.layers[0], old.layers[0])
    assert_allclose(new.given.field, condition(other, old.layers[0]).field)
    # Where the drift points: given h, or its expectation.
    hidden = new.layers[1] if type(sampler) is GibbsLangevin else 1 / (1 + np.exp(-new.given.field))
    theta = other.thetas[0]
    centre = (theta.field + hidden @ other.weights[0]) / theta.precision
    assert_allclose(new.centre, centre, rtol=1e-10)
    assert new.energy is None


def test_step_sizes_are_tuned_from_run_to_run():
    X = np.zeros((500, 3))
    rng = make_rng(7, X)
    method = CHAINS["persistent"](Langevin(0.01, target_acceptance=0.9), n_steps=5)
    state = method.init(MACHINE, rng, 500, X)
    assert state.step_size == 0.01
    rates = []
    for _ in range(250):
        state, _, _ = method.phases(MACHINE, state, X, rng)
        rates.append(state.acceptance)
    assert state.step_size > 0.05
    assert abs(np.mean(rates[-10:]) - 0.9) < 0.03
    assert method.report(state) == {"acceptance": rates[-1], "step_size": state.step_size}
    plain = CHAINS["noise"](Gibbs())
    assert plain.report(plain.init(MACHINE, rng, 2, X)) == {}


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"n_steps": 0}, "n_steps must be an integer >= 1, got 0"),
        ({"n_steps": 2.5}, "n_steps must be an integer >= 1"),
        ({"burn_in": -1}, "burn_in must be an integer >= 0"),
        ({"n_steps": 3, "burn_in": 3}, "burn_in=3 leaves none of n_steps=3"),
    ],
)
def test_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        CHAINS["noise"](Gibbs(), **arguments)


def test_units_with_an_atom_are_refused():
    machine = random_machine(("truncated_gauss_bernoulli", "bernoulli"), (3, 2), 0)
    with pytest.raises(ValueError, match="atom"):
        CHAINS["noise"](Gibbs()).init(machine, make_rng(0, np.zeros(1)), 2, np.zeros((2, 3)))
