"""The tree of solutions during training."""

import numpy as np
from sklearn.utils.validation import column_or_1d

from ..arrays import to_numpy


class SolutionTreeDisplay:
    """Tree of the solutions of a model during training.

    Parameters
    ----------
    tree : SolutionTree
        Result of :func:`skrbm.evaluation.solution_tree`.
    y : array-like of shape (n_samples,), default=None
        Classes of the rows, which determine the colors of the branches; by default the last
        solutions do.
    epochs : sequence of shape (n_levels,), default=None
        The epoch of each level; by default 1, 2, ...

    Attributes
    ----------
    figure_ : matplotlib Figure or SubFigure
    ax_ : matplotlib Axes
    """

    def __init__(self, tree, y=None, epochs=None):
        self.tree = tree
        self.y = y
        self.epochs = epochs

    @classmethod
    def from_tree(cls, tree, y=None, *, epochs=None, **plot_params):
        """Show a tree; see the class for the parameters, and :meth:`plot` for ``plot_params``.

        Returns
        -------
        SolutionTreeDisplay
        """
        n_levels, n_samples = tree.labels.shape
        if y is not None and len(y := column_or_1d(to_numpy(y))) != n_samples:
            raise ValueError(f"y has {len(y)} entries, but the tree has {n_samples} rows")
        if epochs is not None and np.shape(epochs) != (n_levels,):
            raise ValueError(
                f"epochs has shape {np.shape(epochs)}, but the tree has {n_levels} levels"
            )
        return cls(tree, y, epochs).plot(**plot_params)

    def plot(self, *, ax=None):
        """Draw the tree, from the first level at the top to the last one at the bottom.

        The width of a branch shows its number of rows, and its color the class of the majority, or
        grey if there is none. Rows without a solution at some level are left out.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; by default in a new figure.

        Returns
        -------
        self : SolutionTreeDisplay
        """
        import matplotlib.pyplot as plt

        if ax is None:
            _, ax = plt.subplots(figsize=(7, 4), layout="constrained")
        kept = (self.tree.labels >= 0).all(axis=0)
        order = np.flatnonzero(kept)[np.lexsort(self.tree.labels[::-1, kept])]
        labels = self.tree.labels[:, order]  # rows of a branch are next to each other
        names, classes = np.unique(labels[-1] if self.y is None else self.y, return_inverse=True)
        classes = classes if self.y is None else classes[order]
        colors = plt.get_cmap("tab10" if len(names) <= 10 else "tab20")
        n_levels, n_rows = labels.shape
        above = np.zeros(n_rows) + (n_rows - 1) / 2  # centres of the branches of the level above
        for depth, level in enumerate(labels):
            centres = np.empty(n_rows)
            for rows in np.split(np.arange(n_rows), np.flatnonzero(np.diff(level)) + 1):
                centres[rows] = x = rows.mean()
                counts = np.bincount(classes[rows])
                most = counts.argmax()
                color = colors(most % colors.N) if 2 * counts[most] >= len(rows) else "0.8"
                top, width = depth - 1, 0.5 + 8 * len(rows) / n_rows
                ax.plot([above[rows[0]], x], [top, top], color="0.8", lw=0.8, zorder=1)
                ax.plot([x, x], [top, depth], color=color, lw=width, solid_capstyle="butt")
            above = centres
        epochs = range(1, n_levels + 1) if self.epochs is None else self.epochs
        ax.set_yticks(range(n_levels), [str(epoch) for epoch in epochs])
        ax.invert_yaxis()
        ax.set(xlabel="rows", ylabel="epoch", xlim=(-0.02 * n_rows, 1.02 * n_rows))
        if self.y is not None:
            for i, name in enumerate(names):
                ax.plot([], [], color=colors(i % colors.N), lw=3, label=str(name))
            ax.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
        self.figure_, self.ax_ = ax.figure, ax
        return self
