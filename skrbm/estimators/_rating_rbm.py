"""Restricted Boltzmann machine for ratings, most of which are missing."""

import warnings
from dataclasses import replace
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.linalg import norm
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from .._sklearn import InstanceOf, StrOptions
from ..arrays import is_foreign, make_rng, one_blas_thread, row_blocks
from ..inputs import Effects, SeenRows, rows_of_entries, rows_with_weight, seen_entries
from ..learning import SGD, Adam, MomentLearner, SeenPhase, Training
from ..machine import Machine, condition, conditional
from ..units import Bernoulli, Gaussian, Theta
from ._encoded import decoded, encoded
from ._layouts import OneLayer
from ._recipe import Recipe, check_layers
from ._shared import N_ITER_OR_AUTO, Estimator, optimizer_of, shares_parameters
from ._training import is_automatic, learns, resumed_optimizer, seeds_of_fit, trainer_of

# Penalty over the share of users who rate an item: weights of ratings that are spread evenly over
# the items stay at 0 from 0.4 on, and the best penalty is from 0.15 to 0.3.
_MOST_PENALTY = 0.2
_EPOCHS, _STEPS = 60, 600  # of a fit with n_iter="auto", at least


@shares_parameters
class RatingRBM(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Estimator):
    """Restricted Boltzmann machine for ratings of items by users.

    Rows are users and columns are items. A rating is the sum of the overall mean, effects of the
    item and of the user, and a deviation, which is modelled by an RBM with Gaussian visible and
    binary hidden units. As in [1]_, the RBM of a user has visible units only for the items that
    this user rated, and all users share the weights:
    p(v, h) ∝ exp(sum_i (b_i v_i - λ v_i² / 2 + v_i W_i' h) + c' h) with i over the rated items,
    W = ``components_``, b = ``intercept_visible_``, c = ``intercept_hidden_`` and
    λ = ``precision_visible_``. Missing
    ratings are thus left out rather than treated as latent variables. The cost is proportional to
    the number of ratings, but there are no samples and no likelihoods: :meth:`score` measures the
    error of predictions. :meth:`partial_fit` is supported, but ``warm_start``, checkpoints and
    callbacks are not.

    Read more in the :ref:`User Guide <recommendations>`.

    Parameters
    ----------
    {n_components = 100}
    optimizer : {"sgd", "adam"} or object, default="sgd"
        Gradient ascent or Adam. Pass an object to set the penalty, the schedule of the learning
        rate and more, such as ``SGD(alpha=0.03)`` (:class:`~skrbm.learning.SGD`). ``alpha="auto"``
        is at most a fifth of the share of other users who rated an item, averaged over the ratings.
    {learning_rate = "auto", batch_size = 100}
    n_iter : int or "auto", default="auto"
        Number of epochs. "auto" is 60, or as many as make 600 steps if that is more.
    {verbose}
    random_state : int, RandomState instance or None, default=None
        Determines the initial weights, the order of the rows and the chains.

    Attributes
    ----------
    {components_, intercept_hidden_, intercept_visible_}
    precision_visible_ : array of shape (n_features,)
        Precision of the deviations, the same for all items.
    effects_ : Effects
        ``mean`` of all ratings, effects of the ``columns``, ``scale`` in units of which the
        deviations are measured, and the range of the ratings, from ``least`` to ``most``.
    units_ : tuple of Unit
        The visible and the hidden units.
    {n_iter_}
    history_ : dict of list
        For each epoch ``epoch``, ``learning_rate``, ``time`` (s) and ``error``, the root mean
        squared error of the training ratings given draws of the hidden units, in units of
        ``effects_.scale``.
    {n_features_in_, feature_names_in_}

    See Also
    --------
    RBM : Items that were chosen or not, without ratings.
    TabularRBM : Tables of columns of several kinds.

    References
    ----------
    .. [1] Salakhutdinov, R., Mnih, A., & Hinton, G. (2007). Restricted Boltzmann Machines for
       Collaborative Filtering. ICML.

    Examples
    --------
    >>> import numpy as np
    >>> from skrbm import RatingRBM
    >>> X = np.array([[5, 4, np.nan], [4, np.nan, 1], [1, 2, 5], [np.nan, 1, 4]])
    >>> rbm = RatingRBM(n_components=2, random_state=0).fit(X)
    >>> rbm.impute(X).shape, rbm.transform(X).shape
    ((4, 3), (4, 2))
    """

    _layout = OneLayer()
    _optimizer_defaults: ClassVar[dict] = {"centered": False}
    _parameter_constraints: ClassVar[dict] = {
        "optimizer": [StrOptions({"sgd", "adam"}), InstanceOf(SGD), InstanceOf(Adam)],
        "n_iter": N_ITER_OR_AUTO,
    }

    def __init__(
        self,
        n_components=100,
        *,
        optimizer="sgd",
        learning_rate="auto",
        batch_size=100,
        n_iter="auto",
        verbose=0,
        random_state=None,
    ):
        self.n_components = n_components
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.n_iter = n_iter
        self.verbose = verbose
        self.random_state = random_state

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @learns
    def fit(self, X, y=None, sample_weight=None):
        """Fit the model to ratings.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Ratings, real numbers. Missing ratings are NaN in a dense X, and are not stored in a
            sparse X; all zeros in a dense X, and stored zeros in a sparse X, are ratings.
        y : Ignored
        sample_weight : array-like of shape (n_samples,), default=None
            Number of rows that each row stands for.

        Returns
        -------
        self : object

        Raises
        ------
        DivergenceError
            If the parameters diverge and ``learning_rate`` is a number.
        """
        return self._learn(X, sample_weight, self.n_iter, resumes=False)

    @learns
    def partial_fit(self, X, y=None, sample_weight=None):
        """Train for one epoch on some rows, such as those of new users.

        The effects of the items and the range of the ratings are not updated: they are those of the
        first call, or of :meth:`fit`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Ratings, as in :meth:`fit`.
        y : Ignored
        sample_weight : array-like of shape (n_samples,), default=None
            As in :meth:`fit`. Fractional weights are scaled to a mean of 1 in each call.

        Returns
        -------
        self : object
        """
        self._validate_params()  # which scikit-learn does in the first call alone
        return self._learn(X, sample_weight, 1, resumes=hasattr(self, "_training"))

    def _learn(self, X, sample_weight, n_iter, resumes):
        seen = self._seen(X, reset=not resumes)
        weights, seen = rows_with_weight(sample_weight, seen)
        if not seen.nnz:
            raise ValueError("X has no rating")
        if not resumes and seen.nnz > 1 and seen.data.min() == seen.data.max():
            warnings.warn(
                f"all ratings are {seen.data[0]:g}, and so are all predictions; to rank items by "
                "choices, use RBM",
                UserWarning,
                stacklevel=3,
            )
        if n_iter == "auto":
            n_iter = max(_EPOCHS, _STEPS // -(-seen.shape[0] // int(self.batch_size)))
        effects = self.effects_ if resumes else Effects.fitted(seen, weights)
        deviations = effects.deviations(seen)
        deviations = deviations.astype(self.machine_.dtype) if resumes else deviations
        rows = SeenRows(deviations, weights)
        n_rows = rows.total + (self._training.n_rows if resumes else 0)
        optimizer = optimizer_of(self)
        if optimizer.alpha == "auto":
            usual = optimizer.for_data(n_rows, seen.shape[1]).alpha
            optimizer = replace(optimizer, alpha=min(usual, _MOST_PENALTY * rows.mean_share))
        recipe = Recipe(SeenPhase(rows.mean_seen), optimizer)
        if resumes:
            machine, training = self.machine_.copy(), self._training.continued()
            check_layers(machine, machine.units, [int(self.n_components)], self.n_components)
            training.resume_from(machine)
            training.n_restored, training.length_factor = 0, 1.0
        else:
            rng, self.history_ = make_rng(seeds_of_fit(self.random_state)[1], seen.data), {}
            W = 0.01 * rng.normal((int(self.n_components), seen.shape[1]))
            visible = Theta(np.zeros_like(W[0]), np.ones_like(W[0]))
            thetas = visible, Theta(np.zeros_like(W[:, 0]))
            machine = Machine((Gaussian(), Bernoulli()), thetas, (W,))
            state = recipe.phase.init(machine, rng, 0, seen)
            training = Training(rng, machine, state, recipe=recipe)
        training.optimizer_state = resumed_optimizer(
            training, training.recipe.optimizer, optimizer, recipe.parameters.of(machine)
        )
        training.recipe = recipe
        learner = MomentLearner(
            rows,
            recipe.phase,
            recipe.optimizer,
            batch_size=int(self.batch_size),
            length=recipe.phase.step_length(machine) if is_automatic(self) else None,
        )

        def attributes(machine, state):
            return self._layout.attributes(machine) | {"effects_": effects}

        def publish(machine, state):
            vars(self).update(attributes(machine, state))
            training.n_rows = n_rows
            self._training, self.n_iter_ = training, training.n_epochs

        trainer_of(self, learner, optimizer, publish, attributes, n_iter=int(n_iter)).run(training)
        return self

    def _seen(self, X, reset=False):
        """Return the ratings of checked X as a CSR array."""
        if is_foreign(X):
            raise TypeError(f"RatingRBM takes NumPy and SciPy arrays, got {type(X).__name__}")
        found = encoded(self, X, reset, missing=True)
        if reset and not sp.issparse(found) and found.min() == 0 < found.max():  # False with NaN
            share = np.mean(found == 0)
            if share > 0.5:
                warnings.warn(
                    f"{share:.0%} of X is 0 and no value is missing: zeros are treated as ratings; "
                    "mark missing ratings by NaN, or pass a sparse matrix",
                    UserWarning,
                    stacklevel=2,
                )
        return seen_entries(found)

    def _new_encoder(self):
        return None  # the columns of X are those of the machine

    @property
    def machine_(self):
        """The fitted parameters as a machine of all items, which shares their memory."""
        check_is_fitted(self, "components_")
        return self._layout.machine(self)

    @property
    def _n_features_out(self):
        return self.components_.shape[0]

    @one_blas_thread
    def transform(self, X):
        """Compute the expected hidden units E[h | v] given the ratings v of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Ratings, as in :meth:`fit`.

        Returns
        -------
        H : array of shape (n_samples, n_components)
        """
        return self._hidden(self.machine_, self._seen(X))

    def _hidden(self, machine, seen):
        rows = self.effects_.deviations(seen).astype(machine.dtype)
        return machine.units[1].mean(condition(machine, rows))

    @one_blas_thread
    def impute(self, X):
        """Replace missing ratings by predictions given the other ratings of the row.

        A prediction is the expected rating given the expected hidden units, see :meth:`transform`.
        It is clipped to the range of the ratings in ``fit``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Ratings, as in :meth:`fit`. The result is dense: pass blocks of rows if it does not fit
            into memory.

        Returns
        -------
        X : array or DataFrame of shape (n_samples, n_features)
            Known ratings are unchanged. A DataFrame if ``fit`` was given one.
        """
        machine, seen = self.machine_, self._seen(X)
        theta = conditional(machine, 0, (None, self._hidden(machine, seen)))
        found = self.effects_.values(seen, machine.units[0].mean(theta))
        found[rows_of_entries(seen), seen.indices] = seen.data
        return decoded(self, [found], X)

    @one_blas_thread
    def score(self, X, y=None):
        """Return minus the error of predicting each rating from the other ratings of its row.

        :class:`~sklearn.model_selection.GridSearchCV`, whose folds are sets of users, maximizes
        this score.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Ratings, as in :meth:`fit`.
        y : Ignored

        Returns
        -------
        score : float
            Minus the root mean squared error; higher is better.
        """
        machine, seen = self.machine_, self._seen(X)
        if not seen.nnz:
            raise ValueError("X has no rating")
        errors = [self._errors_of_others(machine, block) for block in row_blocks(seen)]
        errors = np.concatenate(errors)
        return -float(norm(errors, check_finite=False) / len(errors) ** 0.5)  # squares may overflow

    def _errors_of_others(self, machine, seen):
        """Return ratings less their predictions from the others of their rows."""
        effects, rows, W = self.effects_, rows_of_entries(seen), machine.weights[0]
        apart = seen.data - effects.mean - effects.columns[seen.indices]
        own = effects.of_rows_without(seen)
        items = W[:, seen.indices].T
        # Deviations of the others of a row from its effect without the rating
        weighted = apart[:, None] * items
        ones = sp.csr_array((np.ones(seen.nnz), np.arange(seen.nnz), seen.indptr))
        others = (ones @ weighted)[rows] - weighted - own[:, None] * ((ones @ items)[rows] - items)
        hidden = machine.units[1].tilt(machine.thetas[1], others / effects.scale)
        means = machine.units[1].mean(hidden)
        theta = machine.thetas[0]
        deviations = theta.field[seen.indices] + (means * items).sum(axis=1)
        deviations /= theta.precision[seen.indices]
        expected = effects.mean + effects.columns[seen.indices] + own + effects.scale * deviations
        return seen.data - np.clip(expected, effects.least, effects.most)
