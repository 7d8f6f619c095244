"""The restricted Boltzmann machine of any units, inference, starts and optimizer."""

from typing import ClassVar

from ._base import BaseRBM
from ._parts import spread
from ._shared import N_ITER_OR_AUTO, shares_parameters

_JOINT_COLUMNS = 200  # most columns of "gaussian" units that have a precision matrix


@shares_parameters
class RBM(BaseRBM):
    """Restricted Boltzmann machine of any kinds of units, trained by any inference.

    The gradient of the log-likelihood is the moments of the data minus those of the machine. Units,
    ``inference`` (how the machine's moments are found) and ``optimizer`` (how gradients become
    steps) are chosen independently of each other.
    p(v, h) ∝ exp(h' W v + b' v + c' h) with respect to the units without couplings, with
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
    {hidden}
    inference : {"gibbs", "pcd", "cd", "langevin", "gibbs_langevin", "tempering", "tap", "tap3", \
            "adaptive_tap", "naive_mean_field", "mean_field", "relaxed_bp", "bp"} or object, \
            default="gibbs"
        How the machine's moments are found: by Markov chains (block Gibbs sampling, with persistent
        chains or with contrastive divergence; Langevin dynamics of real visible units; parallel
        tempering) or by fixed points (TAP, naive mean field, belief propagation).
        A name, or an object of :mod:`skrbm.inference` that also sets the number of steps and
        chains and where they start, such as ``Gibbs(n_steps=5, n_chains=200, start="weighted")``
        or ``TAP(max_iter=50, start="persistent")``.

        If ``start`` is left out, chains are persistent and fixed points start at data. With an
        automatic learning rate it is then checked after a fifth of the epochs whether the chains
        of discrete units mix; if not, the fit restarts with weighted chains for the other epochs.
    {optimizer}
    {learning_rate = "auto"}
    batch_size : int, default=100
        Largest number of rows of a mini-batch; batches have nearly the same size. With an
        automatic rate and chains, an epoch has at least three batches.
    n_iter : int or "auto", default="auto"
        Epochs: passes over the data. "auto" is 40, or more with few rows: with an automatic rate
        and chains, as many as make 1000 steps, or 3000 where columns share a precision matrix.
    {early_stopping}
    {init}
        Weights are drawn from N(0, 0.01²), or between binary units such that the fields of hidden
        units have a standard deviation of up to 0.75.
    {warm_start}
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
    precision_visible_, spike_visible_ : array of shape (n_features,)
        Only of units that have them: the density of an independent visible unit is
        exp(bias x - precision x² / 2) on its support, with exp(spike) times its mass against a
        point mass of 1 at 0. With ``Gaussian(covariance="full")`` the precision is a matrix P of
        shape (n_features, n_features), and the density is exp(bias' x - x' P x / 2).
    absolute_visible_, skew_visible_ : array of shape (n_features,)
        Only of :class:`~skrbm.units.DoubleReLU` units, which have both sides of 0 apart.
    precision_hidden_, spike_hidden_ : array of shape (n_components,)
        The same of the hidden units, and ``absolute_hidden_``, ``skew_hidden_``.
    units_ : tuple of Unit
        Kinds of the visible and the hidden units, with the bounds that were taken from the data.
    visible_means_ : array of shape (n_features,)
        Means of the training data; absent after ``from_parameters``.
    starts_ : array of shape (n_states, n_features)
        Visible values of the chains of the last batch, or where its solutions were looked for;
        :meth:`log_partition` and :meth:`sample` start there too.
    ladder_ : Ladder
        Only of a fit by tempered chains: machines from independent units to the fitted one,
        with samples of each (see :class:`skrbm.inference.Ladder`), along which :meth:`sample` and
        :meth:`log_partition` go. Each has the size of the parameters and of ``n_states`` rows.
    n_iter_ : int
        Epochs so far.
    history_ : dict of list
        For each epoch: ``epoch``, ``learning_rate``, ``time`` (s), ``log_likelihood`` (nats per
        sample, of at most 1000 training rows) and ``log_likelihood_std``, the standard error of
        log Z, NaN in epochs in which it is not measured, as its cost is limited to a tenth of that
        of learning (see :ref:`likelihood_in_training`), and with early stopping ``score``, the
        log-likelihood of the validation rows. If ``inference`` is a fixed point
        ``tap_log_likelihood`` (at the last batch's solutions), ``n_unconverged`` (solutions of a
        batch, on average) and ``n_sweeps`` (mean number of sweeps); of Langevin steps that are
        accepted or rejected ``acceptance``; of tempered chains ``exchange`` (mean acceptance) and
        ``n_rungs``.
    {n_features_in_}
    {feature_names_in_}

    See Also
    --------
    BernoulliRBM : Binary units by (persistent) contrastive divergence.
    TAPRBM : Any units by fixed points.
    GaussianBernoulliRBM : Gaussian visible units by Langevin chains, in standardised coordinates.

    Examples
    --------
    >>> import numpy as np
    >>> from skrbm import RBM
    >>> X = np.array([[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 1]])
    >>> rbm = RBM(n_components=2, hidden="gaussian", optimizer="adam", random_state=0)
    >>> rbm.fit(X).transform(X).shape
    (4, 2)
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
        hidden="bernoulli",
        inference="gibbs",
        optimizer="sgd",
        learning_rate="auto",
        batch_size=100,
        n_iter="auto",
        early_stopping=False,
        init="random",
        warm_start=False,
        verbose=0,
        random_state=None,
    ):
        self.n_components = n_components
        self.visible = visible
        self.hidden = hidden
        self.inference = inference
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.n_iter = n_iter
        self.early_stopping = early_stopping
        self.init = init
        self.warm_start = warm_start
        self.verbose = verbose
        self.random_state = random_state

    def _first_machine(self, rows, rng, parts):
        machine = super()._first_machine(rows, rng, parts)
        are_binary = all(len(unit.values or ()) == 2 for unit in machine.units)
        return spread(machine) if are_binary and isinstance(self.init, str) else machine
