"""The machine of tables, whose columns are of different kinds."""

from math import inf
from typing import ClassVar

from sklearn.utils.validation import check_is_fitted

from .._sklearn import StrOptions
from ..inputs import TableEncoder
from ._base import BaseRBM
from ._shared import N_ITER_OR_AUTO, check_bounds, shares_parameters, unit_of


@shares_parameters
class TabularRBM(BaseRBM):
    """Restricted Boltzmann machine for tables with columns of several kinds.

    X is a DataFrame of pandas or polars, or an array. Each column has units of its own kind
    (:class:`~skrbm.units.ColumnUnits`): bits, categories, ratings, counts or real values. Missing
    values (NaN, None or NA) are latent variables. :meth:`sample` and :meth:`impute` return tables
    with the column names and dtypes of X.

    Read more in the :ref:`User Guide <tabular_rbm>`.

    Parameters
    ----------
    {n_components = 64}
    kinds : "auto" or dict, default="auto"
        Kinds of columns by name or, if no name is a number, by position; others follow from the
        dtypes. "binary" are booleans, or two values that are not floats; "categorical" are strings,
        objects and pandas or polars categories.

        Whole numbers, also floats with missing values, of a range of at most 20 are "discrete",
        with a weight for each value, if at most a third of the rows is missing, and there are at
        least 50 rows for each value; or at least 20, if the shares of the values predict held-out
        rows better than a beta-binomial distribution; else "rating", binomial from the smallest to
        the largest.

        All other numbers are "spiked" if one value, which then has a probability of its own, is in
        a tenth of the rows and in twice as many as any other; "skewed" if a power (Yeo and Johnson
        2000), which is then learned, brings them nearer to a normal distribution by 0.1 nats a row;
        or "real". Integers are rounded.

        Only if asked for: "count", whole numbers from 0 on without a bound (Poisson); "positive",
        real from 0 on; "bounded", real from the smallest to the largest value; and with methods
        that do not take them, such as "tap", "discrete" and "spiked".
    covariance : {"diag", "full"}, default="diag"
        Whether "real" and "skewed" columns are independent given the hidden units, or share a
        precision matrix (:class:`~skrbm.units.Gaussian`).
    {handle_unknown, hidden}
    inference : {"gibbs", "pcd", "cd", "tempering", "naive_mean_field", "tap"} or object, \
            default="gibbs"
        How the moments of the model are estimated, as in :class:`RBM`, but chains are weighted by
        default in tables with real columns. The method must support all kinds of the columns.
    {optimizer, learning_rate = "auto", batch_size = 100}
    n_iter : int or "auto", default="auto"
        Number of epochs. "auto" is 100, or as many as make 1000 steps if these are more, and in
        large tables as many as make 4000 steps, but not less than 40. Unless real columns share a
        precision matrix, it is divided by the fraction of observed values, or by 0.2 if smaller.
    {early_stopping, warm_start, verbose, random_state}

    Attributes
    ----------
    components_ : array of shape (n_components, n_encoded)
        Weights to the columns of the units: one for each column of X, but for a categorical or
        discrete one, which has one for each value, and a spiked one, which has one for whether its
        value is not the spike, and one for this value.
    {intercept_hidden_}
    intercept_visible_ : array of shape (n_encoded,)
        Biases of the columns of the units.
    precision_visible_ : array of shape (n_encoded,) or (n_encoded, n_encoded)
        Only with real columns: their precisions, standardized, and 0 for columns of other kinds. A
        matrix with ``covariance="full"``.
    {precision_hidden_}
    kinds_ : dict
        The kind of each column of X by its name, or by its number.
    {units_}
    visible_means_ : array of shape (n_encoded,)
        Means of the columns of the units in the training data; absent after ``from_parameters``.
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
        # Chains are weighted beside real columns, for which mixing is not checked.
        start = "persistent" if self._units()[0].reach < inf else "weighted"
        return super()._recipe(rows, start=start, may_switch=True)

    @property
    def kinds_(self):
        """The kind of each column of X, a dict."""
        check_is_fitted(self, "components_")
        return {column.name: column.kind for column in self._encoder.table}

    def _given(self, components, hidden, visible):
        encoder = getattr(components, "_encoder", None)
        if not isinstance(encoder, TableEncoder):
            raise TypeError(
                "from_parameters takes a fitted TabularRBM, which knows the columns of its table; "
                "RBM(visible=ColumnUnits(...)) takes arrays"
            )
        self._encoder, self.n_features_in_ = encoder, len(encoder.table)
        return components, hidden, visible
