"""The parameters that optimisers see, and the gradients by them."""

from dataclasses import dataclass, replace

from ..inputs import Coordinates
from ..machine import zero_sum
from ._optimizers import ArrayGradient, Gradient


class MachineGradient(Gradient):
    """Gradient of the log-likelihood by the natural parameters of a machine.

    Parameters
    ----------
    machine : Machine
    moments : Moments
        Those of the data minus those of the machine.
    """

    def __init__(self, machine, moments):
        self.machine, self.moments = machine, moments
        self.n_penalised = len(machine.weights)

    def add(self, targets, rate, keep=1.0):
        machine, n = self.machine, self.n_penalised
        for l, target in enumerate(targets[:n]):
            self.moments.add_pair(machine, l, target, rate, keep)
        targets = iter(targets[n:])
        for l, unit in enumerate(machine.units):
            slopes = self.moments.statistics(unit, l)
            for part, slope in zip(machine.thetas[l], slopes, strict=True):
                if part is not None:
                    target = next(targets)
                    target += rate * slope


class CenteredGradient(ArrayGradient):
    """A gradient by natural parameters in coordinates in which the layers have means of about zero.

    With offsets m_l the gradient of W_l is that of the couplings between x_l - m_l and
    x_{l+1} - m_{l+1}, and fields are changed so that a step of the weights leaves the mean fields
    as they are (Melchior, Fischer and Wiskott 2016). It ascends the likelihood as the plain
    gradient does, but does not depend on which state of a binary unit is called 1.

    Parameters
    ----------
    gradient : Gradient
        By natural parameters.
    machine : Machine
        Whose parameters these are.
    offsets : tuple of array of shape (n_units[l],)
        m_l.
    """

    def __init__(self, gradient, machine, offsets):
        n = gradient.n_penalised
        arrays = list(gradient.arrays(NATURAL.of(machine)))
        fields = _places_of_fields(machine)
        slopes = [arrays[place] for place in fields]
        for l in range(n):
            below, above = offsets[l], offsets[l + 1]
            arrays[l] = arrays[l] - above[:, None] * slopes[l] - slopes[l + 1][:, None] * below
        for l, place in enumerate(fields):
            if l > 0:
                arrays[place] = arrays[place] - arrays[l - 1] @ offsets[l - 1]
            if l < n:
                arrays[place] = arrays[place] - offsets[l + 1] @ arrays[l]
        super().__init__(tuple(arrays), n)


def _places_of_fields(machine):
    """Return the positions of the layers' fields among the natural parameters."""
    places, place = [], len(machine.weights)
    for theta in machine.thetas:
        places.append(place)
        place += sum(part is not None for part in theta)
    return places


class NaturalParameters:
    """Learning by the machine's own parameters: weights, and natural parameters of the units."""

    gradient = MachineGradient

    def of(self, machine):
        """Return the parameters of a machine, a tuple of arrays: its own."""
        parts = [part for theta in machine.thetas for part in theta if part is not None]
        return (*machine.weights, *parts)

    def machine(self, machine, parameters):
        """Return the machine after its parameters were written in place."""
        layers = zip(machine.units, machine.thetas, strict=True)
        return machine.written([unit.project(theta) for unit, theta in layers])

    def means(self, means):
        """Return means of the layers, arrays of shape (n_units[l],), in these coordinates."""
        return means

    def first(self, machine):
        """Return the machine that has given small random parameters in these coordinates."""
        return machine

    def fixed(self, machine):
        """Return the same distribution with the parameters that are chosen among all it can have.

        Learning asks for it after each epoch.
        """
        return machine


NATURAL = NaturalParameters()


class ZeroSumParameters(NaturalParameters):
    """Natural parameters, of which those of a site of categories are made to sum to zero.

    Centred gradients keep the sums as they are, so that steps need not.
    """

    def first(self, machine):
        return zero_sum(machine)

    def fixed(self, machine):
        return zero_sum(machine)


ZERO_SUM = ZeroSumParameters()


@dataclass(frozen=True)
class StandardParameters(NaturalParameters):
    """Learning by the natural parameters that a machine has in standardised coordinates.

    With visible values v = m + s z the same distribution has the weights W s, the precisions A s²
    and the fields (b - A m) s of the visible units, and the biases c + W m. Steps by these do not
    depend on the columns' units of measure. The supports of the units stay as they are, and what
    ``project`` keeps away from are the standardised parameters.

    Parameters
    ----------
    coordinates : Coordinates
        m and s, in the dtype of the machine.
    """

    coordinates: Coordinates

    def of(self, machine):
        """Return the parameters in standardised coordinates."""
        (mean, scale), parts = self.coordinates, list(super().of(machine))
        field, hidden = _places_of_fields(machine)[:2]
        parts[hidden] = parts[hidden] + parts[0] @ mean
        parts[field] = (parts[field] - parts[field + 1] * mean) * scale
        parts[field + 1] = parts[field + 1] * scale**2
        parts[0] = parts[0] * scale
        return tuple(parts)

    def gradient(self, machine, moments):
        """Return the gradient of the log-likelihood by these parameters, by the chain rule."""
        (mean, scale), slopes = self.coordinates, MachineGradient(machine, moments)
        arrays = list(slopes.arrays(super().of(machine)))
        field, hidden = _places_of_fields(machine)[:2]
        arrays[0] = (arrays[0] - arrays[hidden][:, None] * mean) / scale
        arrays[field + 1] = (arrays[field + 1] + arrays[field] * mean) / scale**2
        arrays[field] = arrays[field] / scale
        return ArrayGradient(tuple(arrays), slopes.n_penalised)

    def machine(self, machine, parameters):
        """Return the machine with given parameters in standardised coordinates."""
        (mean, scale), n = self.coordinates, len(machine.weights)
        values = iter(parameters[n:])
        thetas = [theta.map(lambda part: next(values)) for theta in machine.thetas]
        layers = zip(machine.units, thetas, strict=True)
        own, hidden, *rest = (unit.project(theta) for unit, theta in layers)
        W, precision = parameters[0] / scale, own.precision / scale**2
        own = own._replace(field=own.field / scale + precision * mean, precision=precision)
        hidden = hidden._replace(field=hidden.field - W @ mean)
        return replace(machine, thetas=(own, hidden, *rest), weights=(W, *parameters[1:n]))

    def means(self, means):
        """Return the means with those of the visible units in standardised coordinates."""
        return self.coordinates.inward(means[0]), *means[1:]

    def first(self, machine):
        """Return the machine that has given small random parameters in these coordinates."""
        mean, scale = self.coordinates
        own, hidden, *rest = machine.thetas
        W = machine.weights[0] / scale
        hidden = hidden._replace(field=hidden.field - W @ mean)
        return replace(machine, thetas=(own, hidden, *rest), weights=(W, *machine.weights[1:]))
