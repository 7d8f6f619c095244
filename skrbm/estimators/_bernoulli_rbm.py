"""Binary machine trained by contrastive divergence, persistent or not."""

from ..inference import Gibbs
from ..learning import SGD, ChainPhase
from ..units import Bernoulli
from ._base import BaseRBM
from ._parts import Parts
from ._shared import shares_parameters


@shares_parameters
class BernoulliRBM(BaseRBM):
    """Bernoulli restricted Boltzmann machine, trained by (persistent) contrastive divergence.

    Binary visible and binary hidden units,
    p(v, h) ∝ exp(h' W v + b' v + c' h), with W = ``components_``, b = ``intercept_visible_`` and
    c = ``intercept_hidden_``. It can replace
    :class:`sklearn.neural_network.BernoulliRBM`.

    Read more in the :ref:`User Guide <bernoulli_rbm>`.

    Parameters
    ----------
    n_components : int, default=256
        Number of binary hidden units.
    learning_rate : float, default=0.1
        Step of the gradient ascent on the mean log-likelihood. Reasonable values lie between 1e-3
        and 1, smaller ones late in training.
    batch_size : int, default=10
        Largest number of rows of a mini-batch, and number of Gibbs chains, of which there
        are no more than rows given to ``fit``; batches have nearly the same size.
    {n_iter = 10}
    {verbose}
    {random_state}

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
        The visible and the hidden units.
    visible_means_ : array of shape (n_features,)
        Means of the training data; absent after ``from_parameters``.
    starts_ : array of shape (n_chains, n_features)
        Visible units of the chains, where :meth:`sample` starts.
    n_iter_ : int
        Number of epochs.
    history_ : dict of list
        For each epoch: ``epoch``, ``learning_rate``, ``time`` (s), ``log_likelihood`` (nats per
        sample, of at most 1000 training rows) and ``log_likelihood_std``, the standard error of
        log Z, NaN in epochs in which it is not measured (see :ref:`likelihood_in_training`), and
        with early stopping ``score``, the log-likelihood of the validation rows.
    {n_features_in_}
    {feature_names_in_}

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

    init, inference, warm_start, early_stopping = "random", "gibbs", False, False

    def __init__(
        self,
        n_components=256,
        *,
        learning_rate=0.1,
        batch_size=10,
        n_iter=10,
        verbose=0,
        random_state=None,
    ):
        self.n_components = n_components
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.n_iter = n_iter
        self.verbose = verbose
        self.random_state = random_state

    def _units(self):
        return Bernoulli(), Bernoulli()

    def _first_deviation(self, n_below):
        # Smaller weights give worse features of digits, larger ones a worse likelihood of NLTCS.
        return min(0.1, 0.8 / n_below**0.5)

    def _parts(self, rows=None):
        plain = SGD(alpha=0.0, schedule="constant", centered=False, average=False)
        return Parts(ChainPhase(Gibbs()), plain)

    def _more_attributes(self, state, parts):
        return {"h_samples_": state.chains.layers[1]}
