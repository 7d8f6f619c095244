"""Free energies of solutions during training."""

import numpy as np
from scipy.stats import gaussian_kde

from .._checks import check_count
from ._base import final_record, records_of, spread


class FreeEnergyDisplay:
    """Number of solutions and distribution of their free energies (Fig. 5 of Tramel et al. 2018).

    Parameters
    ----------
    records : list of dict
        ``records_`` of a :class:`SolutionsRecorder`.

    Attributes
    ----------
    figure_ : matplotlib Figure or SubFigure
    axes_ : ndarray of matplotlib Axes
        The course over the epochs, if there are several, and then the histograms.
    """

    def __init__(self, records):
        self.records = records

    @classmethod
    def from_recorder(cls, recorder, **plot_params):
        """Show the records of a fit.

        Parameters
        ----------
        recorder : SolutionsRecorder
            After a fit.
        **plot_params
            Passed to :meth:`plot`.

        Returns
        -------
        FreeEnergyDisplay
        """
        return cls(records_of(recorder)).plot(**plot_params)

    @classmethod
    def from_estimator(cls, estimator, X=None, *, unique_tol=1e-2, **plot_params):
        """Show the free energies of the solutions of a fitted estimator.

        Parameters
        ----------
        estimator : fitted estimator with ``solutions``
        X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
            Initial values of the equations; default: ``starts_``.
        unique_tol : float, default=1e-2
            As in :meth:`skrbm.TAPRBM.solutions`.
        **plot_params
            Passed to :meth:`plot`.

        Returns
        -------
        FreeEnergyDisplay
        """
        return cls([final_record(estimator, X, unique_tol)]).plot(**plot_params)

    def plot(self, *, n_slices=4, bins="auto", per_unit=False, figure=None):
        """Draw the course over the epochs, above histograms of some of them.

        Parameters
        ----------
        n_slices : int, default=4
            Maximum number of histograms, of evenly spaced epochs with several solutions.
        bins : int, sequence or str, default="auto"
            Bins of each histogram, as in ``numpy.histogram``.
        per_unit : bool, default=False
            Divide free energies by the number of units.
        figure : matplotlib Figure or SubFigure, default=None
            Where to draw; default: a new figure.

        Returns
        -------
        self : FreeEnergyDisplay
        """
        import matplotlib.pyplot as plt

        check_count("n_slices", n_slices, 1)
        key = "free_energies_per_unit" if per_unit else "free_energies"
        label = "free energy per unit (nats)" if per_unit else "free energy (nats)"
        several = [record for record in self.records if record["n_solutions"] > 1]
        chosen, n_courses = spread(several or self.records, n_slices), int(len(self.records) > 1)
        if figure is None:
            size = (2.6 * max(len(chosen), 2), 2.4 + 2.8 * n_courses)
            figure = plt.figure(figsize=size, layout="constrained")
        grid, axes = figure.add_gridspec(1 + n_courses, len(chosen)), []
        if n_courses:
            axes.append(figure.add_subplot(grid[0, :]))
            _draw_course(axes[0], self.records, key, label)
        for column, record in enumerate(chosen):
            axes.append(figure.add_subplot(grid[n_courses, column]))
            _draw_histogram(axes[-1], record, key, label, bins)
        axes[n_courses].set_ylabel("density")
        self.figure_, self.axes_ = figure, np.array(axes, dtype=object)
        return self


def _draw_course(ax, records, key, label):
    """Draw the solutions and their mean, with the number of solutions on a second axis."""
    epochs = np.array([record["epoch"] for record in records])
    sizes = [len(record[key]) for record in records]
    energies = np.concatenate([record[key] for record in records])
    ax.plot(np.repeat(epochs, sizes), energies, "o", ms=4, mew=0, alpha=0.3, color="C0")
    ax.plot(epochs, [np.mean(record[key]) for record in records], color="C3", label="mean")
    ax.set(xlabel="epoch", ylabel=label)
    ax.yaxis.label.set_color("C0")
    counts = ax.twinx()
    counts.plot(epochs, sizes, color="C2", label="number of solutions")
    counts.set_ylabel("number of solutions", color="C2")
    counts.set_ylim(bottom=0)
    ax.legend(loc="upper center", frameon=False)


def _draw_histogram(ax, record, key, label, bins):
    """Draw a histogram, and a kernel density estimate if values differ."""
    values = record[key]
    several = np.ptp(values) > 1e-6 * np.abs(values).max()
    ax.hist(values, bins=bins if several else 1, density=several, color="C0", alpha=0.4)
    if several:
        margin = 0.2 * np.ptp(values)
        grid = np.linspace(values.min() - margin, values.max() + margin, 200)
        ax.plot(grid, gaussian_kde(values)(grid), color="C0")
    noun = "solution" if len(values) == 1 else "solutions"
    ax.set(xlabel=label, title=f"epoch {record['epoch']}: {len(values)} {noun}")
    ax.title.set_fontsize("medium")
    ax.locator_params(axis="x", nbins=3)
