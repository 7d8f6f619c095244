"""Plots of a diagnosis."""

import numpy as np

_ORDERS = "first", "second", "third"
_N_LINES = 6  # plotted autocorrelations
_N_POINTS = 2000  # plotted moments of each order


class DiagnosisDisplay:
    """Plots of a diagnosis: autocorrelations, exchanges, moments, and errors by sweeps.

    Parameters
    ----------
    diagnosis : Diagnosis
        Result of :func:`skrbm.evaluation.diagnose`.

    Attributes
    ----------
    figure_ : matplotlib Figure or SubFigure
    axes_ : ndarray of matplotlib Axes
        The autocorrelations, the acceptance of exchanges along a ladder, a panel for each order of
        moments, and the errors by sweeps; those that the diagnosis does not contain are left out.
    """

    def __init__(self, diagnosis):
        self.diagnosis = diagnosis

    def plot(self, *, figure=None):
        """Draw the panels, with the failed checks above them.

        Parameters
        ----------
        figure : matplotlib Figure or SubFigure, default=None
            Where to draw; by default in a new figure.

        Returns
        -------
        self : DiagnosisDisplay
        """
        import matplotlib.pyplot as plt

        d = self.diagnosis
        panels = [self._draw_autocorrelation]
        if d.exchanges is not None:
            panels.append(self._draw_exchanges)
        for order, moments in zip(_ORDERS, d.moments, strict=False):
            panels.append(lambda ax, o=order, m=moments: _draw_moments(ax, o, m))
        if d.quality is not None:
            panels.append(self._draw_quality)
        n_columns = min(len(panels), 3)
        n_rows = -(-len(panels) // n_columns)
        if figure is None:
            size = (max(3.4 * n_columns, 5), 3 * n_rows + 0.6)
            figure = plt.figure(figsize=size, layout="constrained")
        axes = figure.subplots(n_rows, n_columns, squeeze=False).ravel()
        for unused in axes[len(panels) :]:
            unused.remove()
        for ax, draw in zip(axes, panels, strict=False):
            draw(ax)
            ax.title.set_fontsize("medium")
        failed = ", ".join(d.failed) or "none"
        figure.suptitle(f"failed checks: {failed}", fontsize="medium")
        self.figure_, self.axes_ = figure, axes[: len(panels)]
        return self

    def _draw_autocorrelation(self, ax):
        """Draw the observables with the largest times."""
        d = self.diagnosis
        times = np.nan_to_num(d.time, nan=0.0)
        for k in np.sort(np.argsort(-times, kind="stable")[:_N_LINES]):
            label = f"{d.observables[k]}: {d.time[k]:.4g}, R-hat {d.r_hat[k]:.2f}"
            ax.plot(d.autocorrelation[:, k], label=label)
        ax.axhline(0, color="0.7", lw=0.8, zorder=0)
        ax.set(xlabel="lag (sweeps)", ylabel="autocorrelation", title="autocorrelation times")
        ax.set_xlim(0, min(max(5 * times.max(), 10), d.n_steps - 1))
        ax.legend(fontsize="x-small", frameon=False)

    def _draw_exchanges(self, ax):
        found = self.diagnosis.exchanges
        rates = found.acceptance
        ax.plot(np.arange(rates.size) + 1.5, rates, "o-", ms=3, color="C0")
        ax.set(xlabel="between rungs", ylabel="acceptance", ylim=(0, 1), xlim=(1, rates.size + 1))
        ax.set_title(f"exchanges: {found.round_trips.mean():.3g} round trips of a chain")

    def _draw_quality(self, ax):
        q = self.diagnosis.quality
        ax.errorbar(q.sweeps, q.error, q.error_std, color="C0", marker="o", ms=3)
        ax.axhline(q.noise, color="0.5", ls="--", lw=1, label="rows of the data")
        ax.set_xscale("symlog", linthresh=1)
        ax.set(xlabel="sweeps from random starts", ylabel="error of moments", title="quality")
        ax.set_xlim(left=0)
        ax.set_ylim(bottom=0)
        ax.legend(fontsize="small", frameon=False)


def _draw_moments(ax, order, moments):
    ends = np.array([moments.data.min(), moments.data.max()])
    ax.plot(ends, ends, color="0.5", lw=1)
    some = slice(None, None, max(1, len(moments.data) // _N_POINTS))
    ax.plot(moments.data[some], moments.samples[some], "o", ms=3, mew=0, alpha=0.5, color="C0")
    ax.set(xlabel="data", ylabel="samples", title=f"{order} moments: r = {moments.correlation:.2f}")
    ax.locator_params(nbins=5)
