"""Sampling of sequences, also at a low temperature."""

from dataclasses import replace

import numpy as np

from .._checks import check_count, check_number
from ..arrays import block_rows, make_rng, one_blas_thread, to_numpy
from ..inference import chain_ends
from ..machine import precise_free_energy
from ._couplings import sequence_machine


@one_blas_thread
def design(model, n_samples=1, *, temperature=1.0, n_steps=100, random_state=None):
    """Sample sequences, and compute their log-likelihoods.

    Chains sample from p(v, h)**(1 / temperature). At temperatures below 1 the sequences score
    higher than those of the data, and are less diverse.

    Parameters
    ----------
    model : fitted estimator
        A model with visible units ``Categorical((n_letters,) * n_sites)`` and one hidden layer.
    n_samples : int, default=1
    temperature : float > 0, default=1.0
    n_steps : int, default=100
        Number of Gibbs sweeps of each chain, which starts at a random row of ``starts_``.
    random_state : int, RandomState instance or None, default=None

    Returns
    -------
    codes : ndarray of int8 of shape (n_samples, n_sites)
    log_likelihood : ndarray of shape (n_samples,)
        Log-likelihoods under the model itself, at temperature 1, in nats.
    """
    check_count("n_samples", n_samples, 1)
    check_count("n_steps", n_steps, 0)
    check_number("temperature", temperature, above=0)
    machine, n_letters = sequence_machine(model)
    if not hasattr(model, "log_partition"):
        raise TypeError("model must be a fitted estimator, got a Machine; see from_parameters")
    factor = 1.0 / temperature
    thetas = tuple(theta.map(lambda part: factor * part) for theta in machine.thetas)
    cold = replace(machine, thetas=thetas, weights=(factor * machine.weights[0],))
    rng = make_rng(random_state, machine.weights[0])
    starts = to_numpy(model.starts_)
    index, codes, free_energies = rng.integers(starts.shape[0], n_samples), [], []
    for part in np.split(index, range(block_rows(), n_samples, block_rows())):
        block = starts[part].astype(np.float64)
        rows = chain_ends(cold, rng, block, n_steps)
        codes.append(rows.reshape(len(rows), -1, n_letters).argmax(axis=2).astype(np.int8))
        free_energies.append(precise_free_energy(machine, rows))
    return np.concatenate(codes), -np.concatenate(free_energies) - model.log_partition()
