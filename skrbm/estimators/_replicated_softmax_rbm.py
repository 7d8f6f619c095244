"""Machine of counts of words: the replicated softmax."""

from typing import ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from .._checks import check_count
from .._sklearn import StrOptions
from ..arrays import (
    dense,
    make_rng,
    namespace,
    one_blas_thread,
    to_numpy,
)
from ..inference import Gibbs, draw_visible, last_visible, method_names, resolve
from ..inputs import check_rows, machine_from
from ..learning import ChainPhase, CountParameters
from ..machine import conditional
from ..units import Bernoulli, Multinomial
from ._base import BaseRBM
from ._blocks import by_blocks
from ._choices import optimizer_of
from ._counts import (
    CountLikelihoods,
    with_biases_in_weights,
    with_lengths,
)
from ._encoded import decoded, rows_to_start, visible_rows
from ._layouts import Counts
from ._parts import Parts
from ._shared import shares_parameters


@shares_parameters
class ReplicatedSoftmaxRBM(CountLikelihoods, BaseRBM):
    """Replicated softmax, an undirected topic model of word counts.

    The model of [1]_. A row v of X contains the word counts of a document of length D. Binary
    hidden units h are topics, any number of which can be active in a document:

    E(v, h) = -h' W v - b' v - D c' h, with W = ``components_``, b = ``intercept_visible_`` and
    c = ``intercept_hidden_``. Given h, the words are D independent draws with probabilities
    softmax(b + W' h). All likelihoods are those of the words in their order, given the length.

    Read more in the :ref:`User Guide <counts_of_words>`.

    Parameters
    ----------
    n_components : int, default=50
        Number of binary hidden units.
    inference : {"gibbs", "pcd", "cd"} or Gibbs, default="gibbs"
        Block Gibbs sampling, with persistent chains or with chains that start at the batch of data;
        or an object such as ``Gibbs(n_steps=5, n_chains=200)``.
    {optimizer}
        A name stands for one with ``alpha=0.0`` and ``schedule="linear"``. Penalties that make
        zeros do not apply.
    {learning_rate = "auto"}
    batch_size : int, default=100
        Largest number of documents of a mini-batch, and number of Gibbs chains, of which there
        are no more than rows given to ``fit``.
    {n_iter = 40}
    {warm_start}
    {verbose}
    {random_state}

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        Weights: what a hidden unit adds to the logarithms of the words' probabilities, up to a
        constant. Each row sums to 0.
    intercept_hidden_ : array of shape (n_components,)
        Biases of the hidden units for each word of a document: they are multiplied by its length.
    intercept_visible_ : array of shape (n_features,)
        Biases of the words: logarithms of their probabilities without hidden units.
    units_ : tuple of Unit
        The visible and the hidden units.
    visible_means_ : array of shape (n_features,)
        Means of the training data; absent after ``from_parameters``.
    starts_ : array of shape (n_chains, n_features)
        Documents of the chains.
    n_iter_ : int
        Number of epochs.
    history_ : dict of list
        For each epoch: ``epoch``, ``learning_rate`` and ``time`` (s).
    {n_features_in_}
    {feature_names_in_}

    See Also
    --------
    sklearn.decomposition.LatentDirichletAllocation : Topics whose probabilities are mixed.
    BernoulliRBM : Binary units, for whether a word occurs.

    References
    ----------
    .. [1] Salakhutdinov, R., & Hinton, G. (2009). Replicated Softmax: an Undirected Topic Model.
       NIPS.

    Examples
    --------
    >>> import numpy as np
    >>> from skrbm import ReplicatedSoftmaxRBM
    >>> X = np.array([[2, 3, 0, 0], [4, 1, 0, 1], [0, 0, 3, 2], [0, 1, 2, 5]])
    >>> rbm = ReplicatedSoftmaxRBM(n_components=2, random_state=0).fit(X)
    >>> rbm.transform(X).shape
    (4, 2)
    >>> rbm.sample(lengths=[3, 7], random_state=0).sum(axis=1)
    array([3., 7.])
    """

    _parameter_constraints: ClassVar[dict] = {
        "inference": [StrOptions(set(method_names(Gibbs))), Gibbs],
    }
    init = "random"
    _layout = Counts()
    _absent: ClassVar[dict] = {
        **dict.fromkeys(("gibbs", "impute", "denoise"), "documents have no missing or noisy words"),
        "log_partition": "each length has its own; use log_partitions(lengths)",
    }
    _takes_missing = early_stopping = False
    _optimizer_defaults: ClassVar[dict] = {"alpha": 0.0, "schedule": "linear"}

    def __init__(
        self,
        n_components=50,
        *,
        inference="gibbs",
        optimizer="sgd",
        learning_rate="auto",
        batch_size=100,
        n_iter=40,
        warm_start=False,
        verbose=0,
        random_state=None,
    ):
        self.n_components = n_components
        self.inference = inference
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.n_iter = n_iter
        self.warm_start = warm_start
        self.verbose = verbose
        self.random_state = random_state

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags

    # ------------------------------------------------------------------- the parts

    def _units(self):
        return Multinomial(), Bernoulli()

    def _parts(self, rows=None):
        optimizer, sampler = optimizer_of(self), resolve(self.inference, Gibbs)
        if sampler.start not in (None, "persistent", "data"):
            raise ValueError(
                f"chains of counts are persistent or start at data, got start={sampler.start!r}"
            )
        if optimizer.makes_zeros:
            raise ValueError(
                f"optimizer={optimizer!r} has a penalty that makes zeros, of weights with hidden "
                'biases in them, which are not those of components_: set penalty="l2"'
            )
        phase = ChainPhase(sampler, sampler.start or "persistent")
        return Parts(phase, optimizer, parameters=CountParameters())

    def _first_machine(self, rows, rng, parts):
        return with_biases_in_weights(super()._first_machine(rows, rng, parts))

    # ------------------------------------------------------------------- the fitted machine

    @classmethod
    def from_parameters(
        cls, components, intercept_hidden=None, intercept_visible=None, *, length=100, **params
    ):
        """Build a fitted machine from arrays.

        Parameters
        ----------
        components : array-like of shape (n_components, n_features), or fitted estimator
            Weights; or a fitted estimator whose arrays are copied.
        intercept_hidden : array-like of shape (n_components,), default=None
            Biases of the hidden units for each word; default: zeros.
        intercept_visible : array-like of shape (n_features,), default=None
            Biases of the words; default: zeros.
        length : int, default=100
            Number of words of the documents of ``starts_``.
        **params
            Parameters of the estimator other than ``n_components``.

        Returns
        -------
        estimator : object
            Fitted.
        """
        rbm = cls(**params)
        units = Multinomial(length), Bernoulli()
        machine = machine_from(components, intercept_hidden, intercept_visible, units)
        rbm.n_components = machine.n_units[1]
        rbm._validate_params()
        return rbm._adopted(with_biases_in_weights(machine), rbm._parts())

    def inverse_transform(self, H):
        """Compute the probabilities of words given hidden units.

        Parameters
        ----------
        H : array-like of shape (n_samples, n_components)
            Values of the hidden units, such as those from :meth:`transform`.

        Returns
        -------
        P : array of shape (n_samples, n_features)
            Rows sum to 1. Times a length they are expected counts.
        """
        machine = self.machine_
        H = check_rows("H", H, machine.n_units[1], machine.weights[0])
        return Multinomial(1).mean(conditional(machine, 0, (None, H)))

    def top_words(self, vocabulary, n=10):
        """Return the words that each hidden unit makes more probable.

        Parameters
        ----------
        vocabulary : array-like of str of shape (n_features,)
            The words of the columns, such as ``CountVectorizer().get_feature_names_out()``.
        n : int, default=10
            Number of words of a unit.

        Returns
        -------
        words : ndarray of str of shape (n_components, n)
            By the gain of their expected number in a document of average probabilities when the
            unit turns on, p (exp(W) - 1) with the frequencies p of the training data, the largest
            first; without these p is uniform.
        """
        check_is_fitted(self, "components_")
        check_count("n", n, 1)
        words, W = np.asarray(vocabulary), to_numpy(self.components_)
        if words.shape != W.shape[1:]:
            raise ValueError(f"vocabulary has shape {words.shape}, and X {W.shape[1]} columns")
        means = getattr(self, "visible_means_", None)
        p = 1.0 if means is None else to_numpy(means)
        return words[np.argsort(-p * np.expm1(W), axis=1, kind="stable")[:, :n]]

    @by_blocks
    def predict(self, X):
        """Return the most probable counts, of as many words, given E[h | v = X].

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Dense, as the result is: for a large sparse X, predict blocks of its rows.

        Returns
        -------
        V : array of shape (n_samples, n_features)
        """
        if sp.issparse(X):
            raise TypeError(
                "predict does not take sparse X, as its result is a dense array of the shape of X; "
                "call predict(X[start:stop].toarray()) for blocks of rows"
            )
        hidden, machine = self._first_hidden(X), self.machine_.of_rows(visible_rows(self, X))
        return machine.units[0].mode(conditional(machine, 0, (None, hidden)))

    # ------------------------------------------------------------------- samples

    @one_blas_thread
    def sample(self, n_samples=1, *, lengths=None, n_steps=100, init=None, random_state=None):
        """Draw documents, by a Gibbs chain for each.

        Parameters
        ----------
        n_samples : int, default=1
            Does not count if there are several lengths.
        lengths : int or array-like of int of shape (n_samples,), default=None
            Number of words of all documents, or of each; default: those of random rows of
            ``starts_``.
        n_steps : int, default=100
            Sweeps of each chain, which starts at independent words.
        init : array-like of shape (n_samples, n_features), default=None
            Documents where the chains start instead, whose lengths they keep.
        random_state : int, RandomState instance or None, default=None

        Returns
        -------
        V : array of shape (n_samples, n_features)
            Counts.
        """
        machine = self.machine_
        check_count("n_samples", n_samples, 1)
        check_count("n_steps", n_steps, 0)
        rng = make_rng(random_state, machine.weights[0])
        if init is None:
            machine = with_lengths(machine, lengths, n_samples, self.starts_, rng)
            X = draw_visible(machine, rng, machine.n_rows)
        elif lengths is None:
            X = namespace(machine.weights[0]).asarray(
                dense(rows_to_start(self, init, n_samples)), copy=True
            )
        else:
            raise ValueError("sample takes init or lengths, not both: rows of init have lengths")
        if n_steps == 0:
            return decoded(self, [X])
        state = Gibbs().state_at(machine, X, rng)
        return decoded(self, [last_visible(Gibbs(), machine, state, rng, n_steps)])
