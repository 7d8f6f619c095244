"""Which columns make rows improbable."""

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from .._checks import check_count
from .._sklearn import _num_samples

_MOST_ROWS = 20  # each has axes of its own


class FeatureScoresDisplay:
    """Bar charts of the log-probabilities of values given the other values of their row.

    Parameters
    ----------
    scores : ndarray of shape (n_rows, n_features)
        Result of ``RBMOutlierDetector.score_features``.
    feature_names : sequence of str of length n_features
    values : ndarray of shape (n_rows, n_features), default=None
        Values of the rows, which are shown next to the names.

    Attributes
    ----------
    figure_ : matplotlib Figure
    axes_ : ndarray of matplotlib Axes
        One for each row.
    """

    def __init__(self, scores, feature_names, values=None):
        self.scores = scores
        self.feature_names = feature_names
        self.values = values

    @classmethod
    def from_estimator(cls, detector, X, **plot_params):
        """Show the scores of the features of some rows.

        Parameters
        ----------
        detector : fitted RBMOutlierDetector
        X : {array-like, DataFrame, sparse matrix} of shape (n_rows, n_features)
            The rows to explain, at most 20; each gets a bar chart.
        **plot_params
            Passed to :meth:`plot`.

        Returns
        -------
        FeatureScoresDisplay

        Raises
        ------
        ValueError
            If X has more than 20 rows.
        """
        check_is_fitted(detector)
        n_rows = _num_samples(X)
        if n_rows > _MOST_ROWS:
            raise ValueError(
                f"X has {n_rows} rows, but at most {_MOST_ROWS} are shown; choose those with the "
                "lowest score_samples"
            )
        scores = detector.score_features(X)
        names = getattr(detector, "feature_names_in_", None)
        if names is None:
            names = [f"x{j}" for j in range(scores.shape[1])]
        X = X.toarray() if sp.issparse(X) else X
        return cls(scores, list(names), np.asarray(X, dtype=object)).plot(**plot_params)

    def plot(self, *, n_features=10, figure=None):
        """Draw the features with the lowest scores.

        Parameters
        ----------
        n_features : int, default=10
            Maximum number of features for each row.
        figure : matplotlib Figure or SubFigure, default=None
            Where to draw; by default in a new figure.

        Returns
        -------
        self : FeatureScoresDisplay
        """
        import matplotlib.pyplot as plt

        check_count("n_features", n_features, 1)
        n_rows, n_features = len(self.scores), min(n_features, self.scores.shape[1])
        if figure is None:
            size = (4.5 * n_rows, 1 + 0.3 * n_features)
            figure = plt.figure(figsize=size, layout="constrained")
        axes = figure.subplots(1, n_rows, squeeze=False, sharex=True)[0]
        for i, axis in enumerate(axes):
            lowest = np.argsort(self.scores[i])[:n_features]  # NaN comes last
            lowest = lowest[np.isfinite(self.scores[i][lowest])]
            labels = [str(self.feature_names[j]) for j in lowest]
            if self.values is not None:
                values = [self.values[i][j] for j in lowest]
                labels = [
                    f"{label} = {value:.4g}" if isinstance(value, float) else f"{label} = {value}"
                    for label, value in zip(labels, values, strict=True)
                ]
            axis.barh(range(len(lowest)), self.scores[i][lowest])
            axis.set_yticks(range(len(lowest)), labels)
            axis.invert_yaxis()
            axis.set_xlabel("log p(value | others) (nats)")
        self.figure_, self.axes_ = figure, axes
        return self
