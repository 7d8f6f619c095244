"""What an inference method needs of a machine, as data that can be read before a fit."""

from typing import NamedTuple

from .._params import HyperParameters
from ..machine import is_per_row

CAPABILITIES = {
    "takes_precision": "units that take a precision",
    "has_central_moments": "units that give their third and fourth central moments",
    "has_cumulants": "units whose cumulants are functions of the mean, such as binary units",
    "is_binary": "binary units",
    "is_gaussian": "Gaussian units",
}
"""What each attribute of a :class:`~skrbm.units.Unit` means, for errors."""


class Needs(NamedTuple):
    """What a method needs of a machine.

    Attributes
    ----------
    units : tuple of str
        Names in :data:`CAPABILITIES` that all units must have.
    visible : tuple of str
        The same for the visible units alone.
    one_hidden_layer : bool
        Whether the machine must have one hidden layer.
    one_scale : bool
        Whether all rows must share the factor on the couplings.
    """

    units: tuple = ()
    visible: tuple = ()
    one_hidden_layer: bool = False
    one_scale: bool = False

    def missing(self, units):
        """Return what the layers of a machine lack.

        Parameters
        ----------
        units : tuple of Unit
            One entry for each layer, the visible layer first.

        Returns
        -------
        list of (str, Unit or None)
            A description of each thing that is needed, and the first unit without it.
        """
        found = []
        if self.one_hidden_layer and len(units) != 2:
            found.append(("one hidden layer", None))
        for names, layers, kind in ((self.units, units, ""), (self.visible, units[:1], "visible ")):
            for name in names:
                lacking = [unit for unit in layers if not getattr(unit, name)]
                if lacking:
                    found.append((kind + CAPABILITIES[name], lacking[0]))
        return found


class InferenceMethod(HyperParameters):
    """Base of fixed points and samplers.

    Subclasses are frozen dataclasses that hold hyper-parameters only.

    Attributes
    ----------
    needs : Needs
        What the machine must have.
    alternative : str
        What to use on machines that lack it; it ends an error.
    """

    needs = Needs()
    alternative = ""

    def unmet(self, machine):
        """Return a sentence that says what the machine lacks, or None if the method applies."""
        missing = self.needs.missing(machine.units)
        if self.needs.one_scale and is_per_row(machine.scale):
            missing.append(("one scale for all rows", None))
        if not missing:
            return None
        own = [unit.alternative for unit in machine.units if unit.alternative]
        is_of_units = any(unit is not None for _, unit in missing)
        # What a method advises may not apply to units that advise something themselves.
        advice = own[0] if own and is_of_units else self.alternative
        return (
            f"{type(self).__name__} needs {' and '.join(text for text, _ in missing)}, and this "
            f"machine has the units {', '.join(map(str, machine.units))}"
            + (f"; use {advice}" if advice else "")
        )

    def applies_to(self, machine):
        """Return whether the method applies to the machine."""
        return self.unmet(machine) is None

    def check(self, machine):
        """Raise ValueError if the method does not apply to the machine."""
        sentence = self.unmet(machine)
        if sentence is not None:
            raise ValueError(sentence)
