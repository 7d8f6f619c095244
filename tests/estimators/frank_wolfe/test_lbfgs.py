"""L-BFGS from several starts at once. Those of linear subproblems are compared with scipy's."""

import numpy as np
from numpy.testing import assert_allclose

from skrbm.estimators.frank_wolfe._lbfgs import minimise


def test_minimise_on_hard_valleys():
    """Rosenbrock's function, from several starts at once."""

    def rosenbrock(x):
        a, b = x[:, 0], x[:, 1]
        value = (1 - a) ** 2 + 100 * (b - a * a) ** 2
        by_a = -2 * (1 - a) - 400 * a * (b - a * a)
        return value, np.stack([by_a, 200 * (b - a * a)], axis=1)

    starts = np.array([[-1.2, 1.0], [1.0, 1.0], [3.0, -2.0], [0.0, 0.0]])
    x, values = minimise(rosenbrock, starts, max_iter=200, tol=1e-8, ftol=0)
    assert_allclose(x, 1, atol=1e-6)
    assert (values < 1e-12).all()
