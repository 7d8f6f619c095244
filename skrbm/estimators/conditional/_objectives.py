"""Objectives of conditional machines: pairs of moments whose difference is the gradient.

Each objective is a loss of Ping and Ihler (2017, Sec. 4) with the inference that it needs.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

from ..._checks import look_up
from ...arrays import namespace, number_of
from ...inference import BeliefPropagation, FixedPoint, Gibbs, NaiveMeanField, method_names, resolve
from ...machine import Block, Moments, condition, data_moments, free_energy
from ...units import Theta
from ._inference import clamped, infer, infer_jointly
from ._machine import is_one_label

_TOL = 1e-6  # (1e-3)**2: the tolerance of Sec. 6 is on the change of the means, ours on its square


@dataclass(frozen=True)
class Objective:
    """A function whose gradient is the difference of two moments."""

    method: FixedPoint  # finds the marginals
    chain: Gibbs | None = None  # of objectives that sample

    takes: ClassVar = BeliefPropagation  # class of inference
    named: ClassVar = {"auto": "bp"}  # inference by names that the objective has for itself

    def marginals(self, given, moments=False):
        """Return the marginal probabilities, as :func:`infer`."""
        return infer(self.method, given, moments)

    def decide(self, given):
        """Return what predictions are matched to, as :func:`infer`."""
        return self.marginals(given)

    def phases(self, given, V, observed, rng):
        """Return data moments, moments of the machine and numbers for the history.

        ``given`` has fields for each row of the targets V, which are known where ``observed``, or
        all if that is None.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class Likelihood(Objective):
    """log p(y | x), with the marginals of a fixed point."""

    takes: ClassVar = FixedPoint

    def __post_init__(self):
        if getattr(self.method, "product", "sum") != "sum":
            raise ValueError(
                f"objective='likelihood' needs product='sum', and inference is {self.method}"
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
        """Return V with missing outputs drawn by a chain in which the others stay fixed."""
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

    The largest log-weight of all units, with the Hamming loss added, against that with the outputs
    at the targets.
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


OBJECTIVES = {
    "likelihood": (Likelihood, Contrast),
    "perceptron": (PerceptronLoss,),
    "margin": (Margin,),
    "marginal_margin": (MarginalMargin,),
}
"""Objectives by name, of each those that differ in the class of inference that they take."""


def _share(mask):
    """Return the fraction of the entries that are true."""
    return number_of(mask) / mask.shape[0]


def make_objective(name, inference, n_sweeps):
    """Return the objective of a name with the inference of a name, or an object.

    ``n_sweeps`` is the largest number of sweeps of a fixed point given by name, and of the mean
    field with which objectives that sample predict.
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
        f"objective={name!r} does not work with inference={inference!r}; it takes one of "
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
