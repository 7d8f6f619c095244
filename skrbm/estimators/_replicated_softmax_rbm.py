"""Machine of counts of words: the replicated softmax."""

import math
from dataclasses import replace
from numbers import Integral
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from .._checks import check_count
from ..arrays import (
    from_numpy,
    make_rng,
    namespace,
    one_blas_thread,
    seed_sequence,
    to_numpy,
)
from ..evaluation import Density
from ..evaluation._lengths import length_partitions
from ..inference import Gibbs, draw_visible, last_visible
from ..inputs import check_rows, find_blocks, machine_from
from ..learning import OPTIMIZERS, ChainPhase, CountParameters, Optimizer
from ..machine import Machine, conditional, in_double, precise_free_energy
from ..units import Bernoulli, Multinomial, Theta
from ._base import BaseRBM
from ._log_partition import kept_with_parameters
from ._parts import Parts

# Parameters of other estimators, which this one does not have.
_ABSENT = {"early_stopping", "validation_fraction", "n_iter_no_change", "tol", "binarize"}


class _Absent:
    """A method that estimators of counts do not have."""

    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, estimator, owner=None):
        raise AttributeError(
            f"ReplicatedSoftmaxRBM has no {self.name}: documents have no missing or noisy words"
        )


class ReplicatedSoftmaxRBM(BaseRBM):
    """Replicated softmax: a machine of counts of words, an undirected topic model [1]_.

    A row v of X has the counts of the words of a document, and D is their sum, its length. Binary
    hidden units h are topics, of which any number can be on in a document:

    E(v, h) = -h' W v - b' v - D c' h, with W = ``components_``, b = ``intercept_visible_`` and
    c = ``intercept_hidden_``. Given h, the words are D independent draws with probabilities
    softmax(b + W' h). All likelihoods are those of the words in their order, given the length.

    Read more in the :ref:`User Guide <counts_of_words>`.

    Parameters
    ----------
    n_components : int, default=50
        Number of binary hidden units.
    learning_rate : float or "auto", default="auto"
        Step of the gradient ascent on the mean log-likelihood of a document. "auto" finds it in
        training, and ``schedule`` is a factor on what is found.
    batch_size : int, default=100
        Largest number of documents of a mini-batch, and number of Gibbs chains, of which there
        are no more than rows given to ``fit``.
    n_iter : int, default=40
        Passes over the data.
    verbose : int, default=0
        Whether to print a line for each pass.
    random_state : int, RandomState instance or None, default=None
        Determines initial weights, the order of rows, the chains, and the seed with which
        ``score_samples`` estimates log Z.
    n_gibbs_steps : int, default=1
        Sweeps of the chains for each batch, the k of CD-k.
    persistent : bool, default=True
        Whether the chains go on from batch to batch (PCD) or start at each batch of data (CD). The
        chains that go on draw documents of the lengths of the batch, of which the i-th chain has
        the i-th smallest.
    optimizer : {"sgd", "adam"} or object, default="sgd"
        Gradient ascent with ``momentum``, or Adam, or an object such as ``Adam(decay=0.5)``.
    momentum : float in [0, 1), default=0.0
        Part of the last step that is added to the next.
    alpha : float, default=0.0
        Strength of the penalty on the weights, of which hidden biases are a part here.
    penalty : {"l2", "l1"}, default="l2"
        alpha / 2 ||W||² or alpha ||W||₁.
    centered : bool, default=True
        Whether the gradient is that of the couplings between deviations of the units from their
        means. Learning is then much faster.
    average : bool, default=True
        Whether the fitted parameters are means over the steps, in which late ones weigh more.
    schedule : {"constant", "linear", "cosine", "exponential"} or callable, default="linear"
        Factor on the learning rate, by the fraction of ``n_iter`` that has passed: 1, down to 0
        in a line or a cosine, down to 1e-3; or a function of the fraction.
    init : "random", fitted estimator or (components, intercept_hidden, intercept_visible), \
            default="random"
        Where training starts. "random" draws weights from N(0, 0.01²) and sets visible biases to
        the logarithms of the words' frequencies.
    shuffle : bool, default=True
        Whether to shuffle the rows in each pass.
    warm_start : bool, default=False
        Whether ``fit`` goes on from the last solution.

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
        Kinds of the visible and the hidden units.
    visible_means_ : array of shape (n_features,)
        Means of the training data; absent after ``from_parameters``.
    starts_ : array of shape (n_chains, n_features)
        Documents of the chains.
    n_iter_ : int
        Passes over the data so far.
    history_ : dict of list
        For each pass: ``epoch``, ``learning_rate`` and ``time`` (s).
    n_features_in_ : int
        Number of features seen in fit.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of features seen in fit, if all are strings.

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
    >>> rbm.sample([3, 7], random_state=0).sum(axis=1)
    array([3., 7.])
    """

    _parameter_constraints: ClassVar[dict] = {
        **{
            name: choices
            for name, choices in BaseRBM._parameter_constraints.items()
            if name not in _ABSENT
        },
        "centered": ["boolean"],
        "average": ["boolean"],
        "n_gibbs_steps": [Interval(Integral, 1, None, closed="left")],
        "persistent": ["boolean"],
        "optimizer": [StrOptions(set(OPTIMIZERS)), Optimizer],
    }
    gibbs, impute, denoise = _Absent(), _Absent(), _Absent()
    _takes_missing = early_stopping = False
    validation_fraction = n_iter_no_change = tol = None  # of early stopping

    def __init__(
        self,
        n_components=50,
        *,
        learning_rate="auto",
        batch_size=100,
        n_iter=40,
        verbose=0,
        random_state=None,
        n_gibbs_steps=1,
        persistent=True,
        optimizer="sgd",
        momentum=0.0,
        alpha=0.0,
        penalty="l2",
        centered=True,
        average=True,
        schedule="linear",
        init="random",
        shuffle=True,
        warm_start=False,
    ):
        self.n_components = n_components
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.n_iter = n_iter
        self.verbose = verbose
        self.random_state = random_state
        self.n_gibbs_steps = n_gibbs_steps
        self.persistent = persistent
        self.optimizer = optimizer
        self.momentum = momentum
        self.alpha = alpha
        self.penalty = penalty
        self.centered = centered
        self.average = average
        self.schedule = schedule
        self.init = init
        self.shuffle = shuffle
        self.warm_start = warm_start

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags

    # ------------------------------------------------------------------- the parts

    def _units(self):
        return Multinomial(), Bernoulli()

    def _parts(self, rows=None):
        optimizer, start = self.optimizer, "persistent" if self.persistent else "data"
        if isinstance(optimizer, str):
            optimizer = OPTIMIZERS[optimizer](self.momentum, self.alpha, self.penalty, None)
        phase = ChainPhase(Gibbs(), start, self.n_gibbs_steps)
        return Parts(phase, optimizer, parameters=CountParameters())

    def _data_to_learn(self, X, goes_on):
        X = super()._data_to_learn(X, goes_on)
        if find_blocks(X) is None:
            Multinomial().check_values(X)
        return X

    def _first_machine(self, rows, rng, parts):
        return _with_biases_in_weights(super()._first_machine(rows, rng, parts))

    def _in_training(self, parts):
        # Published parameters are differences, which do not sum to the same bits again.
        training = self._training
        if training.average is not None:
            means = training.average.means
            published = _published(means)
            if all(np.array_equal(getattr(self, name), x) for name, x in published.items()):
                return means.copy()
        return self.machine_.copy()

    def _attributes(self, machine, state, parts):
        starts = {"starts_": parts.phase.visible(state)}
        return {"units_": self._units(), **_published(machine), **starts}

    # ------------------------------------------------------------------- the fitted machine

    @property
    def machine_(self):
        """The fitted parameters as a machine, whose weights have the hidden biases in them."""
        check_is_fitted(self, "components_")
        c = self.intercept_hidden_
        thetas = Theta(self.intercept_visible_), Theta(0 * c)
        return Machine(self.units_, thetas, (self.components_ + c[:, None],))

    def density(self, length):
        """Return the distribution of documents of one length.

        Parameters
        ----------
        length : int
            Number of words.

        Returns
        -------
        density : :class:`~skrbm.evaluation.Density`
            What the functions of :mod:`skrbm.evaluation` take.
        """
        machine = in_double(self.machine_)
        return Density(replace(machine, units=(Multinomial(length), machine.units[1])))

    @classmethod
    def from_parameters(
        cls, components, intercept_hidden=None, intercept_visible=None, *, length=100, **params
    ):
        """Build a fitted machine from arrays.

        Parameters
        ----------
        components : array-like of shape (n_components, n_features), or fitted estimator
            Weights; or a machine of which all arrays are taken.
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
        return rbm._adopted(_with_biases_in_weights(machine), rbm._parts())

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
                "predict does not take sparse X: its result, a dense array of the shape of X, "
                "may not fit into memory. Call predict(X[start:stop].toarray()) for blocks of rows."
            )
        hidden, machine = self._first_hidden(X), self.machine_.of_rows(self._visible(X))
        return machine.units[0].mode(conditional(machine, 0, (None, hidden)))

    # ------------------------------------------------------------------- likelihoods

    def log_partition(self, lengths, return_std=False):
        """Compute or estimate the log-partition function for documents of some lengths.

        It is exact for at most 12 hidden units. Otherwise 256 chains, as 16 independent runs with
        resampling, go from documents of one word, which are drawn exactly, to longer and longer
        ones: each step is an importance weight and a sweep of Gibbs sampling. All lengths are on
        the way, so that one run serves all of them. The value is kept, for the same parameters, as
        long as the process runs.

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
        asked = np.asarray(lengths, dtype=np.float64)
        if not (np.isfinite(asked).all() and (asked >= 0).all()):
            raise ValueError(f"lengths must be finite numbers >= 0, got {lengths!r}")
        # Few different ends, so that what is kept serves most calls.
        longest = 2 ** math.ceil(math.log2(max(asked.max(initial=1), 1)))

        def estimate():
            rng = make_rng(seed_sequence(self._evaluation_seed), machine.weights[0])
            return length_partitions(machine, rng, longest)

        found = kept_with_parameters(self, ("lengths", longest), estimate)
        distinct, places = np.unique(asked, return_inverse=True)
        values, std = (part[places].reshape(asked.shape)[()] for part in found.at(distinct))
        return (values, std) if return_std else values

    def score_samples(self, X):
        """Compute the log-likelihood of each document: of its words in their order, given D.

        It is log p(v | D) without the multinomial coefficient, which is the number of orders. It
        depends on the parameters and the document alone. log Z is that of :meth:`log_partition`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts.

        Returns
        -------
        log_likelihood : array of shape (n_samples,)
            In nats, float64; 0 for a document without words.
        """
        return self._scored(X)

    def _scored(self, X):
        machine = in_double(self.machine_)

        def of_rows(rows):
            log_z = self.log_partition(to_numpy(machine.units[0].totals(rows)))
            return -precise_free_energy(machine, rows) - from_numpy(log_z, machine.weights[0])

        return self._by_blocks(of_rows, X, machine.dtype)

    def perplexity(self, X, average="words"):
        """Compute the perplexity per word: exp of minus the mean log-likelihood of a word.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts of held-out documents.
        average : {"words", "documents"}, default="words"
            Over all words, as of
            :meth:`sklearn.decomposition.LatentDirichletAllocation.perplexity`; or over the words of
            each document and then over documents, as Salakhutdinov and Hinton (2009) do. Documents
            without words do not count.

        Returns
        -------
        perplexity : float
        """
        if average not in ("words", "documents"):
            raise ValueError(f'average must be "words" or "documents", got {average!r}')
        scores = to_numpy(self._scored(X))
        unit, dtype = Multinomial(), np.float64
        lengths = to_numpy(self._by_blocks(lambda rows: unit.totals(rows), X, dtype))
        known = lengths > 0
        if not known.any():
            raise ValueError("X has no words")
        scores, lengths = scores[known], lengths[known]
        if average == "documents":
            return float(np.exp(-np.mean(scores / lengths)))
        return float(np.exp(-scores.sum() / lengths.sum()))

    # ------------------------------------------------------------------- samples

    @one_blas_thread
    def sample(self, lengths=None, *, n_steps=100, random_state=None):
        """Draw documents, by a Gibbs chain for each.

        Parameters
        ----------
        lengths : int or array-like of int of shape (n_samples,), default=None
            Numbers of words; default: a document of the length of a random row of ``starts_``.
        n_steps : int, default=100
            Sweeps of each chain, which starts at independent words.
        random_state : int, RandomState instance or None, default=None

        Returns
        -------
        V : array of shape (n_samples, n_features)
            Counts.
        """
        check_count("n_steps", n_steps, 0)
        machine = self.machine_
        rng = make_rng(random_state, machine.weights[0])
        if lengths is None:
            lengths = to_numpy(machine.units[0].totals(self.starts_))
            lengths = lengths[to_numpy(rng.integers(len(lengths), 1))]
        lengths = np.atleast_1d(np.asarray(lengths))
        if lengths.dtype.kind not in "iuf" or lengths.ndim > 1 or not (lengths >= 0).all():
            raise ValueError(f"lengths must be one or several whole numbers >= 0, got {lengths!r}")
        draws = from_numpy(lengths, machine.weights[0])
        machine = replace(machine, units=(Multinomial(draws), machine.units[1]))
        X = draw_visible(machine, rng, len(lengths))
        if n_steps == 0:
            return X
        return last_visible(Gibbs(), machine, Gibbs().start(machine, X, rng), rng, n_steps)


def _with_biases_in_weights(machine):
    """Return the machine with hidden biases per word as a part of its weights."""
    own, hidden = machine.thetas
    weights = machine.weights[0] + hidden.field[:, None]
    return replace(machine, thetas=(own, Theta(0 * hidden.field)), weights=(weights,))


def _published(machine):
    """Return weights whose rows sum to 0, with biases of the units, by their names."""
    W, b = machine.weights[0], machine.thetas[0].field
    xp = namespace(W)
    shift = xp.mean(W, axis=1)
    return {
        "components_": W - shift[:, None],
        "intercept_hidden_": shift,
        "intercept_visible_": xp.asarray(b, copy=True),
    }
