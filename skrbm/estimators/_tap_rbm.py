"""Machine trained deterministically, by the fixed points of mean-field equations."""

from dataclasses import replace
from numbers import Integral
from typing import ClassVar

from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from .. import evaluation
from .._checks import check_count
from ..arrays import cast, namespace, one_blas_thread
from ..inference import FIXED_POINTS, STARTS, Clamped, FixedPoint, map_rows, solve
from ..inputs import check_data
from ..machine import in_double, precise_free_energy
from ..units import UNITS, Unit
from ._base import MOST_APART, BaseRBM
from ._denoising import Denoising


class DeterministicMixin(Denoising):
    """What estimators share whose model phase is a fixed point."""

    _constraints: ClassVar[dict] = {
        "visible": [StrOptions(set(UNITS)), Unit],
        "hidden": [StrOptions(set(UNITS)), Unit],
        "inference": [StrOptions(set(FIXED_POINTS)), FixedPoint],
        "starts": [StrOptions(set(STARTS))],
        "n_starts": [None, Interval(Integral, 1, None, closed="left")],
    }

    def _units(self):
        return self._unit("visible"), self._unit("hidden")

    def _unit(self, side):
        given = getattr(self, side)
        if isinstance(given, str) and given not in UNITS:  # set after the check, or not checked
            raise ValueError(f"{side} must be a unit or one of {sorted(UNITS)}, got {given!r}")
        unit = UNITS[given]() if isinstance(given, str) else given
        if not isinstance(unit, Unit) or not unit.is_learnt:
            raise ValueError(
                f"{side}={given!r}: {type(self).__name__} cannot learn such units. It learns "
                f"{sorted(UNITS)}; ConditionalRBM predicts one label of several classes, and "
                "FrankWolfeRBM learns multiplicities"
            )
        return unit

    def _fixed_point(self):
        if isinstance(self.inference, str):
            return FIXED_POINTS[self.inference]
        self.inference.check_marginals()
        return self.inference

    def _n_states(self, n_rows):
        return min(self.batch_size, n_rows) if self.n_starts is None else self.n_starts

    def _approximation(self):
        return self._fixed_point()

    def _doubts(self, estimate):
        doubts = super()._doubts(estimate)
        solved = None if estimate.std == 0 else self._solved_log_partitions()
        if solved is not None and abs(solved.mean() - estimate.value) > MOST_APART:
            doubts.append(
                f"the solutions of {self._fixed_point()} have {solved.mean():.2f}, which "
                "tap_log_likelihood takes: they miss modes of the machine, or its weights are too "
                "large for these equations"
            )
        return doubts

    def tap_log_likelihood(self, X, starts=None):
        """Compute the TAP log-likelihood of each sample (Eq. 39 of Tramel et al. 2018).

        log p(v) ≈ -F(v) + mean of the free energies of the unique solutions found from ``starts``,
        by the estimator's own ``inference``, whatever the size of the layers. Solutions that no
        start leads to do not count: where the machine has grown modes away from the data the result
        is too large, at times by tens of nats. :meth:`score_samples` is the estimate to compare
        machines by.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        starts : array-like of shape (n_starts, n_features), default=None
            Visible values from which solutions are looked for; default: those kept from fit.

        Returns
        -------
        log_likelihood : array of shape (n_samples,)
            In nats, float64.
        """
        free_energy = self.free_energy(X)
        if starts is None:
            return -free_energy - self.log_partition(self._fixed_point())
        return (
            -free_energy - evaluation.log_partition(self, self._fixed_point(), starts=starts).value
        )

    def solutions(self, X=None, *, unique_tol=1e-2):
        """Find the distinct solutions of the mean-field equations: the modes of the machine.

        Each row is followed to convergence by the estimator's own ``inference``, in float64, and
        the ends that are one solution are brought together (Sec. VII.3 of Tramel et al. 2018).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
            Visible values to start at, such as rows of data; default: those kept from fit.
        unique_tol : float, default=1e-2
            Two solutions are one if no visible mean differs by this much or more, or if a chain of
            such pairs links them, so that their number does not depend on the order of the rows.

        Returns
        -------
        solutions : Solutions
            Means, variances and free energies, the lowest first; how many rows each attracts, and
            which; the numbers of solutions at other tolerances; estimates of log Z. See
            :class:`skrbm.evaluation.Solutions`.

        Warns
        -----
        ConvergenceWarning
            If no row converges. The states where they ended are then returned.
        """
        check_is_fitted(self)
        X = None if X is None else check_data(self, X)
        return evaluation.solutions(self, self._fixed_point(), X, unique_tol=unique_tol)

    @one_blas_thread
    def impute(self, X, *, n_steps=1000, random_state=None):
        """Fill missing values with their means given the observed ones, by ``inference``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            NaN marks what is missing.
        n_steps : int, default=1000
            Largest number of sweeps for each row; most converge much sooner.
        random_state : Ignored
            Nothing is drawn; here so that all estimators can be called alike.

        Returns
        -------
        X : array of shape (n_samples, n_features)
            Observed entries as the units take them (clipped to [0, 1], or thresholded by
            ``binarize``), missing ones E[v_i | observed].
        """
        check_count("n_steps", n_steps, 1)
        machine, X, observed = self._split_missing(X)
        fixed_point, double = self._fixed_point(), namespace(X).float64
        tol = min(fixed_point.tol, 1e-12)
        method = Clamped(replace(fixed_point, damping=max(fixed_point.damping, 0.2)))
        machine = machine.astype(double)
        start = method.start(machine, cast(X, double), observed)
        solution = solve(method, machine, start, max_iter=n_steps, tol=tol)
        return cast(solution.state.means[0], X.dtype)


class TAPRBM(DeterministicMixin, BaseRBM):
    """Restricted Boltzmann machine trained by TAP or naive mean field.

    The model's moments come from K solutions of the mean-field equations instead of samples
    (Alg. 2 of [1]_), so that training and inference are deterministic given the starts.
    p(v, h) ∝ exp(h' W v + b' v + c' h), with W = ``components_``, b = ``intercept_visible_`` and
    c = ``intercept_hidden_``.

    Read more in the :ref:`User Guide <tap_rbm>`.

    Parameters
    ----------
    n_components : int, default=256
        Number of hidden units.
    visible, hidden : {"bernoulli", "gaussian", "truncated_gaussian", \
            "truncated_gauss_bernoulli"} or Unit, default="bernoulli"
        Kind of the visible and of the hidden units: binary; real; on an interval; on an interval,
        with a point mass at 0. Or an object such as ``TruncatedGaussian(-3, 3)``; bounds that are
        not given are those of the data for visible units, and [-1, 1], with a point mass [0, 1],
        for hidden ones.
    inference : {"tap", "tap3", "adaptive_tap", "naive_mean_field", "relaxed_bp", "bp"} or \
            object, default="tap"
        Equations whose fixed points are the model phase: second or third order, or the first;
        belief propagation between binary units; or an object such as
        ``TAP(order=2, max_iter=50, tol=1e-6, damping=0.5)``.
    starts : {"data", "chains", "persistent", "random"}, default="data"
        Where the solutions are looked for: at the last rows of data (the paper's choice), at the
        states of persistent Gibbs chains, at the last solutions, or at random.
    n_starts : int or None, default=None
        Number K of solutions for each batch; None is ``batch_size``, or the number of rows given to
        ``fit`` if there are fewer.
    learning_rate : float, default=0.1
        Step of the gradient ascent on the mean log-likelihood.
    batch_size : int, default=20
        Largest number of rows of a mini-batch; batches have nearly the same size.
    n_iter : int, default=20
        Passes over the data.
    verbose : int, default=0
        Whether to print a line for each pass.
    random_state : int, RandomState instance or None, default=None
        Determines initial weights, the order of rows and the starts.
    momentum : float in [0, 1), default=0.5
        Part of the last step that is added to the next.
    alpha : float, default=0.001
        Strength of the penalty on the weights.
    penalty : {"l2", "l1"}, default="l2"
        alpha / 2 ||W||² or alpha ||W||₁.
    schedule : {"constant", "linear", "cosine", "exponential"} or callable, default="linear"
        Factor on the learning rate, by the fraction of ``n_iter`` that has passed: 1, down to 0
        in a line or a cosine, down to 1e-3; or a function of the fraction.
    init : "random", fitted estimator or (components, intercept_hidden, intercept_visible), \
            default="random"
        Where training starts. "random" draws weights from N(0, 0.01²) and sets visible biases to
        the log-odds of the data.
    shuffle : bool, default=True
        Whether to shuffle the rows in each pass.
    early_stopping : bool or {"free_energy_gap", "score"}, default=False
        Whether to set rows aside and stop after ``n_iter_no_change`` bad passes in a row; the
        parameters before these are kept. With "score", or True, a pass is bad unless the
        log-likelihood of the rows set aside beats the best by ``tol``. With "free_energy_gap" it is
        bad if their mean free energy exceeds that of training rows by ``tol`` and a standard error
        more than at best: cheap, as log Z cancels, but the gap widens in good training too, so
        ``tol`` must be the widening that is acceptable, such as 1.
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
    precision_visible_, spike_visible_ : array of shape (n_features,)
        Only of units that have them: the law of a visible unit without couplings is
        exp(bias x - precision x² / 2) on its support, with exp(spike) times its mass against a
        point mass of 1 at 0.
    precision_hidden_, spike_hidden_ : array of shape (n_components,)
        The same of the hidden units.
    units_ : tuple of Unit
        Kinds of the visible and the hidden units, with the bounds that were taken from the data.
    visible_means_ : array of shape (n_features,)
        Means of the training data; absent after ``from_parameters``.
    starts_ : array of shape (n_starts, n_features)
        The last starts, from which :meth:`log_partition` and :meth:`sample` start too.
    n_iter_ : int
        Passes over the data so far.
    history_ : dict of list
        For each pass: ``epoch``, ``learning_rate``, ``time`` (s), ``pseudo_log_likelihood`` (nats
        per sample, estimated on 256 rows and 16 columns) or, if the visible units are not binary,
        ``tap_log_likelihood`` (nats per sample, of 256 rows, at the last batch's solutions),
        ``n_unconverged`` (solutions of a batch, on average), ``n_sweeps`` (mean number of sweeps)
        and, with early stopping, ``free_energy_gap`` and ``score``.
    n_features_in_ : int
        Number of features seen in fit.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of features seen in fit, if all are strings.

    See Also
    --------
    BernoulliRBM : Training by sampling.

    Notes
    -----
    The paper (Table 1) trains on binary MNIST with n_components 25, 50, 100 or 500,
    batch_size = n_starts = 100, learning_rate = 0.005, schedule = "constant", momentum = 0.5,
    alpha = 0.001, inference = ``TAP(max_iter=100, tol=1e-8)``, starts = "data" and n_iter = 100.

    References
    ----------
    .. [1] Tramel, E. W., Gabrié, M., Manoel, A., Caltagirone, F., & Krzakala, F. (2018).
       Deterministic and generalized framework for unsupervised learning with restricted Boltzmann
       machines. Physical Review X 8, 041006.

    Examples
    --------
    >>> import numpy as np
    >>> from skrbm import TAPRBM
    >>> X = np.array([[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 1]])
    >>> TAPRBM(n_components=2, random_state=0).fit(X).transform(X).shape
    (4, 2)
    """

    _parameter_constraints: ClassVar[dict] = {
        **BaseRBM._parameter_constraints,
        **DeterministicMixin._constraints,
    }

    def __init__(
        self,
        n_components=256,
        *,
        visible="bernoulli",
        hidden="bernoulli",
        inference="tap",
        starts="data",
        n_starts=None,
        learning_rate=0.1,
        batch_size=20,
        n_iter=20,
        verbose=0,
        random_state=None,
        momentum=0.5,
        alpha=0.001,
        penalty="l2",
        schedule="linear",
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
        self.visible = visible
        self.hidden = hidden
        self.inference = inference
        self.starts = starts
        self.n_starts = n_starts
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.n_iter = n_iter
        self.verbose = verbose
        self.random_state = random_state
        self.momentum = momentum
        self.alpha = alpha
        self.penalty = penalty
        self.schedule = schedule
        self.init = init
        self.shuffle = shuffle
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.warm_start = warm_start
        self.binarize = binarize

    def _method(self):
        return STARTS[self.starts](self._fixed_point())

    def _monitored(self, machine, state, bits):
        found = super()._monitored(machine, state, bits)
        if found:
            return found
        # A pseudo-likelihood of real values needs an integral for each; log Z is there already.
        precise = in_double(machine)
        solutions = map_rows(lambda leaf: cast(leaf, precise.dtype), state.solution.state)
        values = self._fixed_point().log_partition(precise, solutions)
        log_z = float(namespace(values).mean(values))
        return {
            "tap_log_likelihood": lambda machine, rows: -precise_free_energy(machine, rows) - log_z
        }
