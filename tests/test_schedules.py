"""How learning rates fall."""

import numpy as np
import pytest

from skrbm._schedules import SCHEDULES, scheduled


@pytest.mark.parametrize("name", sorted(SCHEDULES))
def test_schedules_start_at_one_and_never_rise(name):
    values = [SCHEDULES[name](progress) for progress in np.linspace(0, 1, 50)]
    assert values[0] == pytest.approx(1)
    assert (np.diff(values) <= 0).all()
    assert values[-1] >= 0


def test_schedules_are_what_they_are_called():
    for progress in (0.0, 0.3, 1.0):
        assert SCHEDULES["constant"](progress) == 1
        assert SCHEDULES["linear"](progress) == pytest.approx(1 - progress)
        assert SCHEDULES["cosine"](progress) == pytest.approx((1 + np.cos(np.pi * progress)) / 2)
        # Three powers of ten over the whole: 1e-2 to 1e-5 in the paper.
        assert np.log10(SCHEDULES["exponential"](progress)) == pytest.approx(-3 * progress)


def test_a_schedule_is_a_name_or_a_function():
    assert scheduled("linear", 0.25) == 0.75
    assert scheduled(lambda progress: 1 + progress, 0.25) == 1.25


@pytest.mark.parametrize("factor", [-0.1, float("nan"), None, "0.5"])
def test_factors_that_are_no_rates_are_refused(factor):
    with pytest.raises(ValueError, match=r"schedule .* at 0\.25 of n_iter must be .* >= 0, got"):
        scheduled(lambda progress: factor, 0.25)
