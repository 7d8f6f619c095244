"""Initial parameters from training in a few principal directions of the data."""

from dataclasses import replace
from math import isfinite

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp
from sklearn.utils.extmath import randomized_svd

from ..arrays import cast, from_numpy, make_rng, namespace, to_numpy

_DIRECTIONS = 4  # draws do not cover more dimensions
_ABOVE_NOISE = 1.1  # times the largest singular value of columns without correlations
_HIDDEN = 16  # more hidden units in these directions leave fewer for the others
_ROWS = 5000  # of data
_TILTS, _DRAWS, _MOST_VALUES = 1000, 10, 2**24  # distributions, and draws from each
_LEAST_EFFECTIVE = 100  # draws
_PRIOR = 1e-4  # precision of fields, which would be infinite where means are at the bounds
_NEWTON_STEPS, _LONGEST = 15, 2.0  # and the largest change of a field in a step
_ITERATIONS = 100


def low_rank(machine, rows, seed, first_weights):
    """Return a machine with 16 hidden units trained in principal directions of the data.

    Their weights are A U', where U are the first four principal directions, or fewer if only these
    stand out from the noise of independent columns. Then p(v) = p0(v) g(U' v) / Z, with independent
    units p0 and log g(m) = a' m + sum_j log sum_h exp(h (A m + c)_j). Z, the mean of g under p0, is
    estimated by draws from p0(v) exp(t' U' v), for many t such that the means are at rows of the
    data. These draws do not depend on a, A and c, which maximize the likelihood by L-BFGS. Then the
    fields of p0 are corrected such that the means of all columns are those of the data, and a, A
    and c are found again.

    It is a variant of the restricted Coulomb machine (Decelle and Furtlehner 2021) with which
    Béreux et al. (2025) begin; there the rows of A have given directions, and Z is a sum over a
    grid.

    Parameters
    ----------
    machine : Machine
        Whose visible units fit the data without hidden units.
    rows : callable
        ``rows(n)`` returns at most ``n`` random rows of the data.
    seed : int
    first_weights : callable
        Sets the weights of a machine of further hidden units, and its visible fields with them.

    Returns
    -------
    Machine

    Raises
    ------
    ValueError
        If units have no bounds or depend on each other, if no direction stands out, or if too few
        draws have weight, such as where columns are many.
    """
    for unit in machine.units:
        if not (unit.has_variances and isfinite(unit.bounds[1] - unit.bounds[0])):
            raise ValueError(f"init='low_rank' needs independent units with bounds, not {unit}")
    most = max(1, _MOST_VALUES // machine.n_units[0])
    X = to_numpy(rows(min(_ROWS, most))).astype(np.float64)
    rng = np.random.default_rng(seed)
    centred = X - X.mean(axis=0)
    _, sizes, directions = randomized_svd(centred, _DIRECTIONS, random_state=0)
    noise = randomized_svd(rng.permuted(centred, axis=0), 1, random_state=0)[1][0]
    own, hidden = (
        theta.map(lambda part: to_numpy(part).astype(np.float64)) for theta in machine.thetas
    )
    hidden = hidden.map(lambda part: part[:_HIDDEN])
    n_above = int((sizes > _ABOVE_NOISE * noise).sum())
    for n in range(n_above, 0, -1):
        U = directions[:n].T * (len(X) ** 0.5 / sizes[:n])  # projections have a variance of 1
        found = _fitted(machine.units, own, hidden, X, U, max(1, min(_TILTS, most // _DRAWS)), rng)
        if found is not None:
            return _joined(machine, *found, first_weights)
    if n_above:
        raise ValueError("init='low_rank' found no samples that cover X; use init='random'")
    raise ValueError(
        "init='low_rank' found no direction of X that stands out from noise; use init='random'"
    )


def _joined(machine, field, biases, weights, first_weights):
    """Return the machine with other parameters of its first hidden units, and of visible ones.

    ``first_weights`` gives weights to the others, and moves visible fields so that means stay; this
    change is added.
    """
    (own, hidden), (W,) = machine.thetas, machine.weights
    xp, n = namespace(W), weights.shape[0]
    field, biases, weights = (cast(from_numpy(p, W), W.dtype) for p in (field, biases, weights))
    if n < W.shape[0]:
        rest = hidden.map(lambda part: part[n:])
        rest = first_weights(replace(machine, thetas=(own, rest), weights=(W[n:, :],)))
        field = field + (rest.thetas[0].field - own.field)
        biases = xp.concat((biases, rest.thetas[1].field))
        weights = xp.concat((weights, rest.weights[0]))
    thetas = own._replace(field=field), hidden._replace(field=biases)
    return replace(machine, thetas=thetas, weights=(weights,))


def _fitted(units, own, hidden, X, U, n_tilts, rng):
    """Return visible and hidden fields and weights, or None if too few draws have weight.

    In the coordinates Z = (X - mean) U the data have means of 0 and variances of 1.
    """
    mean, variance = X.mean(axis=0), X.var(axis=0)
    Z, n, n_hidden = (X - mean) @ U, U.shape[1], hidden.field.shape[0]
    targets = Z[rng.integers(len(Z), size=n_tilts)]
    # At first hidden units separate the data at random rows in random directions.
    A = rng.normal(size=(n_hidden, n))
    A *= 0.5 / np.linalg.norm(A, axis=1)[:, None]
    c = -(A * Z[rng.integers(len(Z), size=n_hidden)]).sum(axis=1)
    parameters = np.concatenate([-0.5 * A.sum(axis=0), c, A.ravel()])

    def split(parameters):
        a, c, A = np.split(parameters, [n, n + n_hidden])
        return a, c, A.reshape(n_hidden, n)

    def conditional(Z, c, A):
        return units[1].tilt(hidden, Z @ A.T + c)

    def log_factor(parameters, Z):
        a, c, A = split(parameters)
        return Z @ a + units[1].total_log_partition(conditional(Z, c, A))

    def slope(parameters, Z, p):
        _, c, A = split(parameters)
        h = units[1].mean(conditional(Z, c, A)) * p[:, None]
        return np.concatenate([p @ Z, h.sum(axis=0), (h.T @ Z).ravel()])

    def loss(parameters, drawn, log_weights):
        log_p = log_weights + log_factor(parameters, drawn)
        log_z = logsumexp(log_p)
        gain = log_factor(parameters, Z).mean() - log_z
        of_draws = slope(parameters, drawn, np.exp(log_p - log_z))
        prior = parameters / len(Z)
        gradient = of_draws - slope(parameters, Z, np.full(len(Z), 1 / len(Z))) + prior
        return 0.5 * prior @ parameters - gain, gradient

    for is_last in (False, True):
        V, log_weights = _drawn(units[0], own, mean, U, targets, rng)
        drawn = (V - mean) @ U
        options = {"jac": True, "method": "L-BFGS-B", "options": {"maxiter": _ITERATIONS}}
        parameters = minimize(loss, parameters, (drawn, log_weights), **options).x
        log_p = log_weights + log_factor(parameters, drawn)
        p = np.exp(log_p - logsumexp(log_p))
        if not 1 / (p @ p) >= _LEAST_EFFECTIVE:
            return None
        if not is_last:
            means = p @ V
            scale = np.maximum(p @ (V - means) ** 2, 0.25 * variance)
            step = (mean - means) / np.where(scale > 0, scale, 1.0)
            own = own._replace(field=own.field + step)
    a, c, A = split(parameters)
    weights = A @ U.T
    return own.field + U @ a, hidden.field + c - weights @ mean, weights


def _drawn(visible, own, mean, U, targets, rng):
    """Return draws from independent units whose means have projections near targets.

    Units p_t(v) = p0(v) exp(t' m) / E exp(t' m), with m = U' (v - mean), are found for each target
    by Newton's method, and t of every second one is multiplied by a random number, for draws
    between clusters and beyond. With the draws come the logarithms of their weights by the mixture
    of all units, p0(v) / sum_t p_t(v), up to a constant.
    """
    n = U.shape[1]
    products = (U[:, :, None] * U[:, None, :]).reshape(-1, n * n)
    t = np.zeros_like(targets)
    for _ in range(_NEWTON_STEPS):
        means, variances = visible.mean_variance(visible.tilt(own, t @ U.T))
        slope = targets - (means - mean) @ U - _PRIOR * t
        curvature = (variances @ products).reshape(-1, n, n) + _PRIOR * np.eye(n)
        step = np.linalg.solve(curvature, slope[..., None])[..., 0]
        largest = np.abs(step @ U.T).max(axis=1, keepdims=True)
        t += step * (_LONGEST / np.maximum(largest, _LONGEST))
    t[::2] *= rng.uniform(0.0, 1.3, size=(len(t[::2]), 1))
    log_means = visible.log_ratio(own, visible.tilt(own, t @ U.T)) - t @ (mean @ U)
    source = make_rng(rng.integers(2**32), np.zeros(0))
    tilted = visible.tilt(own, np.repeat(t @ U.T, _DRAWS, axis=0))
    V = visible.sample(tilted, source)
    return V, -logsumexp((V - mean) @ U @ t.T - log_means, axis=1)
