"""The machine of sites with several values each, such as sequences or tables of categories."""

from typing import ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._sklearn import StrOptions
from ..arrays import from_numpy, is_foreign, like, namespace, one_blas_thread
from ..inputs import THETA_ATTRIBUTES, CategoryEncoder
from ..learning import ZERO_SUM
from ..machine import Machine, zero_sum
from ..units import Categorical, Theta
from ._choices import unit_of
from ._noise_models import Substitution
from ._parts import machine_of_init, parts_of_init
from ._posterior import denoised, imputed
from ._rbm import RBM

_NOT_TAKEN = ("visible", "binarize", "sample_values")


class CategoricalRBM(RBM):
    """Restricted Boltzmann machine of sites that each have one of several values.

    X is a table of categories: integer codes, strings, objects or columns of a DataFrame. With
    v_i the value of site i,
    p(v, h) ∝ exp(sum_i (b_i(v_i) + sum_j h_j W_ji(v_i)) + c' h) with respect to the units without
    couplings, with W = ``components_``, b = ``intercept_visible_`` and c = ``intercept_hidden_``.
    Many such parameters have the same distribution; these have the zero-sum gauge: b_i and W_ji sum
    to zero over the values of a site. Penalties that make exact zeros keep them instead.

    Samples, imputed and denoised values are those of X, in its dtype. A missing value, NaN or None,
    is a latent variable.

    Read more in the :ref:`User Guide <categorical_rbm>`.

    Parameters
    ----------
    n_components : int, default=256
        Number of hidden units.
    categories : "auto" or list of array-like, default="auto"
        The values of each site. "auto" are those of the data, sorted; of a pandas Categorical or a
        polars Enum, those that its dtype declares. ``partial_fit`` takes them from its first rows.
        Where a code -1 marks what is missing, give the others, such as ``[range(21)] * n_sites``:
        "auto" takes -1 as a value.
    handle_unknown : {"warn", "ignore", "error"}, default="warn"
        What other values are: missing, with a warning or without, or an error.
    hidden : {"bernoulli", "spin", "gaussian", "relu", "double_relu", "truncated_gaussian", \
            "truncated_gauss_bernoulli"} or Unit, default="bernoulli"
        Kind of the hidden units, as of :class:`RBM`.
    inference : {"gibbs", "tempering", "naive_mean_field", "mean_field"} or object, default="gibbs"
        How the machine's moments are found, as of :class:`RBM`. The values of a site exclude each
        other, so that methods which need variances of single columns are not for them.
    starts : {"persistent", "data", "noise", "annealed", "tempered", "weighted", "random", \
            "chains"} or None, default=None
        Where chains, or solutions, start for each batch, as of :class:`RBM`. None is
        "persistent", and weighted after a restart if such chains do not mix.
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
        Passes over the data. "auto": 40, or more with few rows: with an automatic rate and chains
        that sample, as many as make 1000 steps.
    verbose : int, default=0
        Whether to print a line for each pass.
    random_state : int, RandomState instance or None, default=None
        Determines initial weights, the order of rows, chains and starts.
    momentum : float in [0, 1), default=0.0
        Part of the last step that is added to the next. Adam ignores it.
    alpha : float or "auto", default="auto"
        Strength of the penalty on the weights; "auto" is max(1, number of values of all sites / 50)
        over the number of rows, or more with few rows (see :class:`RBM`).
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
    init : "random", fitted CategoricalRBM or (components, intercept_hidden, intercept_visible), \
            default="random"
        Where training starts; arrays have the shapes of the fitted ones. "random" draws weights
        from N(0, 0.01²) and sets visible biases to the logarithms of the frequencies.
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
        Whether ``fit`` goes on from the last solution, with its categories.

    Attributes
    ----------
    components_ : array of shape (n_components, n_sites, n_categories)
        Weights, float32. They are 0 after the last value of a site that has fewer values than
        others.
    intercept_hidden_ : array of shape (n_components,)
        Biases of the hidden units.
    intercept_visible_ : array of shape (n_sites, n_categories)
        Biases of the values; 0 after the last value of a site.
    precision_hidden_, spike_hidden_ : array of shape (n_components,)
        Only of hidden units that have them, as of :class:`RBM`; ``absolute_hidden_`` and
        ``skew_hidden_`` too.
    categories_ : list of ndarray
        The values of each site.
    units_ : tuple of Unit
        Kinds of the visible and the hidden units.
    visible_means_ : array of shape (n_values,)
        Frequencies of all values of the first site, of the second and so on, in the training data;
        absent after ``from_parameters``.
    starts_ : array of shape (n_states, n_values)
        Visible values of the chains of the last batch, or where its solutions were looked for: 1 in
        the column of the value of each site, and 0 elsewhere.
    ladder_ : Ladder
        Only of a fit by tempered chains, as of :class:`RBM`.
    n_iter_ : int
        Passes over the data so far.
    history_ : dict of list
        For each pass, as of :class:`RBM`.
    n_features_in_ : int
        Number of sites.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of features seen in fit, if all are strings.

    See Also
    --------
    RBM : The same machine of columns that are encoded already, and of other kinds of units.

    Examples
    --------
    >>> import numpy as np
    >>> from skrbm import CategoricalRBM
    >>> X = np.array([["A", "C", "A"], ["A", "C", "G"], ["G", "-", "G"], ["G", "-", "A"]])
    >>> rbm = CategoricalRBM(2, random_state=0).fit(X)
    >>> rbm.components_.shape, rbm.sample(5, random_state=0).dtype
    ((2, 3, 2), dtype('<U1'))
    """

    _parameter_constraints: ClassVar[dict] = {
        **{name: c for name, c in RBM._parameter_constraints.items() if name not in _NOT_TAKEN},
        "categories": [StrOptions({"auto"}), list, tuple],
        "handle_unknown": [StrOptions({"warn", "ignore", "error"})],
    }
    binarize, sample_values = None, False

    def __init__(
        self,
        n_components=256,
        *,
        categories="auto",
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
        self.categories = categories
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
        tags.transformer_tags.preserves_dtype = []
        return tags

    def _new_encoder(self):
        return CategoryEncoder(self.categories, self.handle_unknown)

    def _units(self):
        return Categorical(self._encoder.sizes), unit_of(self, "hidden")

    def _parameters(self, rows):
        return ZERO_SUM

    @property
    def categories_(self):
        """The values of each site, a list of arrays."""
        check_is_fitted(self, "components_")
        return self._encoder.categories_

    # ------------------------------------------------- parameters by site, and of all values

    def _first_machine(self, rows, rng, parts):
        if isinstance(self.init, str):
            return super()._first_machine(rows, rng, parts)
        components, *biases = parts_of_init(self.init)
        if getattr(components, "_encoder", None) is not None:
            self._encoder.check_same(components._encoder)
        elif not hasattr(components, "fit"):
            components, hidden, visible = self._of_values(components, *biases)
            biases = hidden, visible
        machine = self._random_machine(rows, rng)
        first = machine_of_init((components, *biases), machine, self.n_components)
        return zero_sum(first)

    def _of_values(self, components, hidden, visible):
        """Return arrays of parameters by site as those of all values of all sites."""
        sizes = self._encoder.sizes
        if visible is not None:
            visible = _checked("intercept_visible", visible, sizes, 2)
        return _checked("components", components, sizes, 3), hidden, visible

    def _attributes(self, machine, state, parts):
        found, sizes = super()._attributes(machine, state, parts), self._encoder.sizes
        for name in ("components_", "intercept_visible_"):
            found[name] = _by_site(found[name], sizes)
        return found

    @property
    def machine_(self):
        """The fitted parameters as a machine, whose visible units are all values of all sites."""
        check_is_fitted(self, "components_")
        parts, sizes = [getattr(self, name, None) for name in THETA_ATTRIBUTES], self._encoder.sizes
        parts[0] = _of_all_values(parts[0], sizes)
        n, W = len(parts) // 2, _of_all_values(self.components_, sizes)
        return Machine(self.units_, (Theta(*parts[:n]), Theta(*parts[n:])), (W,))

    def _given(self, components, hidden, visible):
        if hasattr(components, "fit"):
            kept = getattr(components, "categories_", None)
            if kept is None:
                name = type(components).__name__
                raise ValueError(f"{name} is no fitted machine of categories; give one, or arrays")
            if not isinstance(self.categories, str):
                CategoryEncoder.of(self.categories).check_same(components._encoder)
            self._encoder = CategoryEncoder.of(kept, self.handle_unknown)
            return components, hidden, visible
        shape, kept = np.shape(components), self.categories
        if len(shape) != 3:
            raise ValueError(
                f"components has shape {shape}, and must have (n_components, n_sites, n_categories)"
            )
        if isinstance(kept, str):
            kept = [np.arange(shape[2])] * shape[1]
        self._encoder = CategoryEncoder.of(kept, self.handle_unknown)
        return self._of_values(components, hidden, visible)

    def _adopted(self, machine, parts):
        super()._adopted(zero_sum(machine), parts)
        self.n_features_in_ = len(self.categories_)
        return self

    @classmethod
    def from_parameters(cls, components, intercept_hidden=None, intercept_visible=None, **params):
        """Build a fitted machine from arrays.

        Parameters
        ----------
        components : array-like of shape (n_components, n_sites, n_categories), or fitted \
                CategoricalRBM
            Weights, of any gauge; or a machine of which all arrays and the categories are taken.
        intercept_hidden : array-like of shape (n_components,), default=None
            Biases of the hidden units; default: zeros.
        intercept_visible : array-like of shape (n_sites, n_categories), default=None
            Biases of the values; default: zeros.
        **params
            Parameters of the estimator other than ``n_components``; ``categories="auto"`` are the
            numbers 0, 1, and so on. Also ``precision_hidden`` and the like, as of :class:`RBM`.

        Returns
        -------
        estimator : object
            Fitted, with parameters in the zero-sum gauge.
        """
        return super().from_parameters(components, intercept_hidden, intercept_visible, **params)

    # ------------------------------------------------------------------- values of X

    @one_blas_thread
    def site_probabilities(self, X, *, n_steps=None, method="auto", random_state=None):
        """Return the probabilities of the values of each site given the observed sites of a row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_sites)
            With NaN or None for missing values.
        n_steps : int, default=None
            As of :meth:`impute`, which gives the most probable values.
        method : {"auto", "gibbs", "tempering"} or Tempering, default="auto"
            As of :meth:`impute`.
        random_state : int, RandomState instance or None, default=None
            Of the chains.

        Returns
        -------
        P : array of shape (n_samples, n_sites, n_categories)
            Of observed sites 1 for the value; 0 after the last value of a site.
        """
        own = self._own_fixed_point()
        blocks = imputed(self, X, method, own, n_steps, random_state)
        parts = [_by_site(rows, self._encoder.sizes) for rows in blocks]
        return namespace(parts[0]).concat(parts, axis=0)

    @one_blas_thread
    def denoise(self, Y, *, substitution_probability, n_starts=1, n_steps=None, random_state=None):
        """Find the most probable value of each site that was observed with noise.

        The machine is the prior. Each site was replaced by another of its values with a probability
        that is known, whichever value with the same chance. So the number of wrong sites is
        expected to be as small as it can be.

        Read more in the :ref:`User Guide <categorical_rbm>`.

        Parameters
        ----------
        Y : array-like of shape (n_samples, n_sites)
            Noisy values, none of them missing.
        substitution_probability : float in [0, 1)
            Probability with which each site was replaced. With 0 the result is Y.
        n_starts : int, default=1
            Number of solutions of a fixed point for each row, as of :meth:`RBM.denoise`.
        n_steps : int, default=None
            Sweeps of the chain of each row, which starts at Y and of which the later half is
            averaged, default 200; of a fixed point as of :meth:`RBM.denoise`.
        random_state : int, RandomState instance or None, default=None

        Returns
        -------
        X : array of shape (n_samples, n_sites)
        """
        return denoised(
            self,
            Y,
            Substitution(substitution_probability, self._encoder.sizes),
            method=self._own_fixed_point(),
            n_starts=n_starts,
            n_steps=n_steps,
            return_std=False,
            random_state=random_state,
        )


def _checked(name, values, sizes, ndim):
    """Return given parameters by site as those of all values of all sites."""
    array = values if is_foreign(values) else np.asarray(values)
    by_site = len(sizes), max(sizes)
    if array.ndim != ndim or tuple(array.shape[-2:]) != by_site:
        raise ValueError(
            f"{name} has shape {tuple(array.shape)}, and its last dimensions must be the numbers "
            f"of sites and of categories, {by_site}"
        )
    return _of_all_values(array, sizes)


def _by_site(x, sizes):
    """Return columns of all values of all sites as (..., n_sites, n_categories), with zeros."""
    xp, width = namespace(x), max(sizes)
    if len(set(sizes)) > 1:
        columns = np.full(len(sizes) * width, sum(sizes))
        columns[_places(sizes)] = np.arange(sum(sizes))
        zero = xp.zeros((*x.shape[:-1], 1), **like(x))
        x = xp.take(xp.concat([x, zero], axis=-1), from_numpy(columns, x), axis=-1)
    return xp.reshape(x, (*x.shape[:-1], len(sizes), width))


def _of_all_values(x, sizes):
    """Undo :func:`_by_site`."""
    xp = namespace(x)
    x = xp.reshape(x, (*x.shape[:-2], x.shape[-2] * x.shape[-1]))
    if len(set(sizes)) > 1:
        x = xp.take(x, from_numpy(_places(sizes), x), axis=-1)
    return x


def _places(sizes):
    """Return where the values of all sites are among those of sites of equal size."""
    first = max(sizes) * np.arange(len(sizes))
    return np.concatenate([start + np.arange(q) for start, q in zip(first, sizes, strict=True)])
