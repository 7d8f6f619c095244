"""Binary machine trained by contrastive divergence, persistent or not."""

from numbers import Integral
from typing import ClassVar

from .._sklearn import Interval, StrOptions
from ..inference import Gibbs
from ..learning import ChainPhase
from ..units import Bernoulli
from ._base import BaseRBM
from ._choices import OPTIMIZER_CONSTRAINT, optimizer_of
from ._parts import Parts


class BernoulliRBM(BaseRBM):
    """Bernoulli restricted Boltzmann machine, trained by (persistent) contrastive divergence.

    Binary visible and binary hidden units,
    p(v, h) ∝ exp(h' W v + b' v + c' h), with W = ``components_``, b = ``intercept_visible_`` and
    c = ``intercept_hidden_``. With default arguments it takes the place of
    :class:`sklearn.neural_network.BernoulliRBM`.

    Read more in the :ref:`User Guide <bernoulli_rbm>`.

    Parameters
    ----------
    n_components : int, default=256
        Number of binary hidden units.
    learning_rate : float or "auto", default=0.1
        Step of the gradient ascent on the mean log-likelihood. "auto" finds it in training, best
        with ``centered=True`` and a falling ``schedule``, which is a factor on what is found.
        Reasonable values lie between 1e-3 and 1, smaller ones late in training.
    batch_size : int, default=10
        Largest number of rows of a mini-batch, and number of Gibbs chains, of which there
        are no more than rows given to ``fit``; batches have nearly the same size.
    n_iter : int, default=10
        Passes over the data.
    verbose : int, default=0
        Whether to print a line for each pass.
    random_state : int, RandomState instance or None, default=None
        Determines initial weights, the order of rows, the chains, and the seed with which
        ``score_samples`` estimates log Z.
    n_gibbs_steps : int, default=1
        Sweeps of the chains for each batch, the k of CD-k.
    persistent : bool or "tempered", default=True
        Whether the chains go on from batch to batch (PCD [2]_) or start at each batch of data
        (CD [1]_). "tempered" chains go on too, and exchange with samples of earlier machines of the
        training, so that they leave modes: see :ref:`tempering`.
    optimizer : {"sgd", "natural", "adam"} or object, default="sgd"
        Gradient ascent with ``momentum``, or Adam, by which each parameter has a step of its own,
        about as long as ``learning_rate``; or an object such as ``Adam(decay=0.5)``, which has its
        own ``alpha``, ``penalty`` and ``max_norm``.
    momentum : float in [0, 1), default=0.0
        Part of the last step that is added to the next. Adam ignores it.
    alpha : float, default=0.0
        Strength of the penalty on the weights.
    penalty : {"l2", "l1", "l1b", "group_lasso"}, default="l2"
        alpha / 2 ||W||², alpha ||W||₁ or another one of :ref:`sparse_weights`; all but "l2" make
        exact zeros.
    centered : bool, default=False
        Whether the gradient is that of the couplings between deviations of the units from their
        means. Learning is then faster, and depends less on the learning rate.
    average : bool, default=False
        Whether the fitted parameters are means over the steps, in which late ones weigh more. They
        have less noise than those of the last step, where ``fit`` and ``partial_fit`` go on.
    schedule : {"constant", "linear", "cosine", "exponential"} or callable, default="constant"
        Factor on the learning rate, by the fraction of ``n_iter`` that has passed: 1, down to 0
        in a line or a cosine, down to 1e-3; or a function of the fraction.
    init : "random", fitted estimator or (components, intercept_hidden, intercept_visible), \
            default="random"
        Where training starts. "random" draws weights with a standard deviation of
        0.8 / sqrt(n_features), at most 0.1, so that hidden units differ from each other at once,
        and sets visible biases to the log-odds of the data.
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
        Whether ``fit`` goes on from the last solution.
    binarize : float or None, default=None
        Threshold above which values of X count as 1, others as 0; None takes X as it is.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        Weights.
    intercept_hidden_ : array of shape (n_components,)
        Biases of the hidden units.
    intercept_visible_ : array of shape (n_features,)
        Biases of the visible units.
    h_samples_ : array of shape (n_chains, n_components)
        Hidden units of the chains.
    units_ : tuple of Unit
        Kinds of the visible and the hidden units.
    visible_means_ : array of shape (n_features,)
        Means of the training data; absent after ``from_parameters``.
    starts_ : array of shape (n_chains, n_features)
        Visible units of the chains, where :meth:`sample` starts.
    ladder_ : Ladder
        Only of a fit with ``persistent="tempered"``: machines from independent units to the fitted
        one, with samples of each, along which :meth:`sample` and :meth:`log_partition` go.
    n_iter_ : int
        Passes over the data so far.
    history_ : dict of list
        For each pass: ``epoch``, ``learning_rate``, ``time`` (s), ``log_likelihood`` (nats per
        sample, of at most 1000 training rows) and ``log_likelihood_std``, the standard error of
        log Z, NaN in epochs in which it is not measured (see :ref:`likelihood_in_training`), and
        with early stopping ``score``, the log-likelihood of the validation rows.
    n_features_in_ : int
        Number of features seen in fit.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of features seen in fit, if all are strings.

    See Also
    --------
    TAPRBM : Training by mean field and TAP.

    References
    ----------
    .. [1] Hinton, G. E. (2002). Training products of experts by minimizing contrastive
       divergence. Neural Computation 14.
    .. [2] Tieleman, T. (2008). Training restricted Boltzmann machines using approximations to
       the likelihood gradient. ICML.

    Examples
    --------
    >>> import numpy as np
    >>> from skrbm import BernoulliRBM
    >>> X = np.array([[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 1]])
    >>> BernoulliRBM(n_components=2, random_state=0).fit(X).transform(X).shape
    (4, 2)
    """

    _parameter_constraints: ClassVar[dict] = {
        **BaseRBM._parameter_constraints,
        "centered": ["boolean"],
        "average": ["boolean"],
        "n_gibbs_steps": [Interval(Integral, 1, None, closed="left")],
        "persistent": ["boolean", StrOptions({"tempered"})],
        "optimizer": OPTIMIZER_CONSTRAINT,
    }

    def __init__(
        self,
        n_components=256,
        *,
        learning_rate=0.1,
        batch_size=10,
        n_iter=10,
        verbose=0,
        random_state=None,
        n_gibbs_steps=1,
        persistent=True,
        optimizer="sgd",
        momentum=0.0,
        alpha=0.0,
        penalty="l2",
        centered=False,
        average=False,
        schedule="constant",
        init="random",
        shuffle=True,
        early_stopping=False,
        validation_fraction=0.1,
        n_iter_no_change=5,
        tol=1e-2,
        warm_start=False,
        binarize=None,
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
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.warm_start = warm_start
        self.binarize = binarize

    def _units(self):
        return Bernoulli(), Bernoulli()

    def _first_deviation(self, n_below):
        # Smaller weights give worse features of digits, larger ones a worse likelihood of NLTCS.
        return min(0.1, 0.8 / n_below**0.5)

    def _parts(self, rows=None):
        start = {True: "persistent", False: "data"}.get(self.persistent, self.persistent)
        return Parts(ChainPhase(Gibbs(), start, self.n_gibbs_steps), optimizer_of(self))

    def _attributes(self, machine, state, parts):
        hidden = {"h_samples_": state.chains.layers[1]}
        return super()._attributes(machine, state, parts) | hidden
