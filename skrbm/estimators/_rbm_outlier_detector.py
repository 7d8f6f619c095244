"""Detection of outliers by the likelihood of rows."""

import warnings
from numbers import Real
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import OutlierMixin
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.validation import check_is_fitted, validate_data

from .._checks import check_observed
from .._sklearn import (
    HasMethods,
    Interval,
    _check_feature_names_in,
    _fit_context,
    _weighted_percentile,
)
from ..exceptions import DataRangeWarning
from ._shared import Estimator, shares_parameters
from ._tabular_rbm import TabularRBM
from ._training import keeps_features
from ._wrapped import as_table, fit_density, has_bits, observed_columns, rows_to_fit, without_column


@shares_parameters
class RBMOutlierDetector(OutlierMixin, Estimator):
    """Outlier detection by the likelihood of a restricted Boltzmann machine.

    An RBM is fitted to all rows, and the rows with the lowest likelihood are outliers;
    :meth:`score_features` shows which columns make them improbable. The detector can replace
    :class:`~sklearn.ensemble.IsolationForest` or :class:`~sklearn.neighbors.LocalOutlierFactor`,
    and also accepts missing values and tables with strings, booleans and categories.

    Read more in the :ref:`User Guide <outliers>`.

    Parameters
    ----------
    estimator : density estimator or None, default=None
        An estimator with the method ``score_samples``, such as :class:`RBM` or :class:`TabularRBM`.
        None means ``TabularRBM(8, covariance="full")``, or ``RBM(8)`` for a sparse X of zeros and
        ones; a sparse X with other values becomes dense. So few hidden units do not learn
        scattered outliers, but they may learn a dense cluster of them.
    contamination : float in (0, 0.5], default=0.1
        Fraction of the training rows that are outliers.
    random_state : int, RandomState instance or None, default=None
        Determines the fit, unless ``estimator`` has a ``random_state`` of its own.

    Attributes
    ----------
    estimator_ : density estimator
        The fitted estimator.
    offset_ : float
        Log-likelihood in nats below which rows are outliers: the quantile ``contamination`` of the
        scores of the training rows.
    {n_features_in_, feature_names_in_}

    See Also
    --------
    RBMImputer : Imputation with the same models.
    skrbm.inspection.FeatureScoresDisplay : Plot of the columns that make rows improbable.

    Examples
    --------
    >>> import numpy as np
    >>> from skrbm import RBM, RBMOutlierDetector
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 1)) + 0.1 * rng.normal(size=(200, 3))
    >>> rbm = RBM(4, visible="gaussian", n_iter=100)
    >>> detector = RBMOutlierDetector(rbm, contamination=0.01, random_state=0).fit(X)
    >>> detector.predict([[1.0, 1.0, 1.0], [1.0, -1.0, 1.0]])
    array([ 1, -1])
    """

    _parameter_constraints: ClassVar[dict] = {
        "estimator": [HasMethods(["fit", "score_samples"]), None],
        "contamination": [Interval(Real, 0, 0.5, closed="right")],
    }

    def __init__(self, estimator=None, *, contamination=0.1, random_state=None):
        self.estimator = estimator
        self.contamination = contamination
        self.random_state = random_state

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = tags.input_tags.string = True
        tags.input_tags.sparse = self.estimator is None
        if hasattr(self.estimator, "__sklearn_tags__"):  # not what fit refuses
            tags.input_tags.sparse = get_tags(self.estimator).input_tags.sparse
        return tags

    def _validate_params(self):
        if isinstance(self.contamination, str) and self.contamination == "auto":
            raise ValueError(
                "contamination='auto' is not supported, since no threshold of the likelihood suits "
                "all data; pass the fraction of outliers, such as 0.1"
            )
        super()._validate_params()

    @_fit_context(prefer_skip_nested_validation=False)
    @keeps_features
    def fit(self, X, y=None, sample_weight=None):
        """Fit the model to a table, and set the threshold of the scores.

        Parameters
        ----------
        X : {array-like, DataFrame, sparse matrix} of shape (n_samples, n_features)
            Missing values are NaN, None or NA. A sparse X requires an ``estimator`` that accepts
            it, or None.
        y : Ignored
        sample_weight : array-like of shape (n_samples,), default=None
            Number of rows that each row stands for, in the fit and in ``contamination``.

        Returns
        -------
        self : object
        """
        found = self._checked(X, reset=True)
        weights, X, columns, missing = rows_to_fit(sample_weight, *found)
        if missing is not None:
            check_observed(list(_check_feature_names_in(self)[missing.all(axis=0)]))
        seed = int(check_random_state(self.random_state).randint(2**31))
        # With few units, it learns what most rows have in common, but not the outliers among them.
        options = {"n_components": 8, "is_table": True}

        def publish(density):
            offset = _quantile(density.score_samples(X), self.contamination, weights)
            self.estimator_, self.offset_ = density, offset

        fit_density(self, X, columns, seed, publish, weights, **options)
        return self

    def _checked(self, X, reset):
        """Return X, its columns, and which of its values are missing, None if X is sparse."""
        if sp.issparse(X) and get_tags(self).input_tags.sparse:
            options = {"dtype": None, "ensure_all_finite": "allow-nan"}
            X = validate_data(self, X, reset=reset, accept_sparse="csr", **options)
            has_own = has_bits(X) if reset else get_tags(self.estimator_).input_tags.sparse
            if self.estimator is not None or has_own:
                return X, None, None
            X = X.toarray()
        return as_table(X), *observed_columns(self, X, reset=reset)

    def score_samples(self, X):
        """Compute the log-likelihood of each row, with missing values summed out.

        Parameters
        ----------
        X : {array-like, DataFrame, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        scores : ndarray of shape (n_samples,)
            Log-likelihoods in nats; the lower, the more abnormal.
        """
        check_is_fitted(self)
        X, *_ = self._checked(X, reset=False)
        return self.estimator_.score_samples(X)

    def decision_function(self, X):
        """Compute the scores minus ``offset_``, which are negative for outliers.

        Parameters
        ----------
        X : {array-like, DataFrame, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        scores : ndarray of shape (n_samples,)
            In nats.
        """
        return self.score_samples(X) - self.offset_

    def predict(self, X):
        """Label outliers and inliers.

        Parameters
        ----------
        X : {array-like, DataFrame, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            -1 for outliers, 1 for inliers.
        """
        return np.where(self.decision_function(X) < 0, -1, 1)

    def score_features(self, X):
        """Compute the log-probability of each value given the other values of its row.

        The lowest ones show which columns make a row improbable. With a :class:`TabularRBM`, the
        default, real columns, skewed ones after their transform, are measured in units of their
        spread, so that scores can be compared between columns. If the exact values are intractable,
        they are estimated to about 0.1 nats, which takes 10 ms per value.

        Parameters
        ----------
        X : {array-like, DataFrame, sparse matrix} of shape (n_samples, n_features)
            The rows to explain.

        Returns
        -------
        scores : ndarray of shape (n_samples, n_features)
            log p(x_i | other columns) in nats; NaN where x_i is missing.
        """
        X = X.toarray() if sp.issparse(X) else X
        scores = self.score_samples(X)
        X, columns, missing = self._checked(X, reset=False)
        found = np.full((len(scores), len(columns)), np.nan)
        for j in range(len(columns)):
            with warnings.catch_warnings():  # of unseen values, which the scores have caused
                warnings.simplefilter("ignore", DataRangeWarning)
                others = self.estimator_.score_samples(without_column(X, j))
            found[:, j] = np.where(missing[:, j], np.nan, scores - others)
        if isinstance(self.estimator_, TabularRBM):
            found += self.estimator_._encoder.log_spreads(columns)
        return found


def _quantile(values, share, weights=None):
    """Return a quantile, less what rounding may take from a value that is equal to it."""
    weights = np.ones(len(values)) if weights is None else weights
    lower = _weighted_percentile(values, weights, 100 * share)
    upper = -_weighted_percentile(-values, weights, 100 - 100 * share)
    found = float(lower + upper) / 2
    return found - 1e-9 * (1 + abs(found))
