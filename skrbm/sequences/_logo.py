"""Sequence logos of frequencies, or of the weights of a hidden unit."""

import numpy as np

from .._checks import check_count
from ._alphabet import letters_of
from ._couplings import sequence_machine

# Amino acids by their chemistry, and bases; other letters are grey.
_GROUPS = {"#2a7f3f": "GSTYC", "#7b3f9d": "NQ", "#1f4fb4": "KRH", "#c22f2f": "DE", "k": "AVLIPWFM"}
_AMINO_ACIDS = {letter: colour for colour, group in _GROUPS.items() for letter in group}
_BASES = {"A": "#2a7f3f", "C": "#1f4fb4", "G": "#d98a1f", "T": "#c22f2f", "U": "#c22f2f"}
_WIDTH = 0.92  # of a letter, relative to its column
_SMALLEST = 0.01  # height of a letter that is drawn, relative to the highest stack


class LogoDisplay:
    """Sequence logo: letters stacked at each site, the largest outermost.

    Letters of negative height are below the line.

    Parameters
    ----------
    heights : array-like of shape (n_sites, n_letters)
    alphabet : str, default="protein"
        As in :func:`encode`.
    label : str, default="weight"
        Label of the axis of the heights.

    Attributes
    ----------
    figure_ : matplotlib Figure or SubFigure
    axes_ : ndarray of matplotlib Axes
        One for each row of sites.
    """

    def __init__(self, heights, alphabet="protein", label="weight"):
        self.heights = np.asarray(heights, dtype=np.float64)
        self.alphabet, self.label = letters_of(alphabet), label
        n_letters = len(self.alphabet)
        if self.heights.ndim != 2 or self.heights.shape[1] != n_letters:
            raise ValueError(
                f"heights must have the shape (n_sites, {n_letters}) of the alphabet "
                f"{self.alphabet!r}, got {self.heights.shape}"
            )
        if not np.isfinite(self.heights).all():
            raise ValueError("heights must be finite")

    @classmethod
    def from_estimator(cls, estimator, unit=0, *, alphabet="protein", **plot_params):
        """Show the weights of a hidden unit, in zero-sum gauge.

        Parameters
        ----------
        estimator : fitted estimator or Machine
            A model with visible units ``Categorical((n_letters,) * n_sites)`` and one hidden layer.
        unit : int, default=0
            Index of the hidden unit.
        alphabet : str, default="protein"
            Alphabet of the data, as in :func:`encode`.
        **plot_params
            Passed to :meth:`plot`.

        Returns
        -------
        LogoDisplay
        """
        machine, n_letters = sequence_machine(estimator)
        check_count("unit", unit, 0)
        if unit >= machine.n_units[1]:
            raise ValueError(f"unit must be below {machine.n_units[1]}, got {unit}")
        W = machine.weights[0][unit].reshape(-1, n_letters)
        W = W - W.mean(axis=1, keepdims=True)
        return cls(W, alphabet, f"weights of unit {unit}").plot(**plot_params)

    @classmethod
    def from_profile(cls, profile, *, alphabet="protein", **plot_params):
        """Show the frequencies of the letters, scaled by the information at each site.

        The information is log2(n_letters) minus the entropy, in bits (Schneider and Stephens 1990).

        Parameters
        ----------
        profile : array-like of shape (n_sites, n_letters)
            Frequencies, such as those returned by :func:`profile`.
        alphabet : str, default="protein"
            As in :func:`encode`.
        **plot_params
            Passed to :meth:`plot`.

        Returns
        -------
        LogoDisplay
        """
        profile = np.asarray(profile, dtype=np.float64)
        if profile.ndim != 2 or (profile < 0).any() or not np.allclose(profile.sum(axis=1), 1):
            raise ValueError("profile must have shape (n_sites, n_letters) and rows that sum to 1")
        logs = np.log2(np.where(profile > 0, profile, 1.0))
        information = np.log2(profile.shape[1]) + (profile * logs).sum(axis=1, keepdims=True)
        return cls(profile * information, alphabet, "bits").plot(**plot_params)

    def plot(self, *, per_row=40, figure=None):
        """Draw the logo.

        Parameters
        ----------
        per_row : int, default=40
            Number of sites in a row.
        figure : matplotlib Figure or SubFigure, default=None
            Where to draw; by default in a new figure.

        Returns
        -------
        self : LogoDisplay
        """
        import matplotlib.pyplot as plt

        check_count("per_row", per_row, 1)
        n_sites = len(self.heights)
        n_rows, n_columns = -(-n_sites // per_row), min(n_sites, per_row)
        if figure is None:
            size = (1 + 0.22 * n_columns, 1.6 * n_rows)
            figure = plt.figure(figsize=size, layout="constrained")
        axes = figure.subplots(n_rows, 1, squeeze=False)[:, 0]
        top = self.heights.clip(0).sum(axis=1).max()
        bottom = -self.heights.clip(max=0).sum(axis=1).min()
        margin = 0.05 * (top + bottom) or 1.0
        for row, ax in enumerate(axes):
            first, end = row * per_row, min((row + 1) * per_row, n_sites)
            for x, heights in enumerate(self.heights[first:end]):
                self._stack(ax, x, heights, _SMALLEST * max(top, bottom))
            ax.set(xlim=(-0.6, n_columns - 0.4), ylabel=self.label)
            ax.set_ylim(-bottom - margin * (bottom > 0), top + margin)
            marks = [x for x in range(end - first) if x == 0 or (first + x + 1) % 5 == 0]
            ax.set_xticks(marks, [first + x + 1 for x in marks])
            ax.axhline(0, color="0.4", lw=0.8)
            ax.spines[["top", "right"]].set_visible(False)
        self.figure_, self.axes_ = figure, axes
        return self

    def _stack(self, ax, x, heights, smallest):
        """Stack the letters of one site, away from the line."""
        from matplotlib.font_manager import FontProperties
        from matplotlib.patches import PathPatch
        from matplotlib.textpath import TextPath
        from matplotlib.transforms import Affine2D

        colours = _BASES if set(self.alphabet) <= set("ACGTU-") else _AMINO_ACIDS
        top = bottom = 0.0
        for code in np.argsort(np.abs(heights)):
            letter, height = self.alphabet[code], abs(heights[code])
            if height <= smallest:
                continue
            if heights[code] > 0:
                low, top = top, top + height
            else:
                low = bottom = bottom - height
            path = TextPath((0, 0), letter, size=1, prop=FontProperties(weight="bold"))
            box = path.get_extents()
            wide = box.width if letter == "-" else max(box.width, 0.5)  # I stays narrow
            move = Affine2D().translate(-box.x0 - box.width / 2, -box.y0 - box.height / 2)
            move = move.scale(_WIDTH / wide, height / box.height).translate(x, low + height / 2)
            path, colour = move.transform_path(path), colours.get(letter, "0.6")
            ax.add_patch(PathPatch(path, lw=0, fc=colour))
