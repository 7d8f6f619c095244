"""How the parameters of a machine are published as attributes of an estimator."""

import numpy as np

from ..arrays import from_numpy, like, namespace
from ..inputs import LAYER_ATTRIBUTES, THETA_ATTRIBUTES, public_parts, theta_of
from ..machine import Machine
from ..units import Theta


class OneLayer:
    """Weights, biases and other parameters of a machine with one hidden layer."""

    def attributes(self, machine):
        """Return the fitted attributes that hold the parameters of a machine, a dict."""
        layers = zip(machine.units, machine.thetas, strict=True)
        values = (part for unit, theta in layers for part in public_parts(unit, theta))
        named = zip(THETA_ATTRIBUTES, values, strict=True)
        found = {"units_": machine.units, "components_": machine.weights[0]}
        return found | {name: part for name, part in named if part is not None}

    def machine(self, estimator):
        parts = [getattr(estimator, name, None) for name in THETA_ATTRIBUTES]
        n = len(parts) // 2
        pairs = zip(estimator.units_, (parts[:n], parts[n:]), strict=True)
        thetas = tuple(theta_of(unit, own) for unit, own in pairs)
        return Machine(estimator.units_, thetas, (estimator.components_,))


class Layers:
    """Lists with the parameters of each layer of a deep machine."""

    def attributes(self, machine):
        layers = [public_parts(*layer) for layer in zip(machine.units, machine.thetas, strict=True)]
        named = zip(LAYER_ATTRIBUTES, zip(*layers, strict=True), strict=True)
        found = {"units_": machine.units, "components_": list(machine.weights)}
        return found | {name: list(values) for name, values in named}

    def machine(self, estimator):
        thetas = map(Theta, *(getattr(estimator, name) for name in LAYER_ATTRIBUTES))
        return Machine(estimator.units_, tuple(thetas), tuple(estimator.components_))


class Sites(OneLayer):
    """Parameters of categories as arrays of shape (..., n_sites, n_categories), with zeros."""

    def attributes(self, machine):
        sizes, found = machine.units[0].sizes, super().attributes(machine)
        for name in ("components_", "intercept_visible_"):
            found[name] = by_site(found[name], sizes)
        return found

    def machine(self, estimator):
        sizes = estimator._encoder.sizes
        parts = [getattr(estimator, name, None) for name in THETA_ATTRIBUTES]
        parts[0] = of_all_values(parts[0], sizes)
        n, W = len(parts) // 2, of_all_values(estimator.components_, sizes)
        return Machine(estimator.units_, (Theta(*parts[:n]), Theta(*parts[n:])), (W,))


class Counts:
    """Weights whose rows sum to 0, since the biases of hidden units apply to each word."""

    def attributes(self, machine):
        W, b = machine.weights[0], machine.thetas[0].field
        xp = namespace(W)
        shift = xp.mean(W, axis=1)
        return {
            "units_": (type(machine.units[0])(), machine.units[1]),  # without a length
            "components_": W - shift[:, None],
            "intercept_hidden_": shift,
            "intercept_visible_": xp.asarray(b, copy=True),
        }

    def machine(self, estimator):
        c = estimator.intercept_hidden_
        thetas = Theta(estimator.intercept_visible_), Theta(0 * c)
        return Machine(estimator.units_, thetas, (estimator.components_ + c[:, None],))


def by_site(x, sizes):
    """Return columns of all values of all sites as (..., n_sites, n_categories), with zeros."""
    xp, width = namespace(x), max(sizes)
    if len(set(sizes)) > 1:
        columns = np.full(len(sizes) * width, sum(sizes))
        columns[_places(sizes)] = np.arange(sum(sizes))
        zero = xp.zeros((*x.shape[:-1], 1), **like(x))
        x = xp.take(xp.concat([x, zero], axis=-1), from_numpy(columns, x), axis=-1)
    return xp.reshape(x, (*x.shape[:-1], len(sizes), width))


def of_all_values(x, sizes):
    """Return the inverse of :func:`by_site`."""
    xp = namespace(x)
    x = xp.reshape(x, (*x.shape[:-2], x.shape[-2] * x.shape[-1]))
    if len(set(sizes)) > 1:
        x = xp.take(x, from_numpy(_places(sizes), x), axis=-1)
    return x


def _places(sizes):
    """Return where the values of all sites are among those of sites of equal size."""
    first = max(sizes) * np.arange(len(sizes))
    return np.concatenate([start + np.arange(q) for start, q in zip(first, sizes, strict=True)])
