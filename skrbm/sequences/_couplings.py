"""Effective couplings between sites, and the contacts that they predict."""

import numpy as np

from .._checks import check_count, look_up
from ..arrays import block_rows, to_numpy
from ..inputs import check_weights, one_hot
from ..machine import Machine
from ..units import Categorical
from ._alphabet import check_codes


def sequence_machine(model):
    """Return the machine of a model in NumPy and float64, and its number of letters.

    Raises TypeError unless the model is a fitted estimator or Machine of one hidden layer and of
    visible units Categorical of one size, whose categories are the letters of one alphabet.
    """
    if not isinstance(model, Machine) and not hasattr(type(model), "machine_"):
        raise TypeError(
            f"model must be a fitted estimator or a Machine, got {type(model).__name__}"
        )
    machine = model if isinstance(model, Machine) else model.machine_
    sizes = ()
    if isinstance(machine.units[0], Categorical) and len(machine.units) == 2:
        sizes = set(machine.units[0].sites(machine.n_units[0]))
    if len(sizes) != 1:
        raise TypeError(
            "model must have one hidden layer and visible units with the same letters at all "
            f"sites, got units {machine.units}"
        )
    categories = [list(values) for values in getattr(model, "categories_", ())]
    for values in categories:
        is_text = isinstance(values[0], str | bytes)
        if values != (categories[0] if is_text else list(range(len(values)))):
            raise TypeError(
                f"model has a site with categories {values} instead of those of an alphabet; fit "
                "CategoricalRBM with categories=[range(n_letters)] * n_sites"
            )

    def in_double(part):
        return np.asarray(to_numpy(part), dtype=np.float64)

    thetas = tuple(theta.map(in_double) for theta in machine.thetas)
    weights = (machine.scale * in_double(machine.weights[0]),)
    return Machine(machine.units, thetas, weights), sizes.pop()


def effective_couplings(model, codes, sample_weight=None, *, method="variance"):
    """Compute the couplings between pairs of sites that are mediated by the hidden units.

    With the hidden units summed out, log p(v) = b'v + sum_m G_m(W_m v) + constant, where G_m is
    the log-partition function of hidden unit m. Given the other letters of a sequence, the coupling
    of the letters at sites i and j is the part of sum_m G_m that depends on both.

    Parameters
    ----------
    model : fitted estimator or Machine
        A model with visible units ``Categorical((n_letters,) * n_sites)`` and one hidden layer.
    codes : array-like of int of shape (n_sequences, n_sites)
        Sequences over which couplings are averaged, such as those of the data. Sequences drawn
        uniformly give the pair terms of the expansion of log p(v) in zero-sum gauge.
    sample_weight : array-like of shape (n_sequences,), default=None
        Weights of the sequences in that average.
    method : {"variance", "difference"}, default="variance"
        "variance" is the second-order approximation used by Tubiana et al. (2019) to predict
        contacts: W_mi(a) W_mj(b) times the mean variance of h_m given v, summed over m. It is exact
        for Gaussian hidden units. "difference" averages G_m with letters a and b inserted at i and
        j, in zero-sum gauge. It is exact for any units, but its time grows as n_sequences
        n_sites**2 n_letters**2: use a few dozen sequences.

    Returns
    -------
    ndarray of shape (n_sites, n_letters, n_sites, n_letters)
        Couplings with indices (i, a, j, b), symmetric and in zero-sum gauge: sums over a or b are
        0. They are 0 for i = j.

    Raises
    ------
    TypeError
        If the model does not have such units.
    """
    function = look_up("method", method, {"variance": _variance, "difference": _difference})
    machine, n_letters = sequence_machine(model)
    codes, n_sites = check_codes(codes, n_letters), machine.n_units[0] // n_letters
    if codes.shape[1] != n_sites:
        raise ValueError(f"codes have {codes.shape[1]} sites, but the model has {n_sites}")
    if (codes < 0).any():
        raise ValueError("codes must have no missing letters (-1)")
    weights = check_weights(sample_weight, codes)
    weights = np.ones(len(codes)) if weights is None else weights
    X = one_hot(codes.astype(np.int64), (n_letters,) * n_sites).astype(np.float64)
    inputs = X @ machine.weights[0].T
    W = machine.weights[0].reshape(-1, n_sites, n_letters)
    return zero_sum(function(machine, inputs, W, codes, weights / weights.sum()))


def _variance(machine, inputs, W, codes, weights):
    unit = machine.units[1]
    if not unit.has_variances:
        raise ValueError(
            f"method='variance' does not support hidden {unit}; use method='difference'"
        )
    _, variance = unit.mean_variance(unit.tilt(machine.thetas[1], inputs))
    flat = W.reshape(len(W), -1)
    return (flat.T @ ((weights @ variance)[:, None] * flat)).reshape(2 * W.shape[1:])


def _difference(machine, inputs, W, codes, weights):
    n_hidden, n_sites, n_letters = W.shape
    unit, found, sites = machine.units[1], np.zeros(2 * W.shape[1:]), W.transpose(1, 2, 0)
    step = block_rows(n_letters**2 * n_hidden)
    for start in range(0, len(codes), step):
        rows = slice(start, start + step)
        for i in range(n_sites):
            rest = inputs[rows] - sites[i, codes[rows, i]]
            for j in range(i):
                without = rest - sites[j, codes[rows, j]]
                total = without[:, None, None] + sites[i, :, None] + sites[j]
                theta = unit.tilt(machine.thetas[1], total.reshape(-1, n_hidden))
                G = unit.log_partition(theta).sum(axis=-1).reshape(total.shape[:-1])
                found[i, :, j, :] += np.tensordot(weights[rows], G, 1)
    return found + found.transpose(2, 3, 0, 1)


def zero_sum(couplings):
    """Return couplings whose sums over the letters of either site are 0; 0 where sites are equal.

    This changes the fields of a Potts model and no probability.
    """
    found = np.array(couplings, dtype=np.float64)
    if found.ndim != 4 or found.shape[:2] != found.shape[2:]:
        raise ValueError(
            "couplings must have the shape (n_sites, n_letters, n_sites, n_letters), got "
            f"{found.shape}"
        )
    sites = np.arange(len(found))
    found[sites, :, sites, :] = 0
    if not np.isfinite(found).all():
        raise ValueError("couplings of different sites contain NaN or infinity")
    for axis in (1, 3):
        found -= found.mean(axis=axis, keepdims=True)
    return found


def contact_scores(couplings, *, gap=None, correct=True):
    """Return a contact score for each pair of sites, the norm of its couplings.

    Parameters
    ----------
    couplings : array-like of shape (n_sites, n_letters, n_sites, n_letters)
        Couplings such as those of :func:`effective_couplings`, in any gauge.
    gap : int, default=None
        The code of a letter whose couplings are ignored, such as 0 for the gap of "protein".
    correct : bool, default=True
        Whether to apply the average product correction (Dunn et al. 2008), which subtracts the
        contributions of single sites.

    Returns
    -------
    ndarray of shape (n_sites, n_sites)
        Scores, symmetric and 0 on the diagonal: Frobenius norms F_ij, minus F_i F_j / F if
        corrected, where F_i and F are the sums of F_ij over j and over all pairs.
    """
    couplings = zero_sum(couplings)
    if gap is not None:
        check_count("gap", gap, 0)
        if gap >= couplings.shape[1]:
            raise ValueError(f"gap must be a code from 0 to {couplings.shape[1] - 1}, got {gap}")
        couplings = np.delete(np.delete(couplings, gap, axis=1), gap, axis=3)
    norms = np.sqrt((couplings**2).sum(axis=(1, 3)))
    if correct and norms.any():
        sums = norms.sum(axis=1)
        norms = norms - np.outer(sums, sums) / sums.sum()
    np.fill_diagonal(norms, 0.0)
    return norms


def ranked_pairs(scores, *, min_separation=5, n_pairs=None):
    """Return pairs of sites in order of decreasing scores.

    Parameters
    ----------
    scores : array-like of shape (n_sites, n_sites)
    min_separation : int, default=5
        Minimum distance of the two sites along the sequence, since neighbours are always in
        contact.
    n_pairs : int, default=None
        Number of pairs; None for all.

    Returns
    -------
    ndarray of int of shape (n_pairs, 2)
        Pairs with the smaller site first.
    """
    scores = np.asarray(scores)
    if scores.ndim != 2 or scores.shape[0] != scores.shape[1]:
        raise ValueError(f"scores must have the shape (n_sites, n_sites), got {scores.shape}")
    check_count("min_separation", min_separation, 1)
    check_count("n_pairs", n_pairs, 1, or_none=True)
    i, j = np.triu_indices(len(scores), min_separation)
    if not np.isfinite(scores[i, j]).all():
        raise ValueError("scores contain NaN or infinity")
    order = np.argsort(-scores[i, j], kind="stable")[:n_pairs]
    return np.stack([i[order], j[order]], axis=1)
