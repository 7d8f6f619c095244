"""Plots of a diagnosis."""

import numpy as np

from ..evaluation import diagnose

_ORDERS = ("first", "second", "third")
_N_POINTS = 2000  # plotted moments of each order


class DiagnosisDisplay:
    """Autocorrelations, exchanges, moments and errors by sweeps of a diagnosis.

    Parameters
    ----------
    diagnosis : Diagnosis
        As :func:`skrbm.evaluation.diagnose` returns it.

    Attributes
    ----------
    figure_ : matplotlib Figure or SubFigure
    axes_ : ndarray of matplotlib Axes
        The autocorrelations, the acceptance of exchanges along a ladder, a panel for each order
        of moments of data, and the errors by sweeps, as far as the diagnosis has them.
    """

    def __init__(self, diagnosis):
        self.diagnosis = diagnosis

    @classmethod
    def from_estimator(
        cls, estimator, X=None, *, n_chains=100, n_steps=1000, random_state=None, **plot_params
    ):
        """Diagnose an estimator and show the result.

        Parameters
        ----------
        estimator : fitted estimator of a density, Density or Machine
        X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
            Data to compare samples with.
        n_chains : int, default=100
        n_steps : int, default=1000
        random_state : int, RandomState or SeedSequence, default=None
        **plot_params
            Passed to :meth:`plot`.

        Returns
        -------
        DiagnosisDisplay
        """
        found = diagnose(
            estimator, X, n_chains=n_chains, n_steps=n_steps, random_state=random_state
        )
        return cls(found).plot(**plot_params)

    @classmethod
    def from_diagnosis(cls, diagnosis, **plot_params):
        """Show a diagnosis.

        Parameters
        ----------
        diagnosis : Diagnosis
        **plot_params
            Passed to :meth:`plot`.

        Returns
        -------
        DiagnosisDisplay
        """
        return cls(diagnosis).plot(**plot_params)

    def plot(self, *, figure=None):
        """Draw the panels, with the summary above them.

        Parameters
        ----------
        figure : matplotlib Figure or SubFigure, default=None
            Where to draw; default: a new figure.

        Returns
        -------
        self : DiagnosisDisplay
        """
        import matplotlib.pyplot as plt

        d = self.diagnosis
        n_first = 1 + (d.exchanges is not None)
        n = n_first + len(d.moments) + (d.quality is not None)
        n_columns = min(n, 3)
        n_rows = -(-n // n_columns)
        if figure is None:
            size = (max(3.4 * n_columns, 5), 3 * n_rows + 0.6)
            figure = plt.figure(figsize=size, layout="constrained")
        grid = figure.subplots(n_rows, n_columns, squeeze=False).ravel()
        for unused in grid[n:]:
            unused.remove()
        axes = grid[:n]
        _draw_autocorrelation(axes[0], d)
        if d.exchanges is not None:
            _draw_exchanges(axes[1], d.exchanges)
        for ax, order, moments in zip(axes[n_first:], _ORDERS, d.moments, strict=False):
            _draw_moments(ax, order, moments)
        if d.quality is not None:
            _draw_quality(axes[-1], d.quality)
        figure.suptitle(d.summary, fontsize="medium")
        self.figure_, self.axes_ = figure, axes
        return self


def _draw_autocorrelation(ax, d):
    """Draw the six observables with the largest times."""
    times = np.nan_to_num(d.time, nan=0.0)
    for k in np.sort(np.argsort(-times, kind="stable")[:6]):
        label = f"{d.observables[k]}: {d.time[k]:.4g}, R-hat {d.r_hat[k]:.2f}"
        ax.plot(d.autocorrelation[:, k], label=label)
    ax.axhline(0, color="0.7", lw=0.8, zorder=0)
    ax.set(xlabel="lag (sweeps)", ylabel="autocorrelation")
    ax.set_title("autocorrelation times", fontsize="medium")
    ax.set_xlim(0, min(max(5 * times.max(), 10), d.n_steps - 1))
    ax.legend(fontsize="x-small", frameon=False)


def _draw_exchanges(ax, found):
    rates = found.acceptance
    ax.plot(np.arange(rates.size) + 1.5, rates, "o-", ms=3, color="C0")
    ax.set(xlabel="between rungs", ylabel="acceptance", ylim=(0, 1), xlim=(1, rates.size + 1))
    trips = f"{found.round_trips.mean():.3g} round trips of a chain"
    ax.set_title(f"exchanges: {trips}", fontsize="medium")


def _draw_moments(ax, order, moments):
    ends = np.array([moments.data.min(), moments.data.max()])
    ax.plot(ends, ends, color="0.5", lw=1)
    some = slice(None, None, max(1, len(moments.data) // _N_POINTS))
    ax.plot(moments.data[some], moments.samples[some], "o", ms=3, mew=0, alpha=0.5, color="C0")
    title = f"{order} moments: r = {moments.correlation:.2f}, slope {moments.slope:.2f}"
    ax.set(xlabel="data", ylabel="samples")
    ax.locator_params(nbins=5)
    ax.set_title(title, fontsize="medium")


def _draw_quality(ax, quality):
    ax.errorbar(quality.sweeps, quality.error, quality.error_std, color="C0", marker="o", ms=3)
    ax.axhline(quality.noise, color="0.5", ls="--", lw=1, label="rows of the data")
    ax.set_xscale("symlog", linthresh=1)
    ax.set_xlim(left=0)
    ax.set(xlabel="sweeps from random starts", ylabel="error of moments")
    ax.set_title("quality", fontsize="medium")
    ax.set_ylim(bottom=0)
    ax.legend(fontsize="small", frameon=False)
