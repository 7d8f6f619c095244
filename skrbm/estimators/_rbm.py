"""The restricted Boltzmann machine of any units, inference method and optimizer."""

from typing import ClassVar

from ._base import BaseRBM
from ._parts import spread
from ._shared import N_ITER_OR_AUTO, shares_parameters

_JOINT_COLUMNS = 200  # most columns of "gaussian" units that have a precision matrix


@shares_parameters
class RBM(BaseRBM):
    """Restricted Boltzmann machine for binary, real, categorical or count data.

    A density model of the rows of X with hidden units, whose means are features. It is trained by
    maximum likelihood, by default with persistent Gibbs chains and an automatic step length.
    The density is p(v, h) ∝ exp(h' W v + b' v + c' h) relative to independent units, with
    W = ``components_``, b = ``intercept_visible_`` and c = ``intercept_hidden_``.

    Read more in the :ref:`User Guide <rbm>`.

    Parameters
    ----------
    n_components : int, default=256
        Number of hidden units.
    {visible}
        With at most 200 columns, block Gibbs sampling and hidden units with bounds, "gaussian" is
        ``Gaussian(covariance="full")``, whose columns share a precision matrix; ``Gaussian()`` has
        one precision for each column.
    n_iter : int or "auto", default="auto"
        Number of epochs. "auto" is 40, or more with few rows: with an automatic step length and
        chains, as many as make 1000 steps, or 3000 where columns share a precision matrix.
    {early_stopping}
    {random_state}

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        Weights.
    intercept_hidden_ : array of shape (n_components,)
        Biases of the hidden units.
    intercept_visible_ : array of shape (n_features,)
        Biases of the visible units.
    precision_visible_, spike_visible_, absolute_visible_, skew_visible_ : array
        Further parameters, of shape (n_features,), of units that have them (:ref:`units`). With
        ``Gaussian(covariance="full")`` the precision is a matrix.
    precision_hidden_, spike_hidden_, absolute_hidden_, skew_hidden_ : array
        The same for the hidden units, of shape (n_components,).
    units_ : tuple of Unit
        The visible and the hidden units, with bounds taken from the data.
    visible_means_ : array of shape (n_features,)
        Means of the training data; absent after ``from_parameters``.
    starts_ : array of shape (n_states, n_features)
        Visible values of the last chains or solutions, at which :meth:`log_partition` and
        :meth:`sample` start.
    ladder_ : Ladder
        Only with tempered chains: models from independent units to the fitted one, with samples of
        each (:class:`skrbm.inference.Ladder`).
    n_iter_ : int
        Number of epochs.
    history_ : dict of list
        For each epoch ``epoch``, ``learning_rate``, ``time`` (s), ``log_likelihood`` (nats) and its
        standard error ``log_likelihood_std``; with early stopping ``score``, the log-likelihood of
        the validation set; and quantities of the inference method (:ref:`likelihood_in_training`).
    {n_features_in_}
    {feature_names_in_}

    Other Parameters
    ----------------
    {hidden}
    inference : {"gibbs", "pcd", "cd", "langevin", "gibbs_langevin", "tempering", "tap", "tap3", \
            "adaptive_tap", "naive_mean_field", "mean_field", "relaxed_bp", "bp"} or object, \
            default="gibbs"
        How the moments of the model are estimated: by Markov chains (block Gibbs sampling with
        persistent chains or contrastive divergence, Langevin dynamics, parallel tempering) or by
        fixed points (TAP, naive mean field, belief propagation). An object of
        :mod:`skrbm.inference` also sets the number of steps and chains and where they start, such
        as ``Gibbs(n_steps=5, n_chains=200, start="weighted")`` or ``TAP(max_iter=50)``.

        By default chains are persistent, and fixed points start at data. With an automatic step
        length, chains of discrete units are checked after a fifth of the epochs: if they do not
        mix, the fit restarts with weighted chains.
    {optimizer}
    {learning_rate = "auto"}
    batch_size : int, default=100
        Largest number of rows of a mini-batch. With an automatic step length and chains, an epoch
        has at least three batches.
    {init}
        The weights are drawn from N(0, 0.01²), or between binary units such that the fields of
        hidden units have a standard deviation of up to 0.75.
    {warm_start}
    {verbose}

    See Also
    --------
    TabularRBM : DataFrames with columns of several kinds.
    BernoulliRBM : Replacement of scikit-learn's class of the same name.
    TAPRBM : The same model with the defaults of training by fixed points.
    GaussianBernoulliRBM : Real columns that are generated from noise.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skrbm import RBM
    >>> X = load_digits().data / 16
    >>> rbm = RBM(n_components=32, random_state=0).fit(X[:1000])
    >>> rbm.transform(X).shape  # features
    (1797, 32)
    >>> rbm.score_samples(X).shape  # log-likelihoods
    (1797,)
    >>> rbm.sample(5, random_state=0).shape
    (5, 64)
    """

    sample_values = True
    _fewest_batches, _may_restart = 3, True

    _parameter_constraints: ClassVar[dict] = {
        "n_iter": N_ITER_OR_AUTO,
    }

    def __init__(
        self,
        n_components=256,
        *,
        visible="bernoulli",
        n_iter="auto",
        early_stopping=False,
        random_state=None,
        hidden="bernoulli",
        inference="gibbs",
        optimizer="sgd",
        learning_rate="auto",
        batch_size=100,
        init="random",
        warm_start=False,
        verbose=0,
    ):
        self.n_components = n_components
        self.visible = visible
        self.n_iter = n_iter
        self.early_stopping = early_stopping
        self.random_state = random_state
        self.hidden = hidden
        self.inference = inference
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.init = init
        self.warm_start = warm_start
        self.verbose = verbose

    def _first_machine(self, rows, rng, parts):
        machine = super()._first_machine(rows, rng, parts)
        are_binary = all(len(unit.values or ()) == 2 for unit in machine.units)
        return spread(machine) if are_binary and isinstance(self.init, str) else machine
