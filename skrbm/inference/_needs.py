"""The base of inference methods, and their requirements."""

from typing import NamedTuple

from .._params import HyperParameters

CAPABILITIES = {
    "takes_precision": "units that take a precision",
    "has_central_moments": "units that give their third and fourth central moments",
    "has_cumulants": "units whose cumulants are functions of the mean, such as binary units",
    "is_binary": "binary units",
    "is_gaussian": "Gaussian units",
}
"""Descriptions of attributes of :class:`~skrbm.units.Unit`, for errors."""


class Needs(NamedTuple):
    """Requirements of a method.

    Attributes
    ----------
    units : tuple of str
        Names in :data:`CAPABILITIES` that all units must have.
    visible : tuple of str
        The same for the visible units only.
    one_hidden_layer : bool
        Whether the machine must have one hidden layer.
    """

    units: tuple = ()
    visible: tuple = ()
    one_hidden_layer: bool = False


class InferenceMethod(HyperParameters):
    """Base of fixed points and samplers.

    Subclasses are frozen dataclasses that hold only hyperparameters.

    Attributes
    ----------
    needs : Needs
        Requirements on the machine.
    alternative : str
        What to use for other machines, for error messages.
    """

    needs = Needs()
    alternative = ""

    def unmet(self, machine) -> str | None:
        """Return a message about unmet requirements, or None if the machine is supported."""
        needs, missing, advice = self.needs, [], []
        if needs.one_hidden_layer and len(machine.units) != 2:
            missing.append("one hidden layer")
        layers = (needs.units, machine.units, ""), (needs.visible, machine.units[:1], "visible ")
        for names, units, kind in layers:
            lacking = [name for name in names if not all(getattr(unit, name) for unit in units)]
            missing += [kind + CAPABILITIES[name] for name in lacking]
            if lacking:  # units that advise something themselves know better
                advice += [unit.alternative for unit in machine.units if unit.alternative]
        if not missing:
            return None
        units, instead = ", ".join(map(str, machine.units)), [*advice, self.alternative][0]
        return (
            f"{type(self).__name__} needs {' and '.join(missing)}, but the units of the model are "
            + units
            + (f"; use {instead}" if instead else "")
        )

    def check(self, machine):
        """Raise ValueError if the machine does not meet the requirements."""
        sentence = self.unmet(machine)
        if sentence is not None:
            raise ValueError(sentence)
