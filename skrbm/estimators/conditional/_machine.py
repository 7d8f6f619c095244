"""The machine whose biases depend on features, and its gradient."""

from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from ...arrays import (
    add_products,
    are_finite,
    cast,
    copied,
    dense_rows,
    from_numpy,
    like,
    matmul,
    namespace,
    require,
)
from ...inputs import parameter
from ...learning import Gradient
from ...machine import Machine
from ...machine._machine import is_per_row
from ...units import Bernoulli, Categorical, Theta


@dataclass(frozen=True)
class ConditionalMachine:
    """p(v, h | x) ∝ exp(h' W v + v' (A x + b) + h' (B x + c)) (Ping and Ihler 2017, Eq. 3).

    Visible units v are the outputs, and there may be no hidden units h.
    """

    units: tuple  # visible and hidden
    components: Any  # W, of shape (n_hidden, n_visible)
    coef_visible: Any  # A, of shape (n_visible, n_features)
    coef_hidden: Any  # B, of shape (n_hidden, n_features)
    intercept_visible: Any  # b
    intercept_hidden: Any  # c

    n_penalised: ClassVar = 3  # of the leaves: W, A and B

    @property
    def weights(self):
        return (self.components,)

    @property
    def n_units(self):
        return self.components.shape[::-1]

    @property
    def dtype(self):
        return self.components.dtype

    @property
    def leaves(self):
        return tuple(getattr(self, name) for name in PARAMETERS)

    def check(self):
        """Raise ValueError unless all parameters are finite, and their shapes agree."""
        machine_of(**dict(zip(PARAMETERS, self.leaves, strict=True)))

    def with_leaves(self, leaves):
        return ConditionalMachine(self.units, *leaves)

    def given(self, X):
        """Return the machine p(v, h | x) with fields for each row x; ValueError if not finite."""
        visible = matmul(X, self.coef_visible.T) + self.intercept_visible
        hidden = matmul(X, self.coef_hidden.T) + self.intercept_hidden
        for field in (visible, hidden):
            finite = namespace(field).all(namespace(field).isfinite(field))
            message = f"one of the fields is not finite in {self.dtype}: scale X"
            require(finite, partial(ValueError, message))
        return Machine(self.units, (Theta(visible), Theta(hidden)), self.weights)

    def blocks(self, X, size=1024, rows=None):
        """Yield (index array, :meth:`given` of these rows), for blocks of all ``rows`` of X."""
        rows = np.arange(X.shape[0]) if rows is None else rows
        for start in range(0, len(rows), size):
            part = rows[start : start + size]
            with np.errstate(over="ignore", invalid="ignore"):  # fields are checked
                if sp.issparse(X):
                    yield part, self.given(X[part].astype(self.dtype))
                else:
                    yield part, self.given(dense_rows(X, from_numpy(part, X), self.dtype))

    def copy(self):
        return self.with_leaves(map(copied, self.leaves))

    def is_finite(self):
        return bool(are_finite(self.leaves))

    def has_finite_thetas(self):
        return are_finite(self.leaves[-2:])


PARAMETERS = tuple(field.name for field in fields(ConditionalMachine) if field.name != "units")


def is_one_label(machine):
    return isinstance(machine.units[0], Categorical)


class ConditionalGradient(Gradient):
    """Gradient of the log-likelihood by W, A, B, b and c, by moments of ``given`` for rows of X."""

    n_penalised = ConditionalMachine.n_penalised

    def __init__(self, moments, given, X):
        self.moments, self.given, self.X = moments, given, X
        self.units = given.units[0], None, None

    def add(self, targets, rate, keep=1.0):
        W, A, B, b, c = targets
        layers = [(A, b)]
        if W.shape[0]:  # there are hidden units
            layers.append((B, c))
            self.moments.add_pair(self.given, 0, W, rate, keep)
        for l, (coef, intercept) in enumerate(layers):
            rows = 0
            for block in self.moments.blocks:
                weight = block.weight[:, None] if is_per_row(block.weight) else block.weight
                rows = rows + weight * block.means[l]
            rows = cast(rows, W.dtype)
            add_products(coef, [(rows, self.X, rate)], keep)
            intercept += rate * namespace(rows).sum(rows, axis=0)


def random_machine(unit, n_hidden, n_features, field, rng, reference):
    """Return a machine with random W and B.

    Fields of hidden units have a variance of at most 1 by features of variance 1, and as much by
    outputs with the biases ``field``: smaller ones were slower to learn.
    """
    xp, options, n_visible = namespace(reference), like(reference), field.shape[0]
    n_on = float(np.sum(unit.mean(Theta(np.asarray(field, np.float64)))))
    return ConditionalMachine(
        (unit, Bernoulli()),
        rng.normal((n_hidden, n_visible)) / max(1.0, n_on) ** 0.5,
        xp.zeros((n_visible, n_features), **options),
        rng.normal((n_hidden, n_features)) / n_features**0.5,
        cast(from_numpy(field, reference), reference.dtype),
        xp.zeros(n_hidden, **options),
    )


def with_parameters(machine, parts):
    """Return the machine with copies of some arrays, by name, instead of its own."""
    checked = {}
    for name, part in parts.items():
        own = getattr(machine, name)
        checked[name] = parameter(name, part, own.ndim, own, empty=True)
        if checked[name].shape != own.shape:
            raise ValueError(
                f"{name} has shape {tuple(checked[name].shape)}, and {tuple(own.shape)} is needed"
            )
    return replace(machine, **checked)


def machine_of(components, **parts):
    """Return a machine of binary units with copies of arrays, zeros where one is None."""
    W = parameter("components", components, 2, empty=True)
    parts = {name: part for name, part in parts.items() if part is not None}
    coef = next((name for name in ("coef_visible", "coef_hidden") if name in parts), None)
    if coef is None:
        raise ValueError("coef_visible or coef_hidden must be given")
    n_hidden, n_visible = W.shape
    n_features = parameter(coef, parts[coef], 2, W, empty=True).shape[1]
    if not n_visible or not n_features:
        raise ValueError(f"components and {coef} must have a column for each output and feature")
    shapes = (n_visible, n_features), (n_hidden, n_features), (n_visible,), (n_hidden,)
    zeros = (namespace(W).zeros(shape, **like(W)) for shape in shapes)
    machine = ConditionalMachine((Bernoulli(), Bernoulli()), W, *zeros)
    return with_parameters(machine, parts)
