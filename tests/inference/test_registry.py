"""Names of methods, and what methods need of machines."""

from dataclasses import replace

import numpy as np
import pytest
from _machines import few_pairs, random_machine
from numpy.testing import assert_allclose

from skrbm.evaluation import pseudo_log_likelihood
from skrbm.inference import (
    CAPABILITIES,
    FIXED_POINTS,
    METHODS,
    SAMPLERS,
    TAP,
    AdaptiveTAP,
    BeliefPropagation,
    FixedPoint,
    Gibbs,
    InferenceMethod,
    Langevin,
    NaiveMeanField,
    Sampler,
    anneal,
    method_names,
    resolve,
    solve_to_convergence,
)
from skrbm.machine import Machine, uncoupled
from skrbm.units import (
    UNITS,
    Bernoulli,
    Categorical,
    Fractional,
    Gaussian,
    Poisson,
    Spin,
    Theta,
    Unit,
)

BINARY = ("bernoulli", "bernoulli")


@pytest.mark.parametrize("name", METHODS)
def test_names_and_objects_resolve_to_the_method(name):
    method = METHODS[name]
    found = resolve(name, InferenceMethod)
    assert found == method and found is not method  # the table is never handed out
    assert resolve(method, InferenceMethod) is method


def test_every_method_has_one_table():
    assert not set(FIXED_POINTS) & set(SAMPLERS)
    assert {**FIXED_POINTS, **SAMPLERS} == METHODS
    assert all(isinstance(method, FixedPoint) for method in FIXED_POINTS.values())
    assert all(isinstance(method, Sampler) for method in SAMPLERS.values())


def test_mean_field_is_naive_mean_field():
    assert resolve("mean_field", FixedPoint) == NaiveMeanField()
    assert method_names(FixedPoint) == sorted([*FIXED_POINTS, "mean_field"])
    assert method_names(Sampler) == sorted([*SAMPLERS, "cd"])
    assert method_names(BeliefPropagation, Gibbs) == ["bp", "cd", "gibbs"]


def test_hyper_parameters_are_those_of_named_methods_alone():
    assert resolve("tap", FixedPoint, max_iter=7, step_size=1.0) == TAP(max_iter=7)
    assert resolve("langevin", Sampler, step_size=0.3, max_iter=7) == Langevin(step_size=0.3)
    assert resolve(TAP(max_iter=3), FixedPoint, max_iter=7) == TAP(max_iter=3)
    with pytest.raises(ValueError, match="max_iter must be"):
        resolve("tap", FixedPoint, max_iter=0)


@pytest.mark.parametrize("wrong", ["wrong", "gibbs", Gibbs(), TAP, None, 3])
def test_errors_list_what_is_possible(wrong):
    with pytest.raises(ValueError, match=r"method must be one of \['adaptive_tap', .*'tap3'\] or "):
        resolve(wrong, FixedPoint, argument="method")
    message = "an object of class BeliefPropagation or Langevin, got"
    with pytest.raises(ValueError, match=message):
        resolve(wrong, BeliefPropagation, Langevin)


# What methods need.


def machine_of(units, n=3):
    thetas = [unit.default_theta(n, np.zeros(1)) for unit in units]
    return Machine(tuple(units), tuple(thetas), (np.zeros((n, n)),) * (len(units) - 1))


def test_every_capability_is_an_attribute_of_every_unit():
    units = [Unit(), *(kind() for kind in UNITS.values()), Categorical(), Fractional(np.ones(2))]
    for unit in units:
        assert all(getattr(unit, name) in (True, False) for name in CAPABILITIES)
    assert [kind for kind in UNITS if UNITS[kind]().is_binary] == ["bernoulli"]
    assert [kind for kind in UNITS if UNITS[kind]().is_gaussian] == ["gaussian"]
    for unit in units:  # what a unit says that it can do, it can do
        theta = Theta(np.zeros(2)) if unit.has_cumulants else None
        if theta is not None:
            assert_cumulants(unit, theta)


def assert_cumulants(unit, theta):
    """The second cumulant is the variance, and half the third that of the central moments."""
    mean, variance, third, _ = unit.central_moments(theta)
    second, half_third, _ = unit.cumulants(mean)
    np.testing.assert_allclose(second, variance)
    np.testing.assert_allclose(2 * half_third, third)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize(("visible", "hidden"), few_pairs(UNITS))
def test_what_is_needed_can_be_read_from_the_units_alone(name, visible, hidden):
    """And the check of a machine says the same."""
    method, machine = METHODS[name], random_machine((visible, hidden), (3, 2), 0, 0.1)
    missing = method.needs.missing(machine.units)
    assert method.applies_to(machine) == (not missing)
    if not missing:
        method.check(machine)
        return
    with pytest.raises(ValueError, match=f"^{type(method).__name__} needs ") as error:
        method.check(machine)
    for text, _ in missing:
        assert text in str(error.value)
    assert str(machine.units[1]) in str(error.value)


def test_errors_say_what_is_lacking_and_what_to_use():
    fractional = machine_of((Bernoulli(), Fractional(np.full(3, 0.5))))
    for method in (TAP(), AdaptiveTAP(), BeliefPropagation()):
        with pytest.raises(ValueError, match=r"; use AIS \('ais'\) or the exact sums"):
            method.check(fractional)
    NaiveMeanField().check(fractional)
    with pytest.raises(
        ValueError, match=r"units that take a precision.*; use inference 'mean_field'"
    ):
        TAP().check(Machine((Categorical(),), (Theta(np.zeros(3)),), ()))
    with pytest.raises(ValueError, match="one hidden layer and visible Gaussian units"):
        Langevin().check(machine_of((Bernoulli(),) * 3))
    with pytest.raises(ValueError, match=r"one hidden layer, and this machine.*; use 'tap'"):
        BeliefPropagation().check(machine_of((Bernoulli(),) * 3))
    with pytest.raises(ValueError, match=r"such as binary units.*; use .*TAP\(order=2\)"):
        TAP(order=3).check(machine_of((Gaussian(), Bernoulli())))
    with pytest.raises(ValueError, match=r"needs binary units.*; use inference 'naive_mean_field'"):
        BeliefPropagation().check(machine_of((Spin(), Poisson())))
    assert TAP().alternative == "NaiveMeanField"


def test_a_method_can_need_more_than_kinds_of_units():
    machine = random_machine(BINARY, (3, 2), 0, strength=1e4)
    assert not BeliefPropagation().needs.missing(machine.units)
    assert not BeliefPropagation().applies_to(machine)
    with pytest.raises(ValueError, match="needs weights between"):
        BeliefPropagation().check(machine)


def replicas():
    """A machine of two rows with couplings of different strength, and one machine for each."""
    machine = random_machine(("bernoulli", "bernoulli"), (3, 2), 0)
    scales = np.array([0.5, 1.0])
    return replace(machine, scale=scales), [replace(machine, scale=float(s)) for s in scales]


@pytest.mark.parametrize("name", ["tap3", "adaptive_tap", "relaxed_bp", "bp"])
def test_methods_that_know_one_scale_refuse_several(name):
    machine, (first, _) = replicas()
    METHODS[name].check(first)
    with pytest.raises(ValueError, match="needs one scale for all rows"):
        METHODS[name].check(machine)


@pytest.mark.parametrize("name", ["naive_mean_field", "tap"])
def test_fixed_points_of_rows_with_their_own_scale(name):
    machine, singles = replicas()
    method, X = METHODS[name], np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 1.0]])
    method.check(machine)
    together = solve_to_convergence(method, machine, method.start(machine, X)).state
    values = method.log_partition(machine, together)
    for i, single in enumerate(singles):
        alone = solve_to_convergence(method, single, method.start(single, X[i : i + 1])).state
        assert_allclose(together.means[0][i], alone.means[0][0], atol=1e-6)
        assert_allclose(values[i], method.log_partition(single, alone)[0], atol=1e-6)


def test_annealing_refuses_several_scales():
    machine, _ = replicas()
    with pytest.raises(ValueError, match="one scale for all rows"):
        anneal(machine, uncoupled(machine), [0.0, 1.0], (np.zeros((2, 3)), None), None)


def test_pseudo_likelihood_of_rows_with_their_own_scale():
    machine, singles = replicas()
    X = np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 1.0]])
    alone = [pseudo_log_likelihood(m, X[i : i + 1])[0] for i, m in enumerate(singles)]
    assert_allclose(pseudo_log_likelihood(machine, X), alone, rtol=1e-12)
