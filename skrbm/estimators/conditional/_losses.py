"""What a conditional machine learns from: pairs of moments whose difference is the gradient.

Each objective is a loss of Ping and Ihler (2017, Sec. 4) with the inference that it needs. Given
the features of some rows, the machine is an ordinary one with fields for each row, ``given``.
"""

import warnings
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ...arrays import cast, from_numpy, matmul, namespace, sigmoid, to_numpy
from ...inference import (
    FIXED_POINTS,
    BeliefPropagation,
    ContrastiveDivergence,
    FixedPoint,
    Gibbs,
    NaiveMeanField,
    solve,
)
from ...machine import (
    Block,
    Moments,
    blocks_of_rows,
    condition,
    configurations,
    data_moments,
    free_energy,
    log_partition,
)
from ...units import Theta

MOST_ENUMERATED = 12  # units of the smaller layer for which log Z is summed exactly
MOST_DECIDED = 14  # outputs of which all values are tried
_HELD = 1e3  # log-odds, at least, of a unit that is held at 1
_TOL = 1e-6  # mean squared change of the means: 1e-3 (Sec. 6)

INFERENCE = {
    **FIXED_POINTS,
    "mean_field": NaiveMeanField(),
    "gibbs": ContrastiveDivergence(),
}
"""Methods by name, whose sweeps and tolerance the estimator sets."""


class Found(NamedTuple):
    """What inference says of some rows.

    ``logits`` are fields of the visible units alone that say the same, ``hidden`` the means of the
    hidden ones, of shape (n_rows, n_units); ``converged`` is that of each row. ``moments`` are
    None if not asked for.
    """

    logits: Any
    hidden: Any
    converged: Any
    moments: Any = None


@dataclass(frozen=True)
class Propagation:
    """Belief propagation in the product of ``method``."""

    method: BeliefPropagation
    targets: Any

    def __call__(self, given, moments=False):
        method, W = self.method, given.weights[0]
        found = self.targets.propagate(
            W,
            given.thetas[0].field,
            given.thetas[1].field,
            product=method.product,
            max_iter=method.max_iter,
            tol=method.tol,
            damping=method.damping,
            start="tap" if method.product == "sum" else "fields",
            pairs=moments,
        )
        hidden, pair_moments = sigmoid(found.hidden), None
        if moments:
            visible, weight = given.units[0].mean(Theta(found.visible)), 1.0 / hidden.shape[0]
            block = Block((visible, hidden), (None, None), weight)
            rest = found.pairs - matmul(hidden.T, visible)
            rest *= weight
            pair_moments = Moments((block,), ((0, rest),))
        return Found(found.visible, hidden, found.converged, pair_moments)


@dataclass(frozen=True)
class Solving:
    """Any other fixed point, started at the visible means without hidden units.

    These are the solution where there are none, and not every method takes such a machine.
    """

    method: FixedPoint
    targets: Any

    def __call__(self, given, moments=False):
        method = self.method if given.n_units[1] else NaiveMeanField()
        first = method.start(given, given.units[0].mean(given.thetas[0]))  # says what a label takes
        method.check(given)
        solution = solve(method, given, first)
        visible, hidden = solution.state.means
        return Found(
            self.targets.logits(visible),
            hidden,
            solution.converged,
            method.moments(given, solution.state) if moments else None,
        )


@dataclass(frozen=True)
class Joint:
    """The most probable values of all outputs, hidden units summed out.

    Of all values where outputs are few, or else what ``method``, in mixed-product, finds. For one
    label that is exact.
    """

    method: BeliefPropagation
    targets: Any

    def __call__(self, given):
        if self.targets.ndim == 1 or given.n_units[0] > MOST_DECIDED:
            return Propagation(self.method, self.targets)(given)
        xp, W = namespace(given.weights[0]), given.weights[0]
        parts = [_best_differences(rows) for rows in blocks_of_rows(given, (0,))]
        logits = cast(xp.concat(parts, axis=0), W.dtype)
        hidden = given.units[1].mean(condition(given, given.units[0].mode(Theta(logits))))
        return Found(logits, hidden, np.ones(logits.shape[0], bool))


def _best_differences(given):
    """Return the largest log-weight with each output at 1, less that with it at 0."""
    xp, best = namespace(given.weights[0]), {}
    for (bits, _), weights in configurations(given, (0,)):
        for i, column in enumerate(to_numpy(bits).T):
            for value in (0, 1):
                index = from_numpy(np.flatnonzero(column == value), weights)
                if index.shape[0]:
                    found = xp.max(xp.take(weights, index, axis=1), axis=1)
                    known = best.get((i, value))
                    best[i, value] = found if known is None else xp.maximum(known, found)
    return xp.stack([best[i, 1] - best[i, 0] for i in range(given.n_units[0])], axis=1)


def clamped(given, V, observed):
    """Return the machine with outputs held at V where ``observed``."""
    xp, W = namespace(V), given.weights[0]
    force = _HELD + xp.sum(xp.abs(W), axis=0)  # more than all hidden units can move them by
    field = xp.where(observed, force * (2 * V - 1), given.thetas[0].field)
    return replace(given, thetas=(Theta(field), *given.thetas[1:]))


class Likelihood:
    """log p(y | x), with the marginals of a fixed point."""

    def __init__(self, method, marginals, targets):
        if getattr(method, "product", "sum") != "sum":
            raise ValueError(
                f"objective='likelihood' needs marginals, which {method} does not give; it takes "
                "product='sum', and 'margin' and 'marginal_margin' choose their own"
            )
        method.check_marginals()
        infer = Propagation if isinstance(method, BeliefPropagation) else Solving
        self.marginals = self.decide = infer(method, targets)

    def phases(self, given, V, observed, rng):
        """Return data moments, moments of the machine and numbers for the history."""
        if observed is None:
            data = data_moments(given, V)
        else:
            data = self.marginals(clamped(given, V, observed), moments=True).moments
        found = self.marginals(given, moments=True)
        return data, found.moments, {"converged": float(np.mean(found.converged))}


class Contrast:
    """log p(y | x), with the moments of short Gibbs chains; predicts by mean field."""

    def __init__(self, method, marginals, targets):
        self.chain, self.marginals, self.decide = method, marginals, marginals

    def phases(self, given, V, observed, rng):
        V = self._completed(given, V, observed, rng)
        return *self.chain.contrast(given, V, rng), {}

    def _completed(self, given, V, observed, rng):
        """Return V with missing outputs drawn by a chain that the others stay fixed in."""
        if observed is None:
            return V
        return Gibbs(self.chain.n_steps).search(clamped(given, V, observed), rng)


class PerceptronLoss(Contrast):
    """CD-PercLoss (Mnih, Larochelle and Hinton 2011): rows are learnt from where a chain finds
    outputs with a lower free energy than the label's.
    """

    def phases(self, given, V, observed, rng):
        V, xp = self._completed(given, V, observed, rng), namespace(V)
        found = self.chain.search(given, rng)
        better = free_energy(given, found) < free_energy(given, V)
        found = xp.where(better[:, None], found, V)
        report = {"updated": float(xp.mean(cast(better, V.dtype)))}
        return data_moments(given, V), data_moments(given, found), report


class Margin:
    """Latent structured SVM (Yu and Joachims 2009): the largest log-weight of all units, with the
    Hamming loss added, against that with the outputs at the label.
    """

    product, hidden = "max", "mode"

    def __init__(self, method, marginals, targets):
        self.targets = targets
        self.marginals = Propagation(replace(method, product="sum"), targets)
        self.decide = Propagation(replace(method, product=self.product), targets)

    def phases(self, given, V, observed, rng):
        loss = self.targets.loss_field(V)
        if observed is not None:
            loss = namespace(V).where(observed, loss, 0 * V)
            V = self._decided(clamped(given, V, observed))[0]
        worst, converged = self._decided(given.tilted(0, loss))
        data, model = (Moments((self._block(given, rows),)) for rows in (V, worst))
        return data, model, {"converged": float(np.mean(converged))}

    def _decided(self, given):
        found = self.decide(given)
        return given.units[0].mode(Theta(found.logits)), found.converged

    def _block(self, given, V):
        hidden = getattr(given.units[1], self.hidden)(condition(given, V))
        return Block((V, hidden), (None, None), 1.0 / V.shape[0])


class MarginalMargin(Margin):
    """Marginal structured SVM (Ping, Liu and Ihler 2014): the same with hidden units summed out."""

    product, hidden = "mixed", "mean"


OBJECTIVES = {
    "likelihood": ((FixedPoint, Likelihood), (Gibbs, Contrast)),
    "perceptron": ((Gibbs, PerceptronLoss),),
    "margin": ((BeliefPropagation, Margin),),
    "marginal_margin": ((BeliefPropagation, MarginalMargin),),
}
"""Which classes of inference each objective takes, and what it then is."""

_NAMES = {
    "likelihood": f"a name, of {sorted(INFERENCE)}, or an object of skrbm.inference",
    "perceptron": "'gibbs', or Gibbs(n_steps)",
    "margin": "'bp', or a BeliefPropagation object",
    "marginal_margin": "'bp', or a BeliefPropagation object",
}
USUAL = {
    "likelihood": "bp",
    "perceptron": "gibbs",
    "margin": "bp",
    "marginal_margin": "bp",
}
"""The inference that each objective takes where it is left to it."""

_SEARCH = Gibbs(10)  # of CD-PercLoss (Sec. 6)


def make_objective(name, inference, n_sweeps, targets):
    """Return the objective of a name with the inference of a name, or an object.

    ``n_sweeps`` are those of methods that are given by name, and of the mean field by which
    objectives that sample predict.
    """
    _check_name("objective", name, OBJECTIVES)
    if isinstance(inference, str) and inference == "auto":
        inference = USUAL[name]
    method = inference
    if isinstance(inference, str):
        _check_name("inference", inference, INFERENCE)
        method = INFERENCE[inference]
        if isinstance(method, FixedPoint):
            method = replace(method, max_iter=n_sweeps, tol=_TOL)
        elif name == "perceptron":
            method = _SEARCH
    mean_field = Solving(NaiveMeanField(max_iter=n_sweeps, tol=_TOL), targets)
    for kind, objective in OBJECTIVES[name]:
        if isinstance(method, kind):
            return objective(method, mean_field, targets)
    raise ValueError(
        f"objective={name!r} does not work with inference={inference!r}; it takes {_NAMES[name]}"
    )


def _check_name(parameter, name, names):
    """Raise ValueError of a name that was set after fit, which nothing else checks."""
    if name not in names:
        raise ValueError(f"{parameter} must be one of {sorted(names)}, got {name!r}")


def make_decision(name, objective, inference, n_sweeps, targets):
    """Return what predicts: as an objective does (None), by "marginals", or "joint"."""
    if name is not None:
        _check_name("decision", name, ("marginals", "joint"))
    if name != "joint":
        return objective.decide if name is None else objective.marginals
    method = inference
    if not isinstance(method, BeliefPropagation):
        method = BeliefPropagation(n_sweeps, _TOL)
    return Joint(replace(method, product="mixed"), targets)


def log_partitions(given, targets):
    """Return log Z of each row in float64: exact for one label or a small layer, or else Bethe.

    Warns of rows where belief propagation has not converged.
    """
    are_bits = given.units[0].values is not None  # the classes of a label exclude each other
    if are_bits and min(given.n_units) <= MOST_ENUMERATED:
        return log_partition(given, (int(np.argmin(given.n_units)),))
    fields = [theta.field for theta in given.thetas]
    stages = ({"max_iter": 200}, {"max_iter": 1000, "damping": 0.5})
    xp, n = namespace(fields[0]), fields[0].shape[0]
    log_z, rows = np.empty(n), np.arange(n)
    for stage in stages:
        index = from_numpy(rows, fields[0])
        some = [xp.take(field, index, axis=0) for field in fields]
        found = targets.propagate(given.weights[0], *some, tol=1e-12, log_partition=True, **stage)
        log_z[rows] = to_numpy(found.log_partition)
        rows = rows[~found.converged]
        if not rows.size:
            return from_numpy(log_z, fields[0])
    warnings.warn(
        f"belief propagation did not converge in {len(rows)} of {n} rows, whose log-probabilities "
        "are not reliable; weights that are smaller, by a larger alpha, make it converge",
        ConvergenceWarning,
        stacklevel=4,  # beyond this, score_samples and its wrapper
    )
    return from_numpy(log_z, fields[0])
