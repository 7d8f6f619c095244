"""Names and hyper-parameters of methods, and what methods need of machines."""

from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from _machines import random_machine
from numpy.testing import assert_allclose
from sklearn.base import clone

from skrbm.inference import (
    CAPABILITIES,
    FIXED_POINTS,
    METHODS,
    SAMPLERS,
    TAP,
    BeliefPropagation,
    FixedPoint,
    Gibbs,
    InferenceMethod,
    Langevin,
    NaiveMeanField,
    RelaxedBP,
    Sampler,
    Tempering,
    method_names,
    resolve,
)
from skrbm.machine import Machine
from skrbm.units import UNITS, Bernoulli, Categorical, Fractional, Gaussian, Theta


def test_names_and_objects():
    for name, method in METHODS.items():
        found = resolve(name, InferenceMethod)
        assert found == method and found is not method  # objects can be set
        assert resolve(method, InferenceMethod) is method
    assert resolve("mean_field", FixedPoint) == NaiveMeanField()
    assert method_names(FixedPoint) == sorted([*FIXED_POINTS, "mean_field"])
    assert method_names(Sampler) == sorted([*SAMPLERS, "cd", "pcd"])
    assert resolve("tap", FixedPoint, max_iter=7, step_size=1.0) == TAP(max_iter=7)
    assert resolve(TAP(max_iter=3), FixedPoint, max_iter=7) == TAP(max_iter=3)


@pytest.mark.parametrize("wrong", ["wrong", "gibbs", Gibbs(), TAP, None])
def test_bad_methods_are_errors(wrong):
    with pytest.raises(ValueError, match="method must be one of"):
        resolve(wrong, FixedPoint, argument="method")


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_clones_are_equal_and_others_are_not(method):
    copy = clone(method)
    assert copy is not method
    assert copy == method and hash(copy) == hash(method) and repr(copy) == repr(method)
    params = method.get_params().items()
    name, value = next((name, value) for name, value in params if value is not None)
    copy.set_params(**{name: value / 2 if isinstance(value, float) else value + 1})
    assert copy != method and copy == type(method)(**copy.get_params())
    with pytest.raises(FrozenInstanceError):
        setattr(copy, name, value)
    with pytest.raises(ValueError, match="Invalid parameter 'wrong'"):
        copy.set_params(wrong=1)


# What methods need.


def machine_of(*units, n=3):
    thetas = [unit.default_theta(n, np.zeros(1)) for unit in units]
    return Machine(tuple(units), tuple(thetas), (np.zeros((n, n)),) * (len(units) - 1))


def test_units_have_what_they_say():
    for unit in [*(kind() for kind in UNITS.values()), Categorical(), Fractional(np.ones(2))]:
        assert all(getattr(unit, name) in (True, False) for name in CAPABILITIES)
        if unit.has_cumulants:
            mean, variance, third, _ = unit.central_moments(Theta(np.zeros(2)))
            second, half_third, _ = unit.cumulants(mean)
            assert_allclose(second, variance)
            assert_allclose(2 * half_third, third)


FRACTIONAL = machine_of(Bernoulli(), Fractional(np.full(3, 0.5)))
DEEP = machine_of(Bernoulli(), Bernoulli(), Bernoulli())
REAL = machine_of(Gaussian(), Bernoulli())
STRONG = random_machine(("bernoulli", "bernoulli"), (3, 2), 0, strength=1e4)


@pytest.mark.parametrize(
    ("method", "machine", "words"),
    [
        (TAP(), FRACTIONAL, "precision.*; use AIS"),
        (RelaxedBP(), FRACTIONAL, "central moments"),
        (TAP(), machine_of(Categorical()), "precision.*; use inference 'mean_field'"),
        (TAP(order=3), REAL, r"cumulants.*; use .*TAP\(order=2\)"),
        (Langevin(), DEEP, "one hidden layer and visible Gaussian units"),
        (Tempering(), DEEP, "one hidden layer"),
        (BeliefPropagation(), DEEP, "one hidden layer, .*; use 'tap'"),
        (BeliefPropagation(), REAL, "binary units"),
        (BeliefPropagation(), STRONG, "weights between"),
    ],
)
def test_machines_that_lack_something(method, machine, words):
    assert method.unmet(machine) is not None
    with pytest.raises(ValueError, match=f"{words}"):
        method.check(machine)
