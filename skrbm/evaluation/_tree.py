"""A hierarchical clustering of rows by the solutions of a model during its training."""

from dataclasses import dataclass

import numpy as np

from ._solutions import solutions


@dataclass(frozen=True)
class SolutionTree:
    """A hierarchical clustering of rows by solutions of fixed-point equations.

    Attributes
    ----------
    levels : tuple of Solutions
        Of each model, from the first to the last one of the training.
    labels : ndarray of int of shape (n_levels, n_samples)
        The solution of each level to which a row belongs, -1 for rows whose iterations did not
        converge at it or at a later level. Rows that share a solution share those of all earlier
        levels.
    """

    levels: tuple
    labels: np.ndarray

    def __repr__(self):
        return f"{type(self).__name__}({' -> '.join(str(len(level)) for level in self.levels)})"


def solution_tree(models, X, method="auto", *, unique_tol=1e-2):
    """Cluster rows by the solutions that they reach, and these by solutions of earlier models.

    Equations of the last model are iterated from the rows, those of the model before it from the
    solutions found, and so on. As there are fewer solutions early in training, branches merge until
    one is left.

    Parameters
    ----------
    models : sequence of estimators or Machines
        Of the same units at several epochs of one training, the first epoch first.
    X : array-like of shape (n_samples, n_features)
        Rows, without missing values.
    method : str or object, default="auto"
        As in :func:`solutions`.
    unique_tol : float, default=1e-2
        As in :func:`solutions`.

    Returns
    -------
    SolutionTree

    References
    ----------
    Decelle, A., Rosset, L., & Seoane, B. (2023). Unsupervised hierarchical clustering using the
    learning dynamics of restricted Boltzmann machines. Physical Review E 108.

    Examples
    --------
    >>> import copy
    >>> import numpy as np
    >>> from skrbm import TAPRBM
    >>> from skrbm.evaluation import solution_tree
    >>> X = np.repeat([[0, 0, 0, 0], [0, 0, 1, 1], [1, 1, 0, 0], [1, 1, 1, 1]], 25, axis=0)
    >>> rbm, models = TAPRBM(n_components=4, n_iter=20, warm_start=True, random_state=0), []
    >>> for _ in range(10):
    ...     models.append(copy.deepcopy(rbm.fit(X)))
    >>> tree = solution_tree(models, X)
    >>> tree.labels.shape
    (10, 100)
    """
    models = list(models)
    if not models:
        raise ValueError("models must contain at least one model")
    levels, labels, starts = [], [], X
    for model in reversed(models):
        found = solutions(model, method, starts, unique_tol=unique_tol)
        own = found.labels
        if labels:
            own = np.where(labels[-1] < 0, -1, found.labels[labels[-1]])
        levels.append(found)
        labels.append(own)
        starts = found.visible_means
    return SolutionTree(tuple(levels[::-1]), np.stack(labels[::-1]))
