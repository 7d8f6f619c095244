"""Free energies of solutions during training."""

import numpy as np
from scipy.stats import gaussian_kde

from ._recorder import records_of, shown, title_of


class FreeEnergyDisplay:
    """Number of solutions and distribution of their free energies (Fig. 5 of Tramel et al. 2018).

    Parameters
    ----------
    epochs : list of int
    solutions : list of Solutions
        The solutions after each epoch.

    Attributes
    ----------
    figure_ : matplotlib Figure or SubFigure
    axes_ : ndarray of matplotlib Axes
        The plot over the epochs, and then the histograms.
    """

    def __init__(self, epochs, solutions):
        self.epochs = epochs
        self.solutions = solutions

    @classmethod
    def from_recorder(cls, recorder, **plot_params):
        """Show the records of a fit.

        Parameters
        ----------
        recorder : SolutionsRecorder
            A recorder after a fit.
        **plot_params
            Passed to :meth:`plot`.

        Returns
        -------
        FreeEnergyDisplay
        """
        return cls(*records_of(recorder)).plot(**plot_params)

    def plot(self, *, figure=None):
        """Draw free energies over the epochs, above histograms for epochs with several solutions.

        Parameters
        ----------
        figure : matplotlib Figure or SubFigure, default=None
            Where to draw; by default in a new figure.

        Returns
        -------
        self : FreeEnergyDisplay
        """
        import matplotlib.pyplot as plt

        records = list(zip(self.epochs, self.solutions, strict=True))
        chosen = shown([record for record in records if len(record[1]) > 1] or records)
        if figure is None:
            figure = plt.figure(figsize=(2.6 * max(len(chosen), 2), 5.2), layout="constrained")
        grid = figure.add_gridspec(2, len(chosen))
        axes = [figure.add_subplot(grid[0, :])]
        self._draw_course(axes[0])
        for column, (epoch, found) in enumerate(chosen):
            axes.append(figure.add_subplot(grid[1, column]))
            _draw_histogram(axes[-1], found.free_energies)
            axes[-1].set_title(title_of(epoch, found), fontsize="medium")
        axes[1].set_ylabel("density")
        self.figure_, self.axes_ = figure, np.array(axes, dtype=object)
        return self

    def _draw_course(self, ax):
        """Draw the solutions and their mean, with the number of solutions on a second axis."""
        energies = [found.free_energies for found in self.solutions]
        sizes = [len(found) for found in self.solutions]
        style = {"ms": 4, "mew": 0, "alpha": 0.3, "color": "C0"}
        ax.plot(np.repeat(self.epochs, sizes), np.concatenate(energies), "o", **style)
        ax.plot(self.epochs, [found.mean() for found in energies], color="C3", label="mean")
        ax.set(xlabel="epoch", ylabel="free energy (nats)")
        ax.yaxis.label.set_color("C0")
        counts = ax.twinx()
        counts.plot(self.epochs, sizes, color="C2")
        counts.set_ylabel("number of solutions", color="C2")
        counts.set_ylim(bottom=0)
        ax.legend(loc="upper center", frameon=False)


def _draw_histogram(ax, values):
    """Draw a histogram, and a kernel density estimate if values differ."""
    several = np.ptp(values) > 1e-6 * np.abs(values).max()
    ax.hist(values, bins="auto" if several else 1, density=several, color="C0", alpha=0.4)
    if several:
        margin = 0.2 * np.ptp(values)
        grid = np.linspace(values.min() - margin, values.max() + margin, 200)
        ax.plot(grid, gaussian_kde(values)(grid), color="C0")
    ax.set_xlabel("free energy (nats)")
    ax.locator_params(axis="x", nbins=3)
