"""The machine of tables, whose columns are of different kinds."""

from math import inf
from typing import ClassVar

from sklearn.utils.validation import check_is_fitted

from .._sklearn import StrOptions
from ..inputs import TableEncoder
from ._choices import check_bounds, unit_of
from ._parts import parts_of_init
from ._rbm import RBM

_NOT_TAKEN = ("visible", "binarize", "sample_values")


class TabularRBM(RBM):
    """Restricted Boltzmann machine of a table, whose columns are of different kinds.

    X is a DataFrame of pandas or polars, or an array. Each column has the units of its kind
    (:class:`~skrbm.units.ColumnUnits`): bits, categories, ratings, counts, real values. All columns
    depend on each other through the hidden units. A missing value, NaN, None or NA, is a latent
    variable.

    Samples and imputed values are tables like X, with its column names and dtypes. So
    :meth:`sample` makes synthetic tables, and :meth:`impute` completes a table.

    Read more in the :ref:`User Guide <tabular_rbm>`.

    Parameters
    ----------
    n_components : int, default=64
        Number of hidden units.
    kinds : "auto" or dict, default="auto"
        Kinds of columns by name or, where no name is a number, by number; the others, or all, are
        found from the dtypes.
        "binary" are booleans, or two values that are not floats; "categorical" are strings,
        objects and pandas or polars categories; "rating" are whole numbers of a range of at most
        20, binomial from the smallest to the largest; "real" are all other numbers, with a learnt
        variance, integers rounded. Only if asked for: "count", whole numbers from 0 on without a
        bound (Poisson); "positive", real from 0 on; "bounded", real from the smallest to the
        largest value.
    covariance : {"diag", "full"}, default="diag"
        Whether "real" columns are independent given the hidden units, or share a precision matrix
        (:class:`~skrbm.units.Gaussian`).
    handle_unknown : {"warn", "ignore", "error"}, default="warn"
        What categories are that were not in the first X: missing, with a warning or without, or an
        error.
    hidden : {"bernoulli", "spin", "gaussian", "relu", "double_relu", "truncated_gaussian", \
            "truncated_gauss_bernoulli"} or Unit, default="bernoulli"
        Kind of the hidden units, as of :class:`RBM`.
    inference : {"gibbs", "tempering", "naive_mean_field", "mean_field", "tap"} or object, \
            default="gibbs"
        How the machine's moments are found, as of :class:`RBM`. Methods apply that take all
        kinds of the columns.
    starts : {"persistent", "data", "noise", "annealed", "tempered", "weighted", "random", \
            "chains"} or None, default=None
        Where chains, or solutions, start for each batch, as of :class:`RBM`. None is
        "weighted" in tables with real columns. In others it is "persistent", and "weighted" after a
        restart if such chains do not mix.
    n_states : int or None, default=None
        Number of chains or of solutions for each batch; None is ``batch_size``, or the number of
        rows given to ``fit`` if there are fewer, and 400 for weighted chains.
    n_steps : int or None, default=None
        Steps of the chains for each batch; None is that of the sampler.
    burn_in : int or None, default=None
        Steps of each run of the chains that do not count; None counts the last step alone.
    optimizer : {"sgd", "natural", "adam"} or object, default="sgd"
        Gradient ascent with ``momentum``, or Adam; or an object.
    max_grad_norm : float or None, default=None
        Norm of the gradient above which it is scaled down.
    learning_rate : float or "auto", default="auto"
        Step of the gradient ascent on the mean log-likelihood. "auto" finds it in training.
    batch_size : int, default=100
        Largest number of rows of a mini-batch; batches have nearly the same size. With an
        automatic rate and chains that sample, a pass has three batches at least.
    n_iter : int or "auto", default="auto"
        Passes over the data. "auto": 100, or more with few rows: with an automatic rate and chains
        that sample, as many as make 1000 steps.
    verbose : int, default=0
        Whether to print a line for each pass.
    random_state : int, RandomState instance or None, default=None
        Determines initial weights, the order of rows, chains and starts.
    momentum : float in [0, 1), default=0.0
        Part of the last step that is added to the next. Adam ignores it.
    alpha : float or "auto", default="auto"
        Strength of the penalty on the weights; "auto" is max(1, number of columns / 50) over the
        number of rows, where each value of a category counts as a column, or more with few rows
        (see :class:`RBM`).
    penalty : {"l2", "l1", "l1b", "group_lasso"}, default="l2"
        alpha / 2 ||W||², alpha ||W||₁ or another one of :ref:`sparse_weights`; all but "l2" make
        exact zeros.
    centered : bool, default=True
        Whether the gradient is that of the couplings between deviations of the units from their
        means. Learning is then faster, and depends less on the learning rate.
    average : bool, default=True
        Whether the fitted parameters are means over the steps, in which late ones weigh more.
    schedule : {"constant", "linear", "polynomial", "cosine", "exponential"} or callable, \
            default="polynomial"
        Factor on the learning rate, by the fraction of ``n_iter`` that has passed.
    init : "random", fitted TabularRBM or (components, intercept_hidden, intercept_visible), \
            default="random"
        Where training starts: a machine of a table with the same columns and values, or arrays of
        the shapes of the fitted ones. "random" draws weights from N(0, 0.01²) and fits the visible
        units to the columns.
    shuffle : bool, default=True
        Whether to shuffle the rows in each pass.
    early_stopping : bool, default=False
        Whether to hold out validation rows and stop after ``n_iter_no_change`` epochs in a row
        whose log-likelihood of these rows does not exceed the best by ``tol``. The parameters of
        the best epoch are kept. Epochs in which it is not measured do not count.
    validation_fraction : float in (0, 1), default=0.1
        Part of the rows to set aside.
    n_iter_no_change : int, default=5
        Patience of early stopping, in passes.
    tol : float, default=1e-2
        Tolerance of early stopping, in nats per sample.
    warm_start : bool, default=False
        Whether ``fit`` goes on from the last solution, with its kinds of columns.

    Attributes
    ----------
    components_ : array of shape (n_components, n_encoded)
        Weights to the columns of the units: one for each column of X, but for a categorical one,
        which has one for each of its values.
    intercept_hidden_ : array of shape (n_components,)
        Biases of the hidden units.
    intercept_visible_ : array of shape (n_encoded,)
        Biases of the columns of the units.
    precision_visible_ : array of shape (n_encoded,) or (n_encoded, n_encoded)
        Only if there are real columns, as of :class:`RBM`; 0 for other columns. With
        ``covariance="full"`` it is a matrix.
    precision_hidden_, spike_hidden_ : array of shape (n_components,)
        Only of hidden units that have them, as of :class:`RBM`; ``absolute_hidden_`` and
        ``skew_hidden_`` too.
    kinds_ : dict
        The kind of each column of X by its name, or by its number.
    units_ : tuple of Unit
        Kinds of the visible and the hidden units.
    visible_means_ : array of shape (n_encoded,)
        Means of the columns of the units in the training data; absent after ``from_parameters``.
    starts_ : array of shape (n_states, n_encoded)
        Visible values of the chains of the last batch, or where its solutions were looked for.
    ladder_ : Ladder
        Only of a fit by tempered chains, as of :class:`RBM`.
    n_iter_ : int
        Passes over the data so far.
    history_ : dict of list
        Numbers of each pass, as of :class:`RBM`.
    n_features_in_ : int
        Number of columns of X seen in fit.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of features seen in fit, if all are strings.

    See Also
    --------
    RBM : The same of columns of numbers, with units that are given.
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
        **{name: c for name, c in RBM._parameter_constraints.items() if name not in _NOT_TAKEN},
        "kinds": [StrOptions({"auto"}), dict],
        "covariance": [StrOptions({"diag", "full"})],
        "handle_unknown": [StrOptions({"warn", "ignore", "error"})],
    }
    binarize, sample_values, _fewest_passes = None, False, 100

    @property
    def _default_start(self):
        """Weighted chains beside real columns, for which mixing is not checked."""
        return "persistent" if self._units()[0].reach < inf else "weighted"

    def __init__(
        self,
        n_components=64,
        *,
        kinds="auto",
        covariance="diag",
        handle_unknown="warn",
        hidden="bernoulli",
        inference="gibbs",
        starts=None,
        n_states=None,
        n_steps=None,
        burn_in=None,
        optimizer="sgd",
        max_grad_norm=None,
        learning_rate="auto",
        batch_size=100,
        n_iter="auto",
        verbose=0,
        random_state=None,
        momentum=0.0,
        alpha="auto",
        penalty="l2",
        centered=True,
        average=True,
        schedule="polynomial",
        init="random",
        shuffle=True,
        early_stopping=False,
        validation_fraction=0.1,
        n_iter_no_change=5,
        tol=1e-2,
        warm_start=False,
    ):
        self.n_components = n_components
        self.kinds = kinds
        self.covariance = covariance
        self.handle_unknown = handle_unknown
        self.hidden = hidden
        self.inference = inference
        self.starts = starts
        self.n_states = n_states
        self.n_steps = n_steps
        self.burn_in = burn_in
        self.optimizer = optimizer
        self.max_grad_norm = max_grad_norm
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.n_iter = n_iter
        self.verbose = verbose
        self.random_state = random_state
        self.momentum = momentum
        self.alpha = alpha
        self.penalty = penalty
        self.centered = centered
        self.average = average
        self.schedule = schedule
        self.init = init
        self.shuffle = shuffle
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.warm_start = warm_start

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse, tags.input_tags.categorical = False, True
        tags.input_tags.string = True
        tags.transformer_tags.preserves_dtype = []
        return tags

    def _new_encoder(self):
        return TableEncoder(self.kinds, self.handle_unknown, self.covariance)

    def _units(self):
        return check_bounds(self._encoder.unit, unit_of(self, "hidden"))

    def _first_machine(self, rows, rng, parts):
        components = self.init if isinstance(self.init, str) else parts_of_init(self.init)[0]
        if getattr(components, "_encoder", None) is not None:
            self._encoder.check_same(components._encoder)
        return super()._first_machine(rows, rng, parts)

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
        self._encoder = encoder
        return components, hidden, visible

    def _adopted(self, machine, parts):
        super()._adopted(machine, parts)
        self.n_features_in_ = len(self._encoder.table)
        return self

    def impute(self, X, *, n_steps=None, method="auto", random_state=None):
        """Fill missing values given the observed ones: numbers by means, others by the likeliest.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)
            NaN, None or NA marks what is missing.
        n_steps : int or None, default=None
            As in :meth:`RBM.impute`.
        method : str or object, default="auto"
            As in :meth:`RBM.impute`.
        random_state : int, RandomState instance or None, default=None
            As in :meth:`RBM.impute`.

        Returns
        -------
        X : DataFrame or array of shape (n_samples, n_features)
            Of the kind, names and dtypes of the X of ``fit``; whole numbers are rounded.
        """
        return super().impute(X, n_steps=n_steps, method=method, random_state=random_state)
