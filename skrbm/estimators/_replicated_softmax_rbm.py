"""Machine of counts of words: the replicated softmax."""

from numbers import Integral
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from .._checks import check_count
from .._sklearn import Interval
from ..arrays import (
    dense,
    make_rng,
    namespace,
    one_blas_thread,
)
from ..inference import Gibbs, draw_visible, last_visible
from ..inputs import check_rows, find_blocks, machine_from
from ..learning import ChainPhase, CountParameters
from ..machine import Machine, conditional
from ..units import Bernoulli, Multinomial, Theta
from ._base import BaseRBM
from ._blocks import by_blocks
from ._choices import OPTIMIZER_CONSTRAINT, optimizer_of
from ._counts import (
    Absent,
    CountLikelihoods,
    published_parameters,
    with_biases_in_weights,
    with_lengths,
)
from ._encoded import rows_to_start, visible_rows
from ._parts import Parts

# Parameters of other estimators, which this one does not have.
_ABSENT = {
    *("early_stopping", "validation_fraction", "n_iter_no_change", "tol", "binarize"),
    "penalty",
}


class ReplicatedSoftmaxRBM(CountLikelihoods, BaseRBM):
    """Replicated softmax: a machine of counts of words, an undirected topic model.

    It is that of [1]_. A row v of X has the counts of the words of a document, and D is their sum,
    its length. Binary hidden units h are topics, of which any number can be on in a document:

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
    optimizer : {"sgd", "natural", "adam"} or object, default="sgd"
        Gradient ascent with ``momentum``, or Adam, or an object such as ``Adam(decay=0.5)``.
    momentum : float in [0, 1), default=0.0
        Part of the last step that is added to the next.
    alpha : float, default=0.0
        Strength of the penalty alpha / 2 ||W||² on the weights, of which hidden biases are a part
        here. So there is no penalty that makes zeros: weights that are published have no biases
        in them.
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
    >>> rbm.sample(lengths=[3, 7], random_state=0).sum(axis=1)
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
        "optimizer": OPTIMIZER_CONSTRAINT,
    }
    gibbs = impute = denoise = Absent("documents have no missing or noisy words; use sample")
    log_partition = Absent("each length has its own; use log_partitions(lengths)")
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
        optimizer, start = optimizer_of(self), "persistent" if self.persistent else "data"
        if optimizer.makes_zeros:
            raise ValueError(
                f"optimizer={optimizer!r} has a penalty that makes zeros, of weights with hidden "
                'biases in them, which are not those of components_: set penalty="l2"'
            )
        phase = ChainPhase(Gibbs(), start, self.n_gibbs_steps)
        return Parts(phase, optimizer, parameters=CountParameters())

    def _data_to_learn(self, X, goes_on, weights):
        X = super()._data_to_learn(X, goes_on, weights)
        if find_blocks(X) is None:
            Multinomial().check_values(X)
        return X

    def _first_machine(self, rows, rng, parts):
        return with_biases_in_weights(super()._first_machine(rows, rng, parts))

    def _in_training(self, parts):
        # Published parameters are differences, which do not sum to the same bits again.
        average = self._training.average
        if average is not None:
            with np.errstate(over="ignore", invalid="ignore"):
                found = published_parameters(average.means)
            if all(bool(namespace(x).all(getattr(self, name) == x)) for name, x in found.items()):
                return average.means.copy()
        return self.machine_.copy()

    def _attributes(self, machine, state, parts):
        starts = {"starts_": parts.phase.visible(state)}
        return {"units_": self._units(), **published_parameters(machine), **starts}

    # ------------------------------------------------------------------- the fitted machine

    @property
    def machine_(self):
        """The fitted parameters as a machine, whose weights have the hidden biases in them."""
        check_is_fitted(self, "components_")
        c = self.intercept_hidden_
        thetas = Theta(self.intercept_visible_), Theta(0 * c)
        return Machine(self.units_, thetas, (self.components_ + c[:, None],))

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
                "predict does not take sparse X: its result, a dense array of the shape of X, "
                "may not fit into memory. Call predict(X[start:stop].toarray()) for blocks of rows."
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
            return X
        return last_visible(Gibbs(), machine, Gibbs().start(machine, X, rng), rng, n_steps)
