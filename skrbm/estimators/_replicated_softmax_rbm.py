"""The replicated softmax, a restricted Boltzmann machine for word counts."""

import math
import warnings
from collections.abc import Mapping
from dataclasses import replace
from numbers import Real
from typing import ClassVar

import numpy as np
from scipy.special import softmax
from sklearn.utils.validation import check_is_fitted

from .._checks import check_count
from .._sklearn import Interval, StrOptions
from ..arrays import dense, from_numpy, make_rng, namespace, one_blas_thread, to_numpy
from ..evaluation import Density
from ..evaluation._lengths import length_partitions
from ..exceptions import LikelihoodWarning
from ..inference import Gibbs, draw_visible, last_visible, method_names, resolve
from ..inputs import check_rows, machine_from
from ..learning import CountedDataPhase, CountedPhase, CountParameters
from ..machine import conditional, in_double, precise_free_energy
from ..units import Bernoulli, Multinomial
from ._base import BaseRBM
from ._encoded import by_blocks, decoded, rows_to_start
from ._layouts import Counts
from ._log_partition import kept_with_parameters
from ._recipe import Recipe
from ._shared import N_ITER_OR_AUTO, optimizer_of, shares_parameters

_PER_WORD = 0.01  # standard error of log Z, in nats, that is a percent of the perplexity


@shares_parameters
class ReplicatedSoftmaxRBM(BaseRBM):
    """Replicated softmax, an undirected topic model of word counts.

    A row v of X has the word counts of a document of length D. Binary hidden units h are topics,
    any number of which can be active in a document: E(v, h) = -h' W v - b' v - D c' h [1]_, with W
    = ``components_``, b = ``intercept_visible_`` and c = ``intercept_hidden_``. Given h, the words
    are D independent draws with probabilities softmax(b + W' h). All likelihoods are those of the
    ordered words given the length.

    Read more in the :ref:`User Guide <counts_of_words>`.

    Parameters
    ----------
    {n_components = 50}
    inference : {"gibbs", "pcd", "cd"} or Gibbs, default="gibbs"
        Block Gibbs sampling. By default chains are persistent and exchange their hidden units with
        chains of other document lengths; with "cd" they start at the documents of the batch. Pass
        an object to set steps and chains, such as ``Gibbs(n_steps=5, n_chains=200)``.
    sparsity : float, default=0.0
        Strength of a penalty that keeps hidden units off in most documents, which makes them easier
        to interpret as topics, at some cost in perplexity (:ref:`counts_of_words`). The penalty is
        the cross-entropy between a mean activation of 0.1 and that of the unit, and changes the
        biases only [2]_. If documents have more than 100 words on average, it is multiplied by
        (mean number of words / 100)². Documents of 30 to 60 words need a value of about 1, longer
        ones up to 10; if it is too large, units are never on.
    {optimizer}
        Given by name, the optimizer has ``alpha=0.0`` and ``schedule="linear"``. Penalties that set
        weights to zero are not supported.
    {learning_rate = "auto"}
    batch_size : int, default=100
        Maximum number of documents in a mini-batch, and number of Gibbs chains, which does not
        exceed the number of rows in ``fit``.
    n_iter : int or "auto", default="auto"
        Number of epochs. "auto" is 40, or with an automatic step length as many as make 1000 steps
        if that is more.
    {warm_start, verbose, random_state}

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        Change of the log-probabilities of the words, up to a constant, by each hidden unit. Each
        row sums to 0.
    intercept_hidden_ : array of shape (n_components,)
        Biases of the hidden units, which are multiplied by the number of words of a document.
    intercept_visible_ : array of shape (n_features,)
        Biases of the words: up to a constant, their log-probabilities if all hidden units are off.
    {units_, visible_means_}
    starts_ : array of shape (n_chains, n_features)
        Documents of the chains.
    {n_iter_}
    history_ : dict of list
        For each epoch ``epoch``, ``learning_rate`` and ``time`` (s); for the last epoch also
        ``log_likelihood`` (nats) of at most 256 training rows, unless computing it would take long.
    {n_features_in_, feature_names_in_}

    See Also
    --------
    sklearn.decomposition.LatentDirichletAllocation : Documents as mixtures of topics.
    BernoulliRBM : Binary data, such as whether each word occurs.

    References
    ----------
    .. [1] Salakhutdinov, R., & Hinton, G. (2009). Replicated Softmax: an Undirected Topic Model.
       NIPS.
    .. [2] Lee, H., Ekanadham, C., & Ng, A. Y. (2008). Sparse Deep Belief Net Model for Visual Area
       V2. NIPS.

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
        "sparsity": [Interval(Real, 0, None, closed="left")],
        "n_iter": N_ITER_OR_AUTO,
    }
    init, early_stopping, _layout = "random", False, Counts()
    _has_lengths, _takes_missing = True, False
    _encodes_text_by = "count the words of texts first, as CountVectorizer of scikit-learn does"
    _optimizer_defaults: ClassVar[dict] = {"alpha": 0.0, "schedule": "linear"}

    def __init__(
        self,
        n_components=50,
        *,
        inference="gibbs",
        sparsity=0.0,
        optimizer="sgd",
        learning_rate="auto",
        batch_size=100,
        n_iter="auto",
        warm_start=False,
        verbose=0,
        random_state=None,
    ):
        self.n_components = n_components
        self.inference = inference
        self.sparsity = sparsity
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

    def _recipe(self, rows=None):
        optimizer, sampler = optimizer_of(self), resolve(self.inference, Gibbs)
        if sampler.start not in (None, "persistent", "data"):
            raise ValueError(
                f"start must be 'persistent' or 'data' for word counts, got {sampler.start!r}"
            )
        if optimizer.makes_zeros:
            raise ValueError(f"word counts need penalty='l2', got {optimizer}")
        if self.sparsity and not optimizer.centered:
            raise ValueError(f"sparsity={self.sparsity} needs centered=True, got {optimizer}")
        phase = CountedDataPhase if sampler.start == "data" else CountedPhase
        return Recipe(phase(sampler), optimizer, CountParameters(float(self.sparsity)))

    # ------------------------------------------------------------------- the fitted machine

    @classmethod
    def from_parameters(
        cls, components, intercept_hidden=None, intercept_visible=None, *, length=100, **params
    ):
        """Create a fitted estimator from arrays.

        Parameters
        ----------
        components : array-like of shape (n_components, n_features), or fitted estimator
            Weights, or a fitted estimator whose arrays are copied.
        intercept_hidden, intercept_visible : array-like, default=None
            Biases, of the shapes of the attributes; by default zeros.
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
        return rbm._adopted(CountParameters().first(machine), rbm._recipe())

    def density(self, length):
        """Return the distribution of documents of one length.

        Parameters
        ----------
        length : int
            Number of words.

        Returns
        -------
        density : :class:`~skrbm.evaluation.Density`
            Can be passed to the functions of :mod:`skrbm.evaluation`.
        """
        machine = in_double(self.machine_)
        return Density(replace(machine, units=(Multinomial(length), machine.units[1])))

    def log_partitions(self, lengths, return_std=False):
        """Compute or estimate the log-partition function for documents of given lengths.

        It is exact for at most 12 hidden units. Otherwise it is estimated by sequential Monte Carlo
        with 256 chains, in 8 independent runs: starting from documents of one word, which are drawn
        exactly, the documents are made longer step by step, with importance weights and resampling.
        One run serves all lengths. The values are cached.

        Parameters
        ----------
        lengths : float or array-like of shape (n_lengths,)
            Numbers of words.
        return_std : bool, default=False
            Whether to return the standard error too.

        Returns
        -------
        log_z : float or ndarray of shape (n_lengths,)
            In nats.
        std : float or ndarray of shape (n_lengths,)
            Only if ``return_std``: 0 where exact.
        """
        machine = self.machine_
        asked = _checked_lengths(lengths)
        # Few different ends, so that what is kept serves most calls.
        longest = 2 ** math.ceil(math.log2(max(asked.max(initial=1), 1)))

        def estimate():
            rng = make_rng(self._evaluation_seed, np.empty(0))
            return length_partitions(machine, rng, longest)

        found = kept_with_parameters(self, ("lengths", longest), estimate)
        distinct, places = np.unique(asked, return_inverse=True)
        values, std = (part[places].reshape(asked.shape)[()] for part in found.at(distinct))
        return (values, std) if return_std else values

    def score_samples(self, X):
        """Compute the log-likelihood of the ordered words of each document, given its length.

        This is log p(v | D) without the multinomial coefficient, which counts the orders of the
        words. log Z is computed by :meth:`log_partitions`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts.

        Returns
        -------
        log_likelihood : array of shape (n_samples,)
            In nats, float64; 0 for a document without words.

        Warns
        -----
        LikelihoodWarning
            If the standard error of log Z is larger than both 0.1 nats and 0.01 nats per word.
        """
        return self._scored(X)

    @by_blocks
    def _scored(self, X):
        machine = in_double(self.machine_)

        def of_rows(rows):
            lengths = to_numpy(machine.units[0].totals(rows))
            log_z, std = self.log_partitions(lengths, return_std=True)
            unsure = std > np.maximum(0.1, _PER_WORD * lengths)
            if unsure.any():
                warnings.warn(
                    f"log Z is uncertain for documents of {lengths[unsure].min():.0f} words or "
                    f"more: its standard error is up to {std[unsure].max():.2f} nats; it is exact "
                    "with at most 12 hidden units",
                    LikelihoodWarning,
                    stacklevel=4,
                )
            return -precise_free_energy(machine, rows) - from_numpy(log_z, machine.weights[0])

        return self._by_blocks(of_rows, X, machine.dtype)

    def perplexity(self, X, average="words"):
        """Compute the perplexity, the exponential of minus the mean log-likelihood of a word.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts of held-out documents.
        average : {"words", "documents"}, default="words"
            Whether to average over all words, as in
            :class:`sklearn.decomposition.LatentDirichletAllocation`, or within each document and
            then over documents (Salakhutdinov and Hinton 2009).

        Returns
        -------
        perplexity : float
        """
        if average not in ("words", "documents"):
            raise ValueError(f'average must be "words" or "documents", got {average!r}')
        scores = to_numpy(self._scored(X))
        double = namespace(self.components_).float64
        lengths = to_numpy(self._by_blocks(Multinomial().totals, X, double))
        if not lengths.any():
            raise ValueError("X has no words")
        if average == "words":
            score = scores.sum() / lengths.sum()
        else:
            known = lengths > 0
            score = np.mean(scores[known] / lengths[known])
        with np.errstate(over="ignore"):  # to a perplexity of infinity
            return float(np.exp(-score))

    def inverse_transform(self, H):
        """Compute the probabilities of words given hidden units.

        Parameters
        ----------
        H : array-like of shape (n_samples, n_components)
            Values of the hidden units, such as those from :meth:`transform`.

        Returns
        -------
        P : array of shape (n_samples, n_features)
            Each row sums to 1. Multiply by a document length to get expected counts.
        """
        machine = self.machine_
        H = check_rows("H", H, machine.n_units[1], machine.weights[0], "hidden")
        return Multinomial(1).mean(conditional(machine, 0, (None, H)))

    def top_words(self, vocabulary, n=10):
        """Return the words that each hidden unit alone makes more probable.

        Parameters
        ----------
        vocabulary : array-like of str of shape (n_features,), or dict
            The words of the columns, or a mapping from words to columns, as returned by
            ``get_feature_names_out()`` and stored in ``vocabulary_`` of
            :class:`sklearn.feature_extraction.text.CountVectorizer`.
        n : int, default=10
            Number of words for each unit.

        Returns
        -------
        words : ndarray of str of shape (n_components, n)
            Sorted by the difference between the probabilities with the unit on and off, all others
            being off; the largest comes first.
        """
        check_is_fitted(self, "components_")
        check_count("n", n, 1)
        if isinstance(vocabulary, Mapping):
            vocabulary = sorted(vocabulary, key=vocabulary.get)
        words, W = np.asarray(vocabulary), to_numpy(self.components_)
        if words.shape != W.shape[1:]:
            raise ValueError(f"vocabulary has shape {words.shape}, but X has {W.shape[1]} columns")
        b = to_numpy(self.intercept_visible_)
        gains = softmax(b + W, axis=1) - softmax(b)
        return words[np.argsort(-gains, axis=1, kind="stable")[:, :n]]

    # ------------------------------------------------------------------- samples

    @one_blas_thread
    def sample(self, n_samples=1, *, lengths=None, n_steps=100, init=None, random_state=None):
        """Draw documents, each from its own Gibbs chain.

        Parameters
        ----------
        n_samples : int, default=1
            Ignored if several lengths are given.
        lengths : int or array-like of int of shape (n_samples,), default=None
            Number of words of each document; by default those of random rows of ``starts_``.
        n_steps : int, default=100
            Sweeps of each chain. By default chains start at independent words.
        init : array-like of shape (n_samples, n_features), default=None
            Documents at which the chains start, and whose lengths they keep.
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
            if lengths is None:
                kept = to_numpy(machine.units[0].totals(self.starts_))
                lengths = kept[to_numpy(rng.integers(len(kept), n_samples))]
            lengths = _checked_lengths(lengths)
            lengths = np.full(n_samples, lengths) if lengths.ndim == 0 else lengths
            unit = Multinomial(from_numpy(lengths, machine.weights[0]))
            machine = replace(machine, units=(unit, machine.units[1]))
            X = draw_visible(machine, rng, machine.n_rows)
        elif lengths is None:
            X = dense(rows_to_start(self, init, n_samples))
            X = namespace(X).asarray(X, copy=True)
        else:
            raise ValueError("init and lengths cannot both be given: the rows of init have lengths")
        if n_steps == 0:
            return decoded(self, [X])
        state = Gibbs().state_at(machine, X, rng)
        return decoded(self, [last_visible(Gibbs(), machine, state, rng, n_steps)])


def _checked_lengths(lengths):
    """Return one number of words or several, float64; ValueError if they are none."""
    try:
        found = np.asarray(lengths, dtype=np.float64)
    except (TypeError, ValueError):
        found = np.array(np.nan)
    if found.ndim > 1 or not found.size or not (np.isfinite(found) & (found >= 0)).all():
        raise ValueError(f"lengths must be a number >= 0 or an array of them, got {lengths!r}")
    return found
