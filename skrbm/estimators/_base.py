"""The public methods that all machines share, and those of machines with one hidden layer."""

import warnings
from dataclasses import asdict, is_dataclass

import joblib
import numpy as np
import scipy.sparse as sp
from sklearn.base import ClassNamePrefixFeaturesOutMixin, DensityMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from .. import evaluation
from .._checks import check_count
from .._training import TrainedByMoments, Training
from ..arrays import cast, make_rng, namespace, one_blas_thread, seed_sequence, to_numpy
from ..exceptions import DivergenceError, LikelihoodWarning
from ..inference import AIS, FIXED_POINTS, Gibbs, clamped_mean, sample
from ..inputs import (
    THETA_ATTRIBUTES,
    check_data,
    check_held,
    check_rows,
    into_support,
    machine_from,
    warn_clipped,
)
from ..machine import Machine, condition, conditional, precise_free_energy
from ..units import Theta

_MOST_ADOPTED = 1000  # chains of a machine of given parameters
_LEAST_ESS = 0.1  # part of the annealed chains, below which a score warns
MOST_APART = 1.0  # nats between log Z by sampling and by TAP, above which a score warns


class DensityMachine(ClassNamePrefixFeaturesOutMixin, TransformerMixin, DensityMixin):
    """What fitted machines do that are density models of X, however they learn.

    A subclass gives ``machine_``, ``starts_``, ``binarize``, ``transform``, ``free_energy``,
    ``impute``, ``_evaluation_seed`` and ``_first_hidden``, the means of the first hidden layer
    given X.
    """

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _visible(self, X):
        """Return (machine, X) for a public method: X checked, as the machine's units take it."""
        machine, X = self.machine_, check_data(self, X)
        warn_clipped(X, machine.units[0])
        X = into_support(X, machine.units[0], self.binarize)
        check_held(X, machine.dtype)
        return machine, X.astype(machine.dtype) if sp.issparse(X) else cast(X, machine.dtype)

    def predict(self, X):
        """Return the most probable visible configuration given E[h | v = X].

        In a deep machine h is the first hidden layer, which the visible one depends on.

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
        hidden, machine = self._first_hidden(X), self.machine_
        return machine.units[0].mode(conditional(machine, 0, (None, hidden)))

    def score_samples(self, X):
        """Compute the log-likelihood of each sample.

        It depends on the parameters and the sample alone: log Z is computed on first use,
        exactly if one layer has at most 20 units, and otherwise by annealed importance sampling
        with a seed and starts that were drawn in ``fit``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        log_likelihood : array of shape (n_samples,)
            In nats, float64.

        Warns
        -----
        LikelihoodWarning
            If fewer than a tenth of the annealed chains are effective, or if one solution of TAP
            alone stands for a log Z that is larger by more than a nat: the estimate is then most
            likely too small, and the score too good. Not every wrong log Z is noticed so, as where
            weights are strong all chains and all starts may miss the same mode.
        """
        log_weights = self._log_weights(X)  # which refuses an X that is none
        estimate = self._log_partition("auto")
        doubts = self._of_parameters("doubts", lambda: self._doubts(estimate))
        if doubts:
            warnings.warn(
                f"the score rests on log Z = {estimate.value:.2f} by annealed importance sampling "
                f"(standard error {estimate.std:.2f}, {estimate.ess:.1f} of {AIS().n_chains} "
                f"chains effective), which is uncertain: {'; and '.join(doubts)}. Compare "
                "log_partition(AIS(schedule=10_000)) and skrbm.evaluation.reverse_log_partition: "
                "a log Z that is larger by some nats makes all scores worse by as much",
                LikelihoodWarning,
                stacklevel=3,
            )
        return log_weights - estimate.value

    def _log_weights(self, X):
        """Return log p(v) + log Z of each row, or a lower bound of it."""
        return -self.free_energy(X)

    def _doubts(self, estimate):
        """Return what speaks against an estimate of log Z, a list of half sentences."""
        if estimate.std == 0:  # exact
            return []
        doubts, solved = [], self._solved_log_partitions()
        if estimate.ess < _LEAST_ESS * AIS().n_chains:
            doubts.append("so few effective chains may all have missed the same modes")
        if solved is not None and max(solved) > estimate.value + MOST_APART:
            doubts.append(
                f"one solution of {self._approximation()} alone stands for {max(solved):.2f}, so "
                "that the chains have missed its mode, or weights are too large for these equations"
            )
        return doubts

    def _approximation(self):
        """Return the fixed point that estimates of log Z are held against."""
        return FIXED_POINTS["tap"]

    def _solved_log_partitions(self):
        """Return log Z by each solution that the starts of fit lead to, None if there are none."""

        def solved():
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    return -evaluation.solutions(self, self._approximation()).free_energies
            except (DivergenceError, ValueError):  # the method does not apply to these units
                return None

        return self._of_parameters("solved", solved)

    def score(self, X, y=None):
        """Compute the mean log-likelihood of the samples.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : Ignored

        Returns
        -------
        score : float
            In nats per sample.
        """
        scores = self.score_samples(X)
        return float(namespace(scores).mean(scores))

    def log_partition(self, method="auto", return_std=False):
        """Compute or estimate the log-partition function.

        The value is kept with the parameters it belongs to.

        Parameters
        ----------
        method : str or object, default="auto"
            "exact" (one layer of at most 20 units), "ais", "tap", "tap3", "adaptive_tap",
            "naive_mean_field", "relaxed_bp", "bethe" (of belief propagation), or an object such as
            ``AIS(n_chains=500)`` or ``TAP(order=3)``; see :func:`skrbm.evaluation.log_partition`.
            "auto" is "exact" where that is possible, and "ais" elsewhere.
        return_std : bool, default=False
            Whether to return the standard error too.

        Returns
        -------
        log_z : float
            In nats.
        std : float
            Only if ``return_std``: 0 where exact, NaN where it is not known.
        """
        result = self._log_partition(method)
        return (result.value, result.std) if return_std else result.value

    def _log_partition(self, method):
        """Return a :class:`~skrbm.evaluation.LogPartition`, which is kept."""

        def estimate():
            seed = self._evaluation_seed
            seed = np.random.SeedSequence(seed.entropy, spawn_key=seed.spawn_key)
            return evaluation.log_partition(self, method, random_state=seed)

        return self._of_parameters(_method_key(method), estimate)

    def _of_parameters(self, name, function):
        """Return ``function()``, which is kept with the parameters that it belongs to."""
        machine = self.machine_
        thetas = (part for theta in machine.thetas for part in theta if part is not None)
        parts = (*machine.weights, self.starts_, *thetas)
        values = [*(to_numpy(part) for part in parts), machine.units]
        key = joblib.hash(values), name
        known = self.__dict__.setdefault("_log_partitions", {})
        if key not in known:
            for stale in [old for old in known if old[0] != key[0]]:
                del known[stale]
            known[key] = function()
        return known[key]

    def _evaluated(self):
        """Return the estimator that energies and log Z are of: this one, or a more precise copy."""
        return self

    @one_blas_thread
    def sample(self, n_samples=1, *, n_steps=100, init=None, random_state=None):
        """Draw visible configurations by block Gibbs sampling, a chain for each.

        Parameters
        ----------
        n_samples : int, default=1
        n_steps : int, default=100
            Sweeps of each chain.
        init : array-like of shape (n_samples, n_features), default=None
            Where the chains start; default: random rows of ``starts_``, which were kept in fit.
        random_state : int, RandomState instance or None, default=None

        Returns
        -------
        V : array of shape (n_samples, n_features)
        """
        machine = self.machine_
        check_count("n_samples", n_samples, 1)
        check_count("n_steps", n_steps, 0)
        rng = make_rng(random_state, machine.weights[0])
        if init is None:
            rows = rng.integers(self.starts_.shape[0], n_samples)
            init = namespace(rows).take(self.starts_, rows, axis=0)
        else:
            _, init = self._visible(init)
            if init.shape[0] != n_samples:
                raise ValueError(f"init has {init.shape[0]} rows, but n_samples={n_samples}")
            init = init.toarray() if sp.issparse(init) else init
        if n_steps == 0:
            return namespace(init).asarray(init, copy=True)
        chains = Gibbs().start(machine, init, rng)
        return sample(Gibbs(), machine, chains, rng, n_steps).layers[0]

    def _split_missing(self, X):
        """Return (machine, X filled with the visible means, which entries are observed)."""
        machine, X = self.machine_, check_data(self, X, missing=True)
        xp = namespace(X)
        observed = X == X  # all but NaN, which a threshold would hide
        X = into_support(X, machine.units[0], self.binarize)
        check_held(xp.where(observed, X, xp.zeros_like(X)), machine.dtype)
        X = cast(X, machine.dtype)
        means = machine.units[0].mean(machine.thetas[0])
        return machine, xp.where(observed, X, xp.broadcast_to(means, X.shape)), observed


class BaseMachine(DensityMachine, TrainedByMoments):
    """Base of the machines that learn by moment matching, which says what a subclass gives."""

    @one_blas_thread
    def _adopted(self, machine):
        """Return self, fitted as far as the parameters of a machine go."""
        seed = seed_sequence(self.random_state)
        self._evaluation_seed, seed = seed.spawn(2)
        rng = make_rng(seed, machine.weights[0])
        n, method = self._n_states(_MOST_ADOPTED), self._method()
        chains = Gibbs().init(machine, rng, n, machine.weights[0])
        rows = sample(Gibbs(), machine, chains, rng, 100).layers[0]
        state = method.init(machine, rng, n, rows)
        self.n_features_in_ = machine.n_units[0]
        self.history_ = {}
        self._publish(machine, state, Training(rng, state, method=method))
        self.starts_ = rows
        return self


class OneHiddenLayer(DensityMachine):
    """What machines with one hidden layer do."""

    @property
    def _n_features_out(self):
        return self.components_.shape[0]

    @property
    def machine_(self):
        """The fitted parameters as a machine, which shares their memory."""
        check_is_fitted(self, "components_")
        parts = [getattr(self, name, None) for name in THETA_ATTRIBUTES]
        thetas = (Theta(*parts[:3]), Theta(*parts[3:]))
        return Machine(self.units_, thetas, (self.components_,))

    def _hidden(self, H):
        machine = self.machine_
        return machine, check_rows("H", H, machine.n_units[1], machine.weights[0])

    def transform(self, X):
        """Compute the expected hidden units E[h | v = X].

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        H : array of shape (n_samples, n_components)
        """
        return self._first_hidden(X)

    def _first_hidden(self, X):
        machine, X = self._visible(X)
        return machine.units[1].mean(condition(machine, X))

    def inverse_transform(self, H):
        """Compute the expected visible units E[v | h = H].

        Parameters
        ----------
        H : array-like of shape (n_samples, n_components)
            Values of the hidden units, such as those from :meth:`transform`.

        Returns
        -------
        X : array of shape (n_samples, n_features)
        """
        machine, H = self._hidden(H)
        return machine.units[0].mean(conditional(machine, 0, (None, H)))

    def free_energy(self, X):
        """Compute the free energy F(v) = -log sum_h exp(-E(v, h)).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        F : array of shape (n_samples,)
            In nats, float64; log p(v) = -F(v) - log Z.
        """
        return self._free_energies(*self._evaluated()._visible(X))

    def _free_energies(self, machine, X):
        """Return those of rows that were checked, by the machine that is evaluated."""
        return precise_free_energy(machine, X)

    def gibbs(self, v, random_state=None):
        """Draw new visible values by one sweep of block Gibbs sampling.

        Parameters
        ----------
        v : {array-like, sparse matrix} of shape (n_samples, n_features)
            Values of the visible units to start from.
        random_state : int, RandomState instance or None, default=None
            With an int, the same noise in each call.

        Returns
        -------
        v_new : array of shape (n_samples, n_features)
        """
        machine, X = self._visible(v)
        rng = make_rng(random_state, machine.weights[0])
        X = X.toarray() if sp.issparse(X) else X
        return sample(Gibbs(), machine, Gibbs().start(machine, X, rng), rng, 1).layers[0]


class GibbsImputation:
    """Imputation by Gibbs sampling."""

    @one_blas_thread
    def impute(self, X, *, n_steps=200, random_state=None):
        """Fill missing values with their means given the observed ones, by Gibbs sampling.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            NaN marks what is missing.
        n_steps : int, default=200
            Sweeps of the chain of each row, of which the later half is averaged.
        random_state : int, RandomState instance or None, default=None

        Returns
        -------
        X : array of shape (n_samples, n_features)
            Observed entries as the units take them (those of binary units clipped to [0, 1], or
            thresholded by ``binarize``), missing ones E[v_i | observed].
        """
        check_count("n_steps", n_steps, 1)
        machine, X, observed = self._split_missing(X)
        rng = make_rng(random_state, machine.weights[0])
        return clamped_mean(machine, X, observed, rng, n_steps)


class BaseRBM(OneHiddenLayer, BaseMachine):
    """Base of the restricted Boltzmann machines that learn by moment matching.

    A subclass gives ``impute``.
    """

    @classmethod
    def from_parameters(cls, components, intercept_hidden=None, intercept_visible=None, **params):
        """Build a fitted machine from arrays.

        Parameters
        ----------
        components : array-like of shape (n_components, n_features), or fitted estimator
            Weights; or a machine of which all arrays are taken, such as a fitted
            :class:`sklearn.neural_network.BernoulliRBM`.
        intercept_hidden : array-like of shape (n_components,), default=None
            Biases of the hidden units; default: zeros.
        intercept_visible : array-like of shape (n_features,), default=None
            Biases of the visible units; default: zeros.
        **params
            Parameters of the estimator other than ``n_components``. Where its units have more
            parameters than a bias, arrays ``precision_visible``, ``spike_visible``,
            ``precision_hidden`` and ``spike_hidden`` beside; default: those of units that know no
            data. Bounds that are not given are those of a fitted machine with the same kind of
            units, else [-1, 1] or, with a point mass, [0, 1].

        Returns
        -------
        estimator : object
            Fitted, with copies of the arrays.
        """
        names = [name.rstrip("_") for name in THETA_ATTRIBUTES if name.rstrip("_") in params]
        more = {name: params.pop(name) for name in names}
        rbm = cls(**params)
        units = rbm._units()
        kept = getattr(components, "units_", units)  # bounds that were taken from data
        units = tuple(
            unit.fitted(np.array([old.bounds]) if type(old) is type(unit) else None)
            for unit, old in zip(units, kept, strict=True)
        )
        machine = machine_from(components, intercept_hidden, intercept_visible, units, **more)
        rbm.n_components = machine.n_units[1]
        rbm._validate_params()
        return rbm._adopted(machine)


def _method_key(method):
    """Return what tells a method of evaluation from others; the text of arrays is shortened."""
    if not is_dataclass(method) or isinstance(method, type):
        return repr(method)
    return joblib.hash((type(method).__qualname__, asdict(method)))
