"""Where the chains of the model phase start, and the moments that are taken from them."""

import numpy as np
import pytest
from _exact import STATISTICS, clamped
from _machines import gradient, random_machine
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.spatial.distance import pdist

from skrbm.arrays import make_rng
from skrbm.inference import Gibbs, GibbsLangevin, Langevin, resampled, sample
from skrbm.learning import CHAINS, GRADIENTS, ChainPhase, Noise
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
    phase = ChainPhase(Recorded(), "noise", n_steps, burn_in, gradient_name)
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


def test_atoms_are_met():
    """The tests above would show nothing if no unit were at 0, or all were."""
    machine = random_machine((ATOM, ATOM), (3, 4), 0)
    rng = make_rng(0, np.ones(1))
    chains = sample(Gibbs(), machine, Gibbs().init(machine, rng, 50, np.ones((1, 3))), rng, 3)
    assert all(0 < (layer == 0).mean() < 1 for layer in chains.layers)


def test_data_moments_are_expected_or_drawn():
    X = np.random.default_rng(1).standard_normal((30_000, 3))
    rng = make_rng(2, X)
    found = {}
    for name in GRADIENTS:
        phase = ChainPhase(Gibbs(), "data", gradient=name)
        _, data, _ = phase.phases(MACHINE, phase.init(MACHINE, rng, 1, X), X, rng)
        found[name] = gradient(MACHINE, data)
        drawn = data.blocks[0].means[1]
        assert (set(np.unique(drawn)) == {0, 1}) == (name == "joint")
    expected = 1 / (1 + np.exp(-condition(MACHINE, X).field))
    assert_allclose(found["marginal"][2], expected.mean(axis=0), rtol=1e-12)
    # 30 000 draws of bits: 6 standard errors of at most 0.5 / sqrt(n).
    assert_allclose(found["joint"][2], found["marginal"][2], atol=6 * 0.5 / np.sqrt(30_000))


@pytest.mark.law
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
    noise, X = Noise(np.array([5.0, 0.0]), np.array([5.0, 1.0])), np.zeros((1000, 2))
    shares = {"annealed": [], "noise": []}
    for name, found in shares.items():
        for seed in range(20):
            phase, rng = ChainPhase(sampler, name, 30, noise=noise), make_rng(seed, X)
            state, _, _ = phase.phases(machine, phase.init(machine, rng, 1000, X), X, rng)
            found.append((phase.visible(state)[:, 0] > 5).mean())
    assert stats.ttest_1samp(shares["annealed"], weight).pvalue > LEVEL / 3
    assert np.std(shares["annealed"]) < 0.05
    assert abs(np.mean(shares["noise"]) - 0.5) < 0.05


def test_few_annealed_chains_are_drawn_from_many():
    """Five of 100 rows that hardly move, of which copies are neighbours after resampling.

    Two draws have one origin with a probability below 0.1. So of 20 times 10 pairs, 20 may be
    copies on average, and more than 60 are with a probability below 1e-6; of neighbours, 90 are.
    """
    scale, X, n_copies = 3 / np.sqrt(MACHINE.thetas[0].precision), np.zeros((5, 3)), 0
    phase = ChainPhase(Langevin(1e-9), "annealed", noise=Noise(np.zeros(3), scale))
    for seed in range(20):
        rng = make_rng(seed, X)
        state, _, _ = phase.phases(MACHINE, phase.init(MACHINE, rng, 5, X), X, rng)
        n_copies += (pdist(phase.visible(state)) < 1e-2).sum()
    assert n_copies <= 60


@pytest.mark.parametrize("Sampler", [Langevin, GibbsLangevin])
def test_annealing_adjusts_from_the_step_that_a_run_does(Sampler):
    adjusted = []

    class Watched(Sampler):
        def step(self, machine, state, rng):
            adjusted.append(self.adjust_after == 0)
            return super().step(machine, state, rng)

    X = np.zeros((5, 3))
    phase, rng = ChainPhase(Watched(adjust_after=2), "annealed", 4), make_rng(0, X)
    phase.phases(MACHINE, phase.init(MACHINE, rng, 5, X), X, rng)
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
    phase = ChainPhase(sampler, "noise", noise=Noise(mean, scale))
    noise = phase.noise_rows(MACHINE, make_rng(3, mean), 20_000)
    for i in (0, 1):
        z = (noise[:, i] - mean[i]) / scale[i]
        assert stats.kstest(z, "norm").pvalue > LEVEL / 2
    assert_array_equal(noise[:, 2], -5.0)
    free = ChainPhase(sampler, "noise").noise_rows(MACHINE, make_rng(4, mean), 20_000)
    theta = MACHINE.thetas[0]
    z = (free - theta.field / theta.precision) * np.sqrt(theta.precision)
    assert all(stats.kstest(z[:, i], "norm").pvalue > LEVEL / 3 for i in range(3))


@samplers
def test_starts(sampler):
    """Chains move little in one step of next to no size: they are where they started."""
    X = 100 + np.arange(12.0).reshape(4, 3)
    rng = make_rng(5, X)
    ends = {}
    for name in CHAINS:
        phase = ChainPhase(sampler, name, noise=Noise(np.zeros(3), np.ones(3)))
        first = phase.init(MACHINE, rng, 6, X)
        assert phase.visible(first).shape == (6, 3)
        state, _, _ = phase.phases(MACHINE, first, X, rng)
        ends[name] = first, phase.visible(state)
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
    phase = ChainPhase(Langevin(0.01, target_acceptance=0.9), n_steps=5)
    state = phase.init(MACHINE, rng, 500, X)
    assert state.step_size == 0.01
    rates = []
    for _ in range(250):
        state, _, _ = phase.phases(MACHINE, state, X, rng)
        rates.append(state.acceptance)
    assert state.step_size > 0.05
    assert abs(np.mean(rates[-10:]) - 0.9) < 0.03
    assert phase.report(state) == {"acceptance": rates[-1], "step_size": state.step_size}
    plain = ChainPhase(Gibbs(), "noise")
    assert plain.report(plain.init(MACHINE, rng, 2, X)) == {}


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"n_steps": 0}, "n_steps must be an integer >= 1, got 0"),
        ({"n_steps": 2.5}, "n_steps must be an integer >= 1"),
        ({"burn_in": -1}, "burn_in must be None or an integer >= 0"),
        ({"n_steps": 3, "burn_in": 3}, "burn_in=3 leaves none of n_steps=3"),
    ],
)
def test_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        ChainPhase(Gibbs(), "noise", **arguments)


def test_one_rule_alone_sets_the_step_size():
    with pytest.raises(ValueError, match="anneal_step_size=True and a sampler with target_acc"):
        ChainPhase(Langevin(target_acceptance=0.9), anneal_step_size=True)


def test_the_step_size_falls_as_half_a_cosine():
    phase = ChainPhase(Langevin(0.4), anneal_step_size=True)
    sizes = [phase.at(k / 4).sampler.step_size for k in range(4)]
    assert_allclose(sizes, 0.2 * (1 + np.cos(np.pi * np.arange(4) / 4)), rtol=1e-12)
    plain = ChainPhase(Langevin(0.4))
    assert plain.at(0.5) is plain
    without = ChainPhase(Gibbs(), anneal_step_size=True)
    assert without.at(0.5) is without
