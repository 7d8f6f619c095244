"""What a machine with Gaussian visible units trains with, in the coordinates of training."""

from dataclasses import dataclass
from typing import Any

from ...inference import Sampler, resolve
from ...learning import ChainPhase, Noise
from .._choices import optimizer_of
from .._parts import Parts
from ._coordinates import MeanVariance, coordinates_of

_N_STEPS = 20  # of a sampler without a number of its own


@dataclass(frozen=True)
class NoisyParts(Parts):
    """Those of training, with the noise in the data's own units."""

    noise: Any = None


def parts_of(params, noise):
    """Return the :class:`NoisyParts` that an estimator asks for.

    Parameters
    ----------
    params : GaussianBernoulliRBM
    noise : tuple of arrays of shape (n_features,)
        Mean and standard deviation of the noise at which chains start.
    """
    (mean, scale), coordinates = noise, coordinates_of(*noise, params.standardize)
    step = {"step_size": params.step_size, "adjust_after": params.adjust_after}
    sampler = resolve(params.inference, Sampler, n_steps=_N_STEPS, **step)
    n_steps = params.n_steps
    if n_steps is None:
        n_steps = sampler.get_params().get("n_steps", _N_STEPS)
    phase = ChainPhase(
        sampler,
        params.starts,
        n_steps,
        params.burn_in,
        params.gradient,
        Noise(coordinates.inward(mean), scale / coordinates.divisor),
        params.anneal_step_size and sampler.step_size is not None,
    )
    return NoisyParts(
        phase,
        optimizer_of(params),
        parameters=MeanVariance(params.min_variance),
        coordinates=coordinates,
        noise=noise,
    )
