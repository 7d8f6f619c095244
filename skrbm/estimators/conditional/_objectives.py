"""Objectives of conditional machines (Ping and Ihler 2017, Sec. 4), and their inference.

Given the features of some rows, the machine is an ordinary one with fields for each row, ``given``.
"""

import warnings
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..._checks import look_up
from ...arrays import cast, from_numpy, matmul, namespace, number_of, sigmoid, to_numpy
from ...inference import (
    BeliefPropagation,
    FixedPoint,
    Gibbs,
    NaiveMeanField,
    method_names,
    propagate_rows,
    resolve,
    solve,
    sum_classes,
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
from ._machine import is_one_label

_COARSE = 1e-6  # tolerance of moments for which float32 does
_TOL = 1e-6  # (1e-3)**2: the tolerance of Sec. 6 is on the change of the means, ours on its square
_MAX_SUMMED = 12  # units of the smaller layer for which log Z is summed exactly
_MAX_DECIDED = 14  # outputs of which all values are tried
_HELD = 1e3  # smallest log-odds of a unit that is held at 1
_STAGES = BeliefPropagation(200, 1e-12), BeliefPropagation(1000, 1e-12, 0.5)  # for log Z, in turn


class Found(NamedTuple):
    """Result of inference."""

    logits: Any  # fields of independent visible units with the same marginals, or the same maximum
    hidden: Any  # means of the hidden units
    converged: Any  # whether each row has
    moments: Any = None  # if asked for


def infer(method, given, moments=False):
    """Return what a fixed point finds, as :class:`Found`.

    Without hidden units belief propagation is exact, and serves for all methods.
    """
    has_hidden, pair_moments = given.n_units[1] > 0, None
    if has_hidden and not isinstance(method, BeliefPropagation):
        method.check(given)
        first = method.state_at(given, given.units[0].mean(given.thetas[0]))
        solution = solve(method, given, first)
        visible, hidden = solution.state.means
        xp = namespace(visible)
        tiny = xp.finfo(visible.dtype).smallest_normal
        low = 0 if is_one_label(given) else xp.log(xp.clip(1 - visible, tiny, None))
        logits = xp.log(xp.clip(visible, tiny, None)) - low
        found = method.moments(given, solution.state) if moments else None
        return Found(logits, hidden, solution.converged, found)
    method = method if has_hidden else BeliefPropagation()
    if is_one_label(given):
        found = sum_classes(method, given, pairs=moments)
    else:
        from_tap, machine = method.product == "sum", given
        if moments and method.tol >= _COARSE:  # learning needs no more digits than these
            machine = given.astype(namespace(given.weights[0]).float32)
        found = propagate_rows(method, machine, from_tap=from_tap, pairs=moments)
        parts = ("visible", "hidden", "pairs") if moments else ()
        found = found._replace(**{name: cast(getattr(found, name), given.dtype) for name in parts})
    hidden = sigmoid(found.hidden)
    if moments:
        visible, weight = given.units[0].mean(Theta(found.visible)), 1.0 / hidden.shape[0]
        block = Block((visible, hidden), (None, None), weight)
        rest = found.pairs - matmul(hidden.T, visible)
        rest *= weight
        pair_moments = Moments((block,), ((0, rest),))
    return Found(found.visible, hidden, found.converged, pair_moments)


def infer_jointly(method, given):
    """Return the most probable values of all outputs, hidden units summed out, as :class:`Found`.

    All values of few outputs are tried.
    """
    if is_one_label(given) or not 1 < given.n_units[0] <= _MAX_DECIDED:
        return infer(method, given)
    parts = [_best_differences(rows) for rows in blocks_of_rows(given, (0,))]
    logits = cast(namespace(parts[0]).concat(parts, axis=0), given.weights[0].dtype)
    hidden = given.units[1].mean(condition(given, given.units[0].mode(Theta(logits))))
    return Found(logits, hidden, np.ones(logits.shape[0], bool))


def _best_differences(given):
    """Return the largest log-weight with each output at 1, less that with it at 0."""
    xp, n, best = namespace(given.weights[0]), given.n_units[0], None
    for (bits, _), weights in configurations(given, (0,)):
        # A column for each output at 1, and at 0.
        values = xp.concat([bits, 1 - bits], axis=1) > 0.5
        columns = (xp.where(values[:, i], weights, -np.inf) for i in range(2 * n))
        found = xp.stack([xp.max(column, axis=1) for column in columns], axis=1)
        best = found if best is None else xp.maximum(best, found)
    return best[:, :n] - best[:, n:]


def clamped(given, V, observed):
    """Return the machine with outputs held at V where ``observed``, by a large field."""
    xp, W = namespace(V), given.weights[0]
    force = _HELD + xp.sum(xp.abs(W), axis=0)  # exceeds the largest field of the hidden units
    field = xp.where(observed, force * (2 * V - 1), given.thetas[0].field)
    return replace(given, thetas=(Theta(field), *given.thetas[1:]))


def draw(given, n_steps, rng):
    """Return outputs, one for each row: exactly for a label, else by Gibbs sampling."""
    if is_one_label(given):
        return given.units[0].sample(Theta(sum_classes(BeliefPropagation(), given).visible), rng)
    if given.n_units[0] > 1:
        return Gibbs(n_steps).search(given, rng)
    off = namespace(given.weights[0]).zeros_like(given.thetas[0].field)
    logits = free_energy(given, off) - free_energy(given, off + 1)
    return given.units[0].sample(Theta(cast(logits, off.dtype)[:, None]), rng)


def log_partitions(given):
    """Return log Z of each row in float64: exact for one label or a small layer, else Bethe."""
    if is_one_label(given):
        return sum_classes(BeliefPropagation(), given, log_partition=True).log_partition
    if min(given.n_units) <= _MAX_SUMMED:
        return log_partition(given, (int(np.argmin(given.n_units)),))
    W, n = given.weights[0], given.thetas[0].field.shape[0]
    log_z, rows = np.empty(n), np.arange(n)
    for method in _STAGES:
        found = propagate_rows(method, given.rows(from_numpy(rows, W)), log_partition=True)
        log_z[rows] = to_numpy(found.log_partition)
        rows = rows[~found.converged]
        if not rows.size:
            break
    else:
        warnings.warn(
            f"belief propagation did not converge in {len(rows)} of {n} rows, so their "
            "log-probabilities are unreliable; increase alpha to get smaller weights",
            ConvergenceWarning,
            stacklevel=4,  # beyond this, score_samples and its wrapper
        )
    return from_numpy(log_z, W)


@dataclass(frozen=True)
class Objective:
    """A function whose gradient is the difference of two moments."""

    method: FixedPoint  # finds the marginals
    chain: Gibbs | None = None  # of objectives that sample

    takes: ClassVar = BeliefPropagation  # class of inference
    named: ClassVar = {"auto": "bp"}  # inference by names that the objective has for itself

    def marginals(self, given, moments=False):
        return infer(self.method, given, moments)

    def decide(self, given):
        """Return what predictions are matched to, as :func:`infer`."""
        return self.marginals(given)

    def phases(self, given, V, observed, rng):
        """Return data moments, moments of the machine and numbers for the history."""
        raise NotImplementedError


@dataclass(frozen=True)
class Likelihood(Objective):
    """log p(y | x), with the marginals of a fixed point."""

    takes: ClassVar = FixedPoint

    def __post_init__(self):
        if getattr(self.method, "product", "sum") != "sum":
            raise ValueError(
                f"objective='likelihood' needs product='sum', got inference={self.method}"
            )
        self.method.check_marginals()

    def phases(self, given, V, observed, rng):
        if observed is None:
            data = data_moments(given, V)
        else:
            data = self.marginals(clamped(given, V, observed), moments=True).moments
        found = self.marginals(given, moments=True)
        return data, found.moments, {"converged": _share(found.converged)}


@dataclass(frozen=True)
class Contrast(Objective):
    """log p(y | x), with the moments of short Gibbs chains."""

    takes: ClassVar = Gibbs

    def phases(self, given, V, observed, rng):
        V = self._completed(given, V, observed, rng)
        return *self.chain.contrast(given, V, rng), {}

    def _completed(self, given, V, observed, rng):
        if observed is None:
            return V
        return Gibbs(self.chain.n_steps).search(clamped(given, V, observed), rng)


@dataclass(frozen=True)
class PerceptronLoss(Contrast):
    """CD-PercLoss (Mnih, Larochelle and Hinton 2011).

    Only rows count in which a chain finds outputs with a lower free energy than the target's.
    """

    named: ClassVar = dict.fromkeys(("auto", "gibbs"), Gibbs(10))  # Sec. 6

    def phases(self, given, V, observed, rng):
        V, xp = self._completed(given, V, observed, rng), namespace(V)
        found = self.chain.search(given, rng)
        better = free_energy(given, found) < free_energy(given, V)
        found = xp.where(better[:, None], found, V)
        return data_moments(given, V), data_moments(given, found), {"updated": _share(better)}


@dataclass(frozen=True)
class Margin(Objective):
    """Latent structured SVM (Yu and Joachims 2009).

    Largest log-weight of all units plus the Hamming loss, against that at the targets.
    """

    product: ClassVar = "max"
    hidden: ClassVar = "mode"

    def marginals(self, given, moments=False):
        return infer(replace(self.method, product="sum"), given, moments)

    def decide(self, given):
        return infer(replace(self.method, product=self.product), given)

    def phases(self, given, V, observed, rng):
        # Up to a constant these fields add the number of outputs that differ from V, or of one
        # label 1 if it does.
        loss = 1 - V if is_one_label(given) else 1 - 2 * V
        if observed is not None:
            loss = namespace(V).where(observed, loss, 0 * V)
            V = given.units[0].mode(Theta(self.decide(clamped(given, V, observed)).logits))
        found = self.decide(given.tilted(0, loss))
        worst = given.units[0].mode(Theta(found.logits))
        data, model = (self._moments(given, rows) for rows in (V, worst))
        return data, model, {"converged": _share(found.converged)}

    def _moments(self, given, V):
        hidden = getattr(given.units[1], self.hidden)(condition(given, V))
        return Moments((Block((V, hidden), (None, None), 1.0 / V.shape[0]),))


@dataclass(frozen=True)
class MarginalMargin(Margin):
    """Marginal structured SVM (Ping, Liu and Ihler 2014): the same with hidden units summed out."""

    product: ClassVar = "mixed"
    hidden: ClassVar = "mean"


# By name, of each those that differ in the class of inference that they take.
OBJECTIVES = {
    "likelihood": (Likelihood, Contrast),
    "perceptron": (PerceptronLoss,),
    "margin": (Margin,),
    "marginal_margin": (MarginalMargin,),
}


def _share(mask):
    return number_of(mask) / mask.shape[0]


def make_objective(name, inference, n_sweeps):
    """Return the objective of a name with the inference of a name, or an object.

    Where it samples, it predicts by mean field.
    """
    kinds = look_up("objective", name, OBJECTIVES)
    if isinstance(inference, str):
        inference = kinds[0].named.get(inference, inference)
    method = resolve(inference, FixedPoint, Gibbs, max_iter=n_sweeps, tol=_TOL)
    for kind in kinds:
        if isinstance(method, kind.takes):
            if isinstance(method, FixedPoint):
                return kind(method)
            return kind(NaiveMeanField(max_iter=n_sweeps, tol=_TOL), method)
    takes = kinds[0].takes
    raise ValueError(
        f"inference={inference!r} is not supported for objective={name!r}; use one of "
        f"{method_names(takes)} or a {takes.__name__} object"
    )


def decision_of(name, objective):
    """Return the decision of a name, or that of an objective where it is None: a function."""
    if name is None:
        return objective.decide
    method = objective.method
    if not isinstance(method, BeliefPropagation):
        method = BeliefPropagation(method.max_iter, _TOL)
    joint = partial(infer_jointly, replace(method, product="mixed"))
    decisions = {"marginals": objective.marginals, "joint": joint}
    return look_up("decision", name, decisions, ", or None")  # which may be set after fit
