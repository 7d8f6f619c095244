"""The zero-sum gauge of categorical sites."""

from dataclasses import replace

import numpy as np

from ..arrays import Array, cast, from_numpy, namespace
from ..units import Theta
from ._machine import Machine


# BLAS reads a little beyond short rows and may flag what it finds there.
@np.errstate(invalid="ignore", over="ignore")
def zero_sum(machine: Machine) -> Machine:
    """Return the same distribution with parameters that sum to zero over the values of each site.

    Exactly one column of a categorical site is 1. So a constant added to all its fields changes
    log Z alone, and a constant added to all its weights to a unit is a field of that unit.
    """

    def shifted(theta: Theta, fields: Array) -> Theta:
        total = namespace(fields).sum(fields, axis=0)
        return theta._replace(field=theta.field + machine.scale * total)

    thetas, weights = list(machine.thetas), list(machine.weights)
    for l, unit in enumerate(machine.units):
        sites = unit.exclusive(machine.n_units[l])
        if not sites:
            continue
        among = np.zeros((machine.n_units[l], len(sites)))
        for site, columns in enumerate(sites):
            among[columns, site] = 1.0
        among = cast(from_numpy(among, thetas[l].field), machine.dtype)
        means = among / namespace(among).sum(among, axis=0)
        thetas[l] = thetas[l]._replace(field=thetas[l].field - among @ (thetas[l].field @ means))
        if l > 0:
            common = means.T @ weights[l - 1]
            weights[l - 1] = weights[l - 1] - among @ common
            thetas[l - 1] = shifted(thetas[l - 1], common)
        if l < len(weights):
            common = weights[l] @ means
            weights[l] = weights[l] - common @ among.T
            thetas[l + 1] = shifted(thetas[l + 1], common.T)
    return replace(machine, thetas=tuple(thetas), weights=tuple(weights))
