"""The tree of solutions on a model whose solutions are known: independent ferromagnetic blocks."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.linalg import block_diag

from skrbm.evaluation import _solutions, solution_tree, solutions
from skrbm.machine import Machine
from skrbm.units import Bernoulli, Theta

CORNERS = np.repeat([[0, 0], [0, 1], [1, 0], [1, 1]], 2, axis=0).astype(float)


def blocks(*couplings, n=4):
    """Return independent blocks of n x n units, symmetric under exchange of 0 and 1.

    By naive mean field a block has one solution if n times its coupling is at most 4, and the
    symmetric one is unstable beyond, where there are two others.
    """
    W = block_diag(*(np.full((n, n), coupling) for coupling in couplings))
    theta = Theta(-0.5 * W.sum(axis=0))
    return Machine((Bernoulli(), Bernoulli()), (theta, theta), (W,))


def test_branches_merge_where_solutions_do():
    models = [blocks(0.5, 0.8), blocks(0.8, 1.6), blocks(1.6, 3.0)]
    X = np.repeat(CORNERS, 4, axis=1)
    tree = solution_tree(models, X, "naive_mean_field")
    assert [len(level) for level in tree.levels] == [1, 2, 4]
    assert_array_equal(tree.labels[0], 0)
    second, both = CORNERS[:, 1], CORNERS @ [2, 1]
    for labels, groups in zip(tree.labels[1:], (second, both), strict=True):
        assert_array_equal(labels[:, None] == labels, groups[:, None] == groups)
    last = solutions(models[-1], "naive_mean_field", X)
    assert_array_equal(tree.labels[-1], last.labels)


def test_rows_that_do_not_converge_are_in_no_branch(monkeypatch):
    labels = iter([[0, -1, 1, 2], [1, 0, -1]])  # of the last model, and of the one before it

    def solved(model, method, starts, unique_tol):
        return SimpleNamespace(labels=np.array(next(labels)), visible_means=None)

    monkeypatch.setattr(_solutions, "solutions", solved)
    tree = solution_tree([blocks(0.5, n=2)] * 2, CORNERS[:4])
    assert_array_equal(tree.labels, [[1, -1, 0, -1], [0, -1, 1, 2]])


@pytest.mark.parametrize(
    ("models", "message"),
    [
        (blocks(0.5), "models must be a sequence of models, got Machine"),
        ([], "at least one model"),
        ([blocks(0.5), blocks(0.5, n=3)], r"the same visible units, got \[3, 4\] of them"),
        ([blocks(0.5, n=3)], "X has 4 columns, but the model has 3 visible units"),
    ],
)
def test_wrong_models(models, message):
    with pytest.raises(ValueError, match=message):
        solution_tree(models, np.zeros((2, 4)))
