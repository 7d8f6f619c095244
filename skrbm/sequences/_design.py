"""Sampling of sequences, also at a low temperature."""

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from .._checks import check_count, check_number
from ..arrays import dense, make_rng, one_blas_thread, row_blocks, to_numpy
from ..inference import chain_ends
from ..machine import precise_free_energy
from ._alphabet import codes_of, known_rows
from ._couplings import sequence_machine

_BLOCK_ROWS = 512  # sequences whose one-hot columns are dense together


def at_temperature(machine, temperature):
    """Return the machine with all parameters divided by a temperature: p(v, h)**(1 / temperature).

    Parameters
    ----------
    machine : Machine
    temperature : float > 0
        Below 1, probable configurations become more probable.

    Returns
    -------
    Machine
    """
    check_number("temperature", temperature, above=0)
    factor = 1.0 / temperature
    thetas = tuple(theta.map(lambda part: factor * part) for theta in machine.thetas)
    return replace(machine, thetas=thetas, weights=tuple(factor * W for W in machine.weights))


@one_blas_thread
def design(model, n_samples=1, *, temperature=1.0, n_steps=100, init=None, random_state=None):
    """Sample sequences, and compute their log-likelihoods.

    Chains run at the temperature (see :func:`at_temperature`); below 1 their sequences score higher
    than those of the data, and vary less.

    Parameters
    ----------
    model : fitted estimator
        With visible units ``Categorical((n_letters,) * n_sites)`` and one hidden layer.
    n_samples : int, default=1
    temperature : float > 0, default=1.0
    n_steps : int, default=100
        Steps of block Gibbs sampling of each chain.
    init : array-like of int of shape (n_samples, n_sites), default=None
        Codes where the chains start, such as natural sequences; default: random rows of
        ``starts_``.
    random_state : int, RandomState instance or None, default=None

    Returns
    -------
    codes : ndarray of int8 of shape (n_samples, n_sites)
    log_likelihood : ndarray of shape (n_samples,)
        Of the model itself, at temperature 1, in nats.
    """
    check_count("n_samples", n_samples, 1)
    check_count("n_steps", n_steps, 0)
    machine, n_letters = sequence_machine(model)
    if not hasattr(model, "log_partition"):
        raise TypeError("model must be a fitted estimator, got a Machine; see from_parameters")
    rng = make_rng(random_state, machine.weights[0])
    if init is None:
        starts = sp.csr_array(np.asarray(to_numpy(model.starts_), dtype=np.float64))
        starts = starts[rng.integers(starts.shape[0], n_samples)]
    else:
        starts = known_rows(init, n_letters, machine.n_units[0] // n_letters, "init")[1]
    if starts.shape[0] != n_samples:
        raise ValueError(f"init has {starts.shape[0]} rows, but n_samples={n_samples}")
    cold, codes, free_energies = at_temperature(machine, temperature), [], []
    for block in row_blocks(starts, _BLOCK_ROWS):
        rows = chain_ends(cold, rng, dense(block), n_steps)
        codes.append(codes_of(rows, n_letters))
        free_energies.append(precise_free_energy(machine, rows))
    return np.concatenate(codes), -np.concatenate(free_energies) - model.log_partition()
