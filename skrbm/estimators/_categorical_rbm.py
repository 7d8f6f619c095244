"""Restricted Boltzmann machine for categorical columns, such as aligned sequences."""

from typing import ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._sklearn import StrOptions
from ..arrays import is_foreign, namespace, one_blas_thread
from ..inputs import CategoryEncoder
from ..learning import ZERO_SUM
from ._base import BaseRBM
from ._layouts import Sites, by_site, of_all_values
from ._posterior import imputed
from ._shared import N_ITER_OR_AUTO, shares_parameters, unit_of


@shares_parameters
class CategoricalRBM(BaseRBM):
    """Restricted Boltzmann machine for categorical columns.

    X is a table of categories: integer codes, strings, objects or columns of a DataFrame. With v_i
    the value of site i, p(v, h) ∝ exp(sum_i (b_i(v_i) + sum_j h_j W_ji(v_i)) + c' h) relative to
    units without couplings, with W = ``components_``, b = ``intercept_visible_`` and
    c = ``intercept_hidden_``. Parameters are in the zero-sum gauge: b_i and W_ji sum to zero over
    the values of a site, unless the penalty makes exact zeros, which are kept.

    Samples, imputed and denoised rows have the values and the type of X, including DataFrames. A
    missing value, NaN or None, is a latent variable.

    Read more in the :ref:`User Guide <categorical_rbm>`.

    Parameters
    ----------
    {n_components = 256}
    categories : "auto" or list of array-like, default="auto"
        The values of each site. "auto" uses the sorted values of the data, or of the first call of
        ``partial_fit``; for a pandas Categorical or a polars Enum it uses those declared by the
        dtype. If -1 marks missing values, pass the other codes, such as ``[range(21)] * n_sites``.
    {handle_unknown, hidden}
    inference : {"gibbs", "pcd", "cd", "tempering", "naive_mean_field"} or object, default="gibbs"
        How the moments of the model are estimated, as in :class:`RBM`, except for methods that need
        the variances of single columns, such as TAP.
    {optimizer, learning_rate = "auto", batch_size = 100}
    n_iter : int or "auto", default="auto"
        Number of epochs. "auto" is 40, or as many as make 1000 steps if that is more, divided by
        the fraction of observed values (by at least 0.2).
    {early_stopping, warm_start, verbose, random_state}

    Attributes
    ----------
    components_ : array of shape (n_components, n_sites, n_categories)
        Weights, float32. Sites with fewer values than others are padded with zeros.
    {intercept_hidden_}
    intercept_visible_ : array of shape (n_sites, n_categories)
        Biases of the values, padded with zeros.
    {precision_hidden_}
    categories_ : list of ndarray
        The values of each site.
    {units_}
    visible_means_ : array of shape (n_values,)
        Frequencies of the values of all sites in the training data; absent after
        ``from_parameters``.
    starts_ : array of shape (n_states, n_values)
        As in :class:`RBM`: 1 in the column of the value of each site, and 0 elsewhere.
    {ladder_, n_iter_, history_, n_features_in_, feature_names_in_}

    See Also
    --------
    RBM : The same model for one-hot encoded columns, and models with other kinds of units.

    Examples
    --------
    >>> import numpy as np
    >>> from skrbm import CategoricalRBM
    >>> X = np.array([["A", "C", "A"], ["A", "C", "G"], ["G", "-", "G"], ["G", "-", "A"]])
    >>> rbm = CategoricalRBM(2, random_state=0).fit(X)
    >>> rbm.components_.shape, rbm.sample(5, random_state=0).dtype
    ((2, 3, 2), dtype('<U1'))
    """

    init, _layout, _fewest_batches = "random", Sites(), 3
    _parameter_constraints: ClassVar[dict] = {
        "n_iter": N_ITER_OR_AUTO,
        "categories": [StrOptions({"auto"}), list, tuple],
    }

    def __init__(
        self,
        n_components=256,
        *,
        categories="auto",
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
        self.categories = categories
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
        tags.transformer_tags.preserves_dtype = []
        return tags

    def _new_encoder(self):
        return CategoryEncoder(self.categories, self.handle_unknown)

    def _units(self):
        return self._encoder.unit, unit_of(self, "hidden")

    def _recipe(self, rows=None):
        return super()._recipe(rows, start="balanced", parameters=ZERO_SUM)

    @property
    def categories_(self):
        """The values of each site, a list of arrays."""
        check_is_fitted(self, "components_")
        return self._encoder.categories_

    def _given(self, components, hidden, visible):
        shape, kept = np.shape(components), self.categories
        if hasattr(components, "fit"):
            kept = getattr(components, "categories_", None)
            if kept is None:
                name = type(components).__name__
                raise ValueError(f"{name} must be a fitted CategoricalRBM or arrays")
            own = self._new_encoder()
            if not own.finds_values and [*map(list, own.categories_)] != [*map(list, kept)]:
                raise ValueError(
                    "init was fitted with other categories; set categories=init.categories_"
                )
        elif len(shape) != 3:
            raise ValueError(
                f"components must have shape (n_components, n_sites, n_categories), got {shape}"
            )
        elif isinstance(kept, str):
            kept = [np.arange(shape[2])] * shape[1]
        self._encoder = CategoryEncoder(kept, self.handle_unknown)
        sizes = self._encoder.sizes
        self.n_features_in_ = len(sizes)
        if hasattr(components, "fit"):
            return components, hidden, visible
        if visible is not None:
            visible = _all_values("intercept_visible", visible, sizes, 2)
        return _all_values("components", components, sizes, 3), hidden, visible

    @one_blas_thread
    def site_probabilities(self, X, *, n_steps=None, method="auto", random_state=None):
        """Return the probabilities of the values of each site given the observed sites of a row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_sites)
            With NaN or None for missing values.
        n_steps : int, default=None
            As in :meth:`impute`, which returns the most probable values.
        method : {"auto", "gibbs", "tempering"} or Tempering, default="auto"
            As in :meth:`impute`.
        random_state : int, RandomState instance or None, default=None
            Determines the chains.

        Returns
        -------
        P : array of shape (n_samples, n_sites, n_categories)
            For observed sites, 1 for the observed value. Sites with fewer values than others are
            padded with zeros.
        """
        blocks = imputed(self, X, method, n_steps, random_state)
        parts = [by_site(rows, self._encoder.sizes) for rows in blocks]
        return namespace(parts[0]).concat(parts, axis=0)


def _all_values(name, values, sizes, ndim):
    """Return given parameters by site as those of all values of all sites."""
    array = values if is_foreign(values) else np.asarray(values)
    wanted = len(sizes), max(sizes)
    if array.ndim != ndim or tuple(array.shape[-2:]) != wanted:
        raise ValueError(
            f"the last dimensions of {name} must be the numbers of sites and of categories, "
            f"{wanted}, got shape {tuple(array.shape)}"
        )
    return of_all_values(array, sizes)
