"""Restricted Boltzmann machine for tables with columns of several kinds."""

from typing import ClassVar

from sklearn.utils.validation import check_is_fitted

from .._sklearn import StrOptions
from ..inputs import TableEncoder
from ._base import BaseRBM
from ._shared import N_ITER_OR_AUTO, check_bounds, shares_parameters, unit_of


@shares_parameters
class TabularRBM(BaseRBM):
    """Restricted Boltzmann machine for tables with columns of several kinds.

    X is a pandas or polars DataFrame, or an array. Each column has units of its own kind
    (:class:`~skrbm.units.ColumnUnits`): bits, categories, ratings, counts or real values. Missing
    values (NaN, None or NA) are latent variables. :meth:`sample` and :meth:`impute` return tables
    with the column names and dtypes of X.

    Read more in the :ref:`User Guide <tabular_rbm>`.

    Parameters
    ----------
    {n_components = 64}
    kinds : "auto" or dict, default="auto"
        Kinds of columns by name or, if no name is a number, by position. The kinds of all other
        columns are inferred from their dtypes and values. "binary" columns are booleans, zeros
        and ones, or two values that are not floats; "categorical" columns are strings, objects and
        pandas or polars categories.

        Whole numbers with a range of at most 20 (including floats if values are missing) are
        "discrete", with a weight for each value, if at most a third of the rows is missing and
        there are at least 50 rows per value; 20 are enough if the frequencies of the values predict
        held-out rows better than a beta-binomial distribution. Otherwise they are a "rating",
        binomial from the smallest to the largest value.

        All other numbers are "spiked" if one value, which then gets a probability of its own, is
        found in a tenth of the rows, and twice as often as any other; "skewed" if a power transform
        (Yeo and Johnson 2000), which is then learned, makes them more nearly normal by 0.1 nats per
        row; and otherwise "real". Integers are rounded.

        These are used only if requested: "count", whole numbers from 0 on without a bound
        (Poisson); "positive", real numbers from 0 on; "bounded", real numbers from the smallest to
        the largest value; and "discrete" and "spiked" with methods such as "tap", for which they
        are not chosen by default.
    covariance : {"diag", "full"}, default="diag"
        "diag": given the hidden units, "real" and "skewed" columns are independent of each other.
        "full": they share one learned precision matrix, which describes their linear correlations
        (:class:`~skrbm.units.Gaussian`).
    {handle_unknown, hidden}
    inference : {"gibbs", "pcd", "cd", "tempering", "naive_mean_field", "tap"} or object, \
            default="gibbs"
        How the moments of the model are estimated, as in :class:`RBM`, except that chains are
        always balanced by default. The method must support the kinds of all columns.
    {optimizer, learning_rate = "auto", batch_size = 100}
    n_iter : int or "auto", default="auto"
        Number of epochs. "auto" is 100; in small tables it is increased to make at least 1000
        steps, and in large ones it is reduced to make 4000 steps, but not below 40 epochs. It is
        then divided by the fraction of observed values (by at least 0.2); if real columns share a
        precision matrix, see :class:`RBM`.
    {early_stopping, warm_start, verbose, random_state}

    Attributes
    ----------
    components_ : array of shape (n_components, n_encoded)
        Weights of the encoded columns. Each column of X has one, except that a categorical or
        discrete column has one for each value, and a spiked column has two: whether the value
        differs from the spike, and this value.
    {intercept_hidden_}
    intercept_visible_ : array of shape (n_encoded,)
        Biases of the encoded columns.
    precision_visible_ : array of shape (n_encoded,) or (n_encoded, n_encoded)
        Only with real columns: the precisions of the standardized columns, and 0 for columns of
        other kinds. A matrix with ``covariance="full"``.
    {precision_hidden_}
    kinds_ : dict
        The kind of each column of X by its name, or by its position.
    {units_}
    visible_means_ : array of shape (n_encoded,)
        Means of the encoded columns in the training data; absent after ``from_parameters``.
    starts_ : array of shape (n_states, n_encoded)
        As in :class:`RBM`.
    {ladder_, n_iter_, history_}
    n_features_in_ : int
        Number of columns of X seen in fit.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of features seen in fit, if all are strings.

    See Also
    --------
    RBM : Columns of one kind, with chosen units.
    CategoricalRBM : Columns that are all categories.

    Examples
    --------
    >>> import numpy as np
    >>> from skrbm import TabularRBM
    >>> X = np.array([["red", 1.5], ["red", 1.3], ["blue", 0.2], ["green", None]], dtype=object)
    >>> rbm = TabularRBM(2, random_state=0).fit(X)
    >>> rbm.kinds_
    {0: 'categorical', 1: 'real'}
    >>> rbm.impute(X)[3, 0], rbm.sample(5, random_state=0).shape
    ('green', (5, 2))
    """

    _parameter_constraints: ClassVar[dict] = {
        "n_iter": N_ITER_OR_AUTO,
        "kinds": [StrOptions({"auto"}), dict],
        "covariance": [StrOptions({"diag", "full"})],
    }
    init, _fewest_batches, _usual_epochs = "random", 3, 100

    def __init__(
        self,
        n_components=64,
        *,
        kinds="auto",
        covariance="diag",
        handle_unknown="warn",
        hidden="bernoulli",
        inference="gibbs",
        optimizer="sgd",
        learning_rate="auto",
        batch_size=100,
        n_iter="auto",
        early_stopping=False,
        warm_start=False,
        verbose=0,
        random_state=None,
    ):
        self.n_components = n_components
        self.kinds = kinds
        self.covariance = covariance
        self.handle_unknown = handle_unknown
        self.hidden = hidden
        self.inference = inference
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.n_iter = n_iter
        self.early_stopping = early_stopping
        self.warm_start = warm_start
        self.verbose = verbose
        self.random_state = random_state

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse, tags.input_tags.categorical = False, True
        tags.input_tags.string = True
        tags.transformer_tags.preserves_dtype = []
        return tags

    def _new_encoder(self):
        with_precision = "takes_precision" in self._method().needs.units
        return TableEncoder(self.kinds, self.handle_unknown, self.covariance, with_precision)

    def _units(self):
        return check_bounds(self._encoder.unit, unit_of(self, "hidden"))

    def _recipe(self, rows=None):
        return super()._recipe(rows, start="balanced")

    @property
    def kinds_(self):
        """The kind of each column of X, a dict."""
        check_is_fitted(self, "components_")
        return {column.name: column.kind for column in self._encoder.table}

    def _given(self, components, hidden, visible):
        encoder = getattr(components, "_encoder", None)
        if not isinstance(encoder, TableEncoder):
            raise TypeError(
                "TabularRBM.from_parameters takes a fitted TabularRBM, which contains the encoding "
                "of its columns; to use arrays, see RBM(visible=ColumnUnits(...))"
            )
        self._encoder, self.n_features_in_ = encoder, len(encoder.table)
        return components, hidden, visible
