"""Imputation of missing values as a step of a pipeline."""

import warnings
from inspect import signature
from typing import ClassVar

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.impute import MissingIndicator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from .._checks import listed
from .._sklearn import (
    HasMethods,
    _check_feature_names_in,
    _fit_context,
    _get_output_config,
    _safe_indexing,
)
from ..inputs import in_library, is_frame, with_values
from ._shared import Estimator, shares_parameters
from ._training import keeps_features
from ._wrapped import as_table, fit_density, observed_columns, rows_to_fit


@shares_parameters
class RBMImputer(TransformerMixin, Estimator):
    """Imputation of missing values by a restricted Boltzmann machine.

    An RBM is fitted to the incomplete rows, and each missing value is replaced by its mean given
    the observed values of the row, or by the most probable category. The imputer can replace
    :class:`~sklearn.impute.KNNImputer` or :class:`~sklearn.impute.IterativeImputer` in a pipeline,
    and also imputes tables with strings, booleans and categories.

    Read more in the :ref:`User Guide <imputation>`.

    Parameters
    ----------
    estimator : density estimator or None, default=None
        An estimator with the method ``impute(X, n_draws, random_state)``, such as :class:`RBM`,
        :class:`TAPRBM` or :class:`TabularRBM`. None means ``RBM(64)`` if all columns are binary
        numbers, ``RBM(64, visible="gaussian")`` for other arrays of numbers, and ``TabularRBM(64,
        covariance="full")`` for DataFrames, text, and arrays with some binary or constant columns.
    add_indicator : bool, default=False
        Whether to append columns that indicate which values were missing
        (:class:`~sklearn.impute.MissingIndicator`). Column names that are not strings are then
        replaced by ``x0, x1, ...``.
    random_state : int, RandomState instance or None, default=None
        Determines the fit, unless ``estimator`` has a ``random_state`` of its own, and the chains
        in each ``transform``.

    Attributes
    ----------
    estimator_ : density estimator
        The fitted estimator.
    indicator_ : MissingIndicator or None
        None if ``add_indicator`` is False.
    {n_features_in_, feature_names_in_}

    See Also
    --------
    TabularRBM : Density model of tables, with imputation, samples and scores.
    RBMOutlierDetector : Detection of improbable rows, with or without missing values.

    Notes
    -----
    Missing values are NaN, None or NA. Replace other placeholders first, as in ``X.replace(-1,
    np.nan)`` in pandas. Columns without any observed value in ``fit`` are dropped with a warning,
    as in :class:`~sklearn.impute.SimpleImputer`.

    Examples
    --------
    >>> import numpy as np
    >>> from skrbm import RBM, RBMImputer
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 1)) + 0.1 * rng.normal(size=(200, 3))
    >>> imputer = RBMImputer(RBM(4, visible="gaussian", n_iter=100), random_state=0).fit(X)
    >>> filled = imputer.transform([[1.0, np.nan, 1.0]])
    >>> bool(abs(filled[0, 1] - 1) < 0.2)
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        "estimator": [HasMethods(["fit", "impute"]), None],
        "add_indicator": ["boolean"],
    }

    def __init__(self, estimator=None, *, add_indicator=False, random_state=None):
        self.estimator = estimator
        self.add_indicator = add_indicator
        self.random_state = random_state

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = tags.input_tags.string = True
        tags.transformer_tags.preserves_dtype = []
        return tags

    @_fit_context(prefer_skip_nested_validation=False)
    @keeps_features
    def fit(self, X, y=None, sample_weight=None):
        """Fit the model to a table.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Missing values are NaN, None or NA.
        y : Ignored
        sample_weight : array-like of shape (n_samples,), default=None
            Number of rows that each row stands for.

        Returns
        -------
        self : object
        """
        options = () if self.estimator is None else signature(self.estimator.impute).parameters
        if self.estimator is not None and not {"n_draws", "random_state"} <= {*options}:
            raise ValueError(
                f"impute of estimator={self.estimator!r} must accept n_draws and random_state"
            )
        found = observed_columns(self, X, reset=True)
        weights, X, columns, missing = rows_to_fit(sample_weight, as_table(X), *found)
        kept = ~missing.all(axis=0)
        if not kept.any():
            raise ValueError("X has no observed value in any column")
        if not kept.all():
            names = list(_check_feature_names_in(self)[~kept])
            warnings.warn(
                f"columns {listed(names)} of X have no observed value; transform drops them",
                UserWarning,
                stacklevel=2,
            )
        seed = int(check_random_state(self.random_state).randint(2**31))
        columns = [column for column, has in zip(columns, kept, strict=True) if has]
        indicator = None
        if self.add_indicator:
            indicator = MissingIndicator(error_on_new=False).fit(_as_nan(missing))

        def publish(density):
            self.estimator_, self.indicator_ = density, indicator
            self._kept, self._seed = kept, seed

        X = _safe_indexing(X, np.flatnonzero(kept), axis=1)
        fit_density(self, X, columns, seed, publish, weights)
        return self

    def transform(self, X):
        """Impute missing values.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Missing values are NaN, None or NA.

        Returns
        -------
        X : array or DataFrame of shape (n_samples, n_features_out)
            A DataFrame if ``fit`` was given one. Missing indicators are in the last columns.
        """
        table = self._completed(X)[0]
        # scikit-learn would convert columns of the other library to the dtype object.
        return in_library(table, _get_output_config("transform", self)["dense"])

    def impute(self, X, n_draws=5):
        """Replace missing values by draws given the observed ones (multiple imputation).

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Missing values are NaN, None or NA.
        n_draws : int, default=5
            Number of completed tables.

        Returns
        -------
        tables : list of arrays or DataFrames of shape (n_samples, n_features_out)
            Each has the form of the result of :meth:`transform`.
        """
        return self._completed(X, n_draws=n_draws)

    def _completed(self, X, **options):
        """Return the tables that ``impute`` of the estimator gives, a list, with indicators."""
        check_is_fitted(self)
        _, missing = observed_columns(self, X, reset=False)
        kept = np.flatnonzero(self._kept)
        X = _safe_indexing(as_table(X), kept, axis=1)
        found = self.estimator_.impute(X, random_state=self._seed, **options)
        tables = found if options else [found]
        tables = [_with_observed(table, X, missing[:, kept]) for table in tables]
        if self.indicator_ is None:
            return tables
        indicators = self.indicator_.transform(_as_nan(missing))
        if not is_frame(tables[0]):
            return [np.hstack([table, indicators]) for table in tables]
        names = self.get_feature_names_out()
        columns = dict(zip(names[len(kept) :], indicators.T, strict=True))
        if not hasattr(tables[0], "iloc"):  # polars
            return [table.hstack(type(table)(columns)) for table in tables]
        # scikit-learn does not support names of which only some are strings.
        tables = [table.set_axis(names[: len(kept)], axis=1) for table in tables]
        return [table.assign(**columns) for table in tables]

    def get_feature_names_out(self, input_features=None):
        """Return the names of the columns of the result of ``transform``.

        Parameters
        ----------
        input_features : array-like of str or None, default=None
            Names of the columns of X; by default those seen in fit, or ``x0, x1, ...``.

        Returns
        -------
        names : ndarray of str
        """
        check_is_fitted(self, "indicator_")
        names = _check_feature_names_in(self, input_features)
        if self.indicator_ is None:
            return names[self._kept]
        return np.concatenate([names[self._kept], self.indicator_.get_feature_names_out(names)])


def _with_observed(found, X, missing):
    """Return imputed rows with observed values as they were, also those that units do not take."""
    if not is_frame(found):
        return np.where(missing, found, np.asarray(X))
    for j in range(found.shape[1]):
        column, known = _safe_indexing(found, j, axis=1), ~missing[:, j]
        given = _safe_indexing(X, j, axis=1)
        values, observed = (np.array(list(own), dtype=object) for own in (column, given))
        if (values[known] == observed[known]).all():
            continue
        values = np.where(known, observed, values).tolist()
        filled = with_values(given if type(given) is type(column) else column, values)
        if hasattr(found, "iloc"):
            found.isetitem(j, filled)
        else:  # polars
            found = found.with_columns(filled)
    return found


def _as_nan(missing):
    """Return numbers that are NaN where values are missing."""
    return np.where(missing, np.nan, 0.0)
