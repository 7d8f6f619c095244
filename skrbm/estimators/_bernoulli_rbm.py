"""Restricted Boltzmann machine with the interface of scikit-learn's BernoulliRBM."""

from ..inference import Gibbs
from ..learning import SGD, ChainPhase
from ..units import Bernoulli
from ._base import BaseRBM
from ._recipe import Recipe
from ._shared import shares_parameters


@shares_parameters
class BernoulliRBM(BaseRBM):
    """Bernoulli restricted Boltzmann machine, trained by (persistent) contrastive divergence.

    Visible and hidden units are binary, p(v, h) ∝ exp(h' W v + b' v + c' h), with W =
    ``components_``, b = ``intercept_visible_`` and c = ``intercept_hidden_``. This class is a
    drop-in replacement for :class:`sklearn.neural_network.BernoulliRBM`.

    Read more in the :ref:`User Guide <bernoulli_rbm>`.

    Parameters
    ----------
    {n_components = 256}
    learning_rate : float, default=0.1
        Step length of the gradient ascent. Reasonable values lie between 1e-3 and 1; use smaller
        ones late in training.
    batch_size : int, default=10
        Maximum number of rows in a mini-batch, and number of Gibbs chains, which does not exceed
        the number of rows in ``fit``.
    {n_iter = 10}
    verbose : int, default=0
        If not 0, measure the likelihood after each epoch and print it.
    {random_state}

    Attributes
    ----------
    {components_, intercept_hidden_, intercept_visible_}
    h_samples_ : array of shape (n_chains, n_components)
        Last hidden states of the chains.
    {units_, visible_means_, starts_, n_iter_, history_, n_features_in_, feature_names_in_}

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

    @property
    def _measures_epochs(self):
        return bool(self.verbose)

    def _units(self):
        return Bernoulli(), Bernoulli()

    def _recipe(self, rows=None):
        plain = SGD(alpha=0.0, schedule="constant", centered=False, average=False)
        # Smaller weights give worse features of digits, larger ones a worse likelihood of NLTCS.
        deviation = 0.1 if rows is None else min(0.1, 0.8 / rows.X.shape[1] ** 0.5)
        phase = ChainPhase(Gibbs(), at_rows=self._starts_at_rows)
        return Recipe(phase, plain, deviation=deviation)

    def _attributes(self, machine, state, recipe):
        found = super()._attributes(machine, state, recipe)
        return found | {"h_samples_": state.chains.layers[1]}
