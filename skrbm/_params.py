"""Hyperparameters of objects that are passed to estimators, for grid searches."""

from dataclasses import fields, replace

import numpy as np

from ._checks import hint


def plain(given):
    """Return an object whose numbers are Python's, whose arithmetic has no overflow."""
    values = {field.name: getattr(given, field.name) for field in fields(given)}
    numbers = {k: v.item() for k, v in values.items() if isinstance(v, np.number)}
    return replace(given, **numbers) if numbers else given


class HyperParameters:
    """Base class of frozen dataclasses whose fields scikit-learn can read and set.

    It allows ``GridSearchCV`` to search over parameters such as ``inference__damping``: the search
    clones the estimator together with this object, and sets the value in the clone. Objects with
    equal fields are equal and have the same hash, so do not set a field of an object that is used
    as the key of a dict.
    """

    def get_params(self, deep=True):
        """Return the hyperparameters by name.

        Parameters
        ----------
        deep : bool, default=True
            Ignored; scikit-learn passes it.

        Returns
        -------
        dict
        """
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def set_params(self, **params):
        """Set hyperparameters in place.

        Parameters
        ----------
        **params
            New values by name.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a name is unknown or a value is invalid. Nothing is changed then.
        """
        known = sorted(self.get_params())
        for name in params:
            if name not in known:
                raise ValueError(
                    f"Invalid parameter {name!r} for {self}; valid parameters are {known}"
                    f"{hint(name, known)}"
                )
        checked = replace(self, **params)  # runs the checks of the constructor
        for name in params:
            object.__setattr__(self, name, getattr(checked, name))
        return self
