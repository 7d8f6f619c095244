"""The public methods of density models."""

from dataclasses import replace

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from .. import evaluation
from .._checks import check_count
from .._sklearn import CallbackSupportMixin
from ..arrays import (
    cast,
    dense,
    from_numpy,
    has_missing,
    is_foreign,
    make_rng,
    namespace,
    one_blas_thread,
    row_blocks,
    take_rows,
    to_numpy,
)
from ..evaluation import Density
from ..inference import one_sweep
from ..inputs import check_rows, check_weights, columns_of
from ..machine import condition, conditional, in_double
from ._denoising import channel, denoised
from ._encoded import (
    blocks_of,
    by_blocks,
    decoded,
    encoded,
    rows_to_start,
    takes_table,
    visible_rows,
)
from ._layouts import OneLayer
from ._log_partition import checked_log_partition, solved_log_partition
from ._posterior import (
    N_STEPS,
    chains_of,
    drawn_given,
    hidden_means,
    imputed,
    sampler_given,
)
from ._shared import Estimator


def _has_one_density(estimator):
    if estimator._has_lengths:
        raise AttributeError(
            f"{type(estimator).__name__} does not have this method, since it has a density for "
            "each document length"
        )
    return True


def _learns_by_fixed_points(estimator):
    if estimator._own_fixed_point() is None:
        raise AttributeError(
            f"{type(estimator).__name__} is trained by sampling; solutions require inference by a "
            "fixed point, such as TAP"
        )
    return True


class DensityModel(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, CallbackSupportMixin, Estimator
):
    """Base of the estimators that are density models of X, however they are trained.

    ``fit`` sets the parameters, ``units_``, ``starts_`` and ``_evaluation_seed``.
    """

    _layout = OneLayer()  # of the parameters as attributes
    _takes_missing = False  # NaN for visible units that are latent
    _has_lengths = False  # rows of counts, which have a distribution given their sum

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.estimator_type = "density_estimator"
        tags.input_tags.sparse, tags.input_tags.allow_nan = True, self._takes_missing
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _new_encoder(self):
        """Return what turns a table into columns of the machine (``_encoded.py``), or None."""
        return None

    def _encode(self, X, reset=False, **options):
        """Return X checked, in the columns of the machine; all that takes X goes through this."""
        return encoded(self, X, reset, **options)

    @property
    def machine_(self):
        """The fitted parameters as a :class:`~skrbm.machine.Machine`, without copies."""
        check_is_fitted(self, "components_")
        return self._layout.machine(self)

    @property
    def density_(self):
        """The fitted model as a :class:`~skrbm.evaluation.Density`."""
        machine = in_double(self.machine_)
        starts, ladder = cast(self.starts_, machine.dtype), getattr(self, "ladder_", None)
        encode = self._encode if takes_table(self) else None
        parts = {"ladder": ladder, "encode": encode, "volume": self._log_volume}
        return Density(machine, starts, **parts, method=self._own_fixed_point())

    @property
    def _density_of_rows(self):
        """``density_`` with the sampler of rows with missing values."""
        density = self.density_
        rng = make_rng(self._evaluation_seed, density.machine.weights[0])
        return replace(density, sampler=lambda: sampler_given(self, "auto", rng))

    @property
    def _log_volume(self):
        """By how much log-densities of values of X exceed those of encoded rows, or None."""
        return self._encoder.log_volume if takes_table(self) else None

    @property
    def _n_features_out(self):
        return self.components_.shape[0]

    def _by_blocks(self, function, X, dtype):
        """Return ``function(rows)`` of blocks of X, as the machine's units take them."""
        X = visible_rows(self, X, dtype, missing=True)
        parts = [function(rows) for rows in row_blocks(X)]
        return namespace(parts[0]).concat(parts, axis=0)

    @by_blocks
    def transform(self, X):
        """Compute the expected hidden units E[h | v = X].

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            NaN is a missing value, which is summed out, if the estimator supports it
            (:ref:`missing_values`).

        Returns
        -------
        H : array of shape (n_samples, n_components)
        """
        return self._first_hidden(X)

    def _first_hidden(self, X):
        X, machine = visible_rows(self, X, missing=True), self.machine_
        theta = condition(machine, X)
        if has_missing(theta.field) and has_missing(X):  # the field is mostly smaller than X
            return hidden_means(self, X)
        return machine.units[1].mean(theta)

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
        machine = self.machine_
        H = check_rows("H", H, machine.n_units[1], machine.weights[0], "hidden")
        return self._visible(machine.units[0].mean, H)

    def _visible(self, function, H, like=None):
        """Return ``function(theta)`` of the visible units given H, as values of X."""
        machine = self.machine_
        thetas = (conditional(machine, 0, (None, h)) for h in blocks_of(self, H))
        return decoded(self, map(function, thetas), like)

    @by_blocks
    def predict(self, X):
        """Return the most probable visible configuration given E[h | v = X].

        In a deep model h is the first hidden layer. Word counts have the same sums as the rows of
        X.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Must be dense, as the result is dense; convert a large sparse X in blocks of rows.

        Returns
        -------
        V : array of shape (n_samples, n_features)
        """
        if sp.issparse(X):
            raise TypeError(
                "predict does not accept sparse X, since its result is dense; "
                "call predict(X[start:stop].toarray()) for blocks of rows"
            )
        hidden, unit = self._first_hidden(X), self.machine_.units[0]
        if self._has_lengths:
            unit = unit.of_rows(visible_rows(self, X))
        return self._visible(unit.mode, hidden, X)

    @by_blocks
    def free_energy(self, X):
        """Compute the free energy F(v) = -log sum_h exp(-E(v, h)).

        In a deep model it is estimated by ``inference``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        F : array of shape (n_samples,)
            In nats, float64; log p(v) = -F(v) - log Z.
        """
        density = self._density_of_rows
        return self._of_rows(density, density.free_energy, X) - self._log_unseen(X)

    def _of_rows(self, density, function, X):
        """Return ``function(rows, seed)`` of blocks of X in the coordinates of a density."""

        def of_rows(rows):
            with np.errstate(over="ignore"):  # to log-likelihoods of -inf
                rows = density.inward(rows)
                rows = dense(rows) if has_missing(rows) else rows
                return function(rows, self._evaluation_seed)

        return self._by_blocks(of_rows, X, density.machine.dtype)

    def score_samples(self, X):
        """Compute the log-likelihood of each sample, or a lower bound of it in a deep model.

        Samples with NaN are scored by their observed values (:ref:`missing_values`). log Z is
        computed by :meth:`log_partition` with a seed drawn in ``fit``, so repeated calls agree. In
        a deep model with more than about 10 units in every other hidden layer, the sum over the
        hidden layers is bounded from below by naive mean field, or estimated by annealing for rows
        with NaN.

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
            As in :meth:`log_partition`. If all chains miss a mode, there is no warning;
            :func:`skrbm.evaluation.bracket` may reveal it.
        """
        return self._scored(X)

    def _scored(self, X):
        return self._log_weights(X) - checked_log_partition(self, "auto", stacklevel=4).value

    @by_blocks
    def _log_weights(self, X):
        density = self._density_of_rows
        return self._of_rows(density, density.log_weight, X) + self._log_unseen(X)

    def _log_unseen(self, X):
        """Return what is added to log-probabilities of rows for values that are not encoded."""
        if not takes_table(self):
            return 0.0
        found = self._encoder.log_unseen(columns_of(self, X))
        place = self.machine_.weights[0]
        return from_numpy(found, place) if is_foreign(place) else found

    def _own_fixed_point(self):
        """Return the equations that the estimator learns by, None if it learns otherwise."""
        return None

    def score(self, X, y=None, sample_weight=None):
        """Compute the mean log-likelihood of the samples.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : Ignored
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples in the mean.

        Returns
        -------
        score : float
            In nats per sample.
        """
        scores = self._scored(X)
        if sample_weight is None:
            return float(namespace(scores).mean(scores))
        weights = check_weights(sample_weight, scores)
        return float(np.average(to_numpy(scores), weights=weights))

    @available_if(_has_one_density)
    def log_partition(self, method="auto", return_std=False):
        """Compute or estimate the log-partition function.

        The value is cached.

        Parameters
        ----------
        method : str or object, default="auto"
            "exact", which requires that one layer (in a deep model, every other layer) has at most
            about 20 units; "smc", "ais" or "tempering"; one of the fixed points "tap", "tap3",
            "adaptive_tap", "naive_mean_field", "relaxed_bp" and "bethe"; or an object such as
            ``AIS(n_chains=500)`` (:func:`skrbm.evaluation.log_partition`). "auto" is "exact" if
            possible, otherwise "tempering" after a fit with ``start="tempered"``, and "smc" after
            other fits, which refines the estimate made at the end of the fit.
        return_std : bool, default=False
            Whether to also return the standard error.

        Returns
        -------
        log_z : float
            In nats.
        std : float
            Standard error, 0 if exact and NaN if unknown. Only returned if ``return_std`` is True.

        Warns
        -----
        LikelihoodWarning
            If SMC does not reach the requested standard error (0.1 by default), or if less than 10
            % of the exchanges between two neighbouring models of a ladder are accepted.
        """
        result = checked_log_partition(self, method)
        return (result.value, result.std) if return_std else result.value

    @one_blas_thread
    def sample(
        self, n_samples=1, *, n_steps=None, init=None, given=None, method="auto", random_state=None
    ):
        """Draw samples of the visible units, each from its own Markov chain.

        Parameters
        ----------
        n_samples : int, default=1
        n_steps : int, default=None
            Number of sweeps of each chain; by default 100, or 40 if the chains start at samples of
            a ladder.
        init : array-like of shape (n_samples, n_features), default=None
            Rows at which the chains start; by default random rows of ``starts_``, or with tempering
            samples of the last rung of the ladder.
        given : array-like of shape (n_given, n_features), default=None
            Observed values, and NaN for those to be drawn given the others; ``n_samples`` is
            ignored. Files, datasets and batches are processed in blocks (:ref:`large_data`).
        method : {"auto", "gibbs", "tempering"} or Tempering, default="auto"
            Block Gibbs sampling, or :class:`skrbm.inference.Tempering` along the ladder of the fit
            or one built by annealing. "auto" is "tempering" after a fit with ``start="tempered"``,
            and in models of at most 32,768 weights whose chains do not mix; otherwise "gibbs".
            With ``given``, "auto" draws a row exactly if summing over its hidden or missing units
            takes no longer than a Gibbs chain.
        random_state : int, RandomState instance or None, default=None

        Returns
        -------
        V : array or DataFrame of shape (n_samples, n_features), or of the shape of ``given``
            Observed values of ``given`` are clipped to the range of the units.

        Warns
        -----
        ConvergenceWarning
            If ``method`` is "auto" and the chains of a larger model do not mix. This is not checked
            with ``given``.
        """
        machine = self.machine_
        check_count("n_samples", n_samples, 1)
        check_count("n_steps", n_steps, 0, or_none=True)
        if given is not None:
            options = {"n_steps": n_steps, "method": method, "random_state": random_state}
            return drawn_given(self, given, init=init, **options)
        rng = make_rng(random_state, machine.weights[0])
        if init is None:
            rows = rng.integers(self.starts_.shape[0], n_samples)[:, None]
            starts = (take_rows(self.starts_, own[:, 0]) for own in blocks_of(self, rows))
        else:
            starts = map(dense, blocks_of(self, rows_to_start(self, init, n_samples)))
        chains = chains_of(self, method, n_steps, rng, is_free=init is None)
        return decoded(self, map(chains, starts), drawn=True)

    @available_if(_has_one_density)
    @by_blocks
    @one_blas_thread
    def impute(self, X, *, n_draws=None, n_steps=None, method="auto", random_state=None):
        """Impute missing values given the observed ones.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Missing values are NaN, in tables also None or NA. Files, datasets and batches are
            processed in blocks (:ref:`large_data`).
        n_draws : int, default=None
            If given, return this many copies of X in which missing values are replaced by random
            draws (multiple imputation). By default they are replaced by their means, or by the
            most probable value in categorical columns.
        n_steps : int, default=None
            Number of sweeps of the chain of each row, by default 200, of which the second half is
            averaged; if ``inference`` is a fixed point, its maximum number of sweeps, by default
            1000.
        method : {"auto", "gibbs", "tempering"} or Tempering, default="auto"
            Kind of chains, as in :meth:`sample`. For means, "auto" solves the equations if
            ``inference`` is a fixed point. Otherwise it sums exactly over the hidden or the missing
            units of a row if that takes no longer than a Gibbs chain. Draws are exact in the same
            rows.
        random_state : int, RandomState instance or None, default=None
            Determines the chains.

        Returns
        -------
        X : array or DataFrame of shape (n_samples, n_features), or list of ``n_draws`` of them
            Observed values are clipped to the range of the units. In a DataFrame of
            :class:`TabularRBM` or :class:`CategoricalRBM`, columns have the dtypes seen in ``fit``,
            and imputed integers are rounded; values imputed in "skewed" columns are near the median
            rather than the mean.
        """
        if n_draws is not None:
            check_count("n_draws", n_draws, 1)
            rng = check_random_state(random_state)
            options = {"init": None, "method": method, "n_steps": n_steps or N_STEPS}
            return [drawn_given(self, X, random_state=rng, **options) for _ in range(n_draws)]
        blocks = imputed(self, X, method, n_steps, random_state)
        return decoded(self, blocks, X, completes=True)

    @available_if(_has_one_density)
    def gibbs(self, v, random_state=None):
        """Draw visible values by one sweep of block Gibbs sampling.

        In a deep machine, the hidden layers are first drawn given ``v`` by 100 sweeps.

        Parameters
        ----------
        v : {array-like, sparse matrix} of shape (n_samples, n_features)
            Values of the visible units to start from.
        random_state : int, RandomState instance or None, default=None
            Pass an int to get the same draw in each call.

        Returns
        -------
        v_new : array of shape (n_samples, n_features)
        """
        X, machine = visible_rows(self, v), self.machine_
        rng = make_rng(random_state, machine.weights[0])
        blocks = (one_sweep(machine, rng, dense(rows)) for rows in blocks_of(self, X))
        return decoded(self, blocks, v, drawn=True)

    @available_if(_has_one_density)
    @one_blas_thread
    def denoise(
        self,
        Y,
        *,
        flip_probability=None,
        noise_variance=None,
        substitution_probability=None,
        prior_mean=None,
        n_starts=1,
        n_steps=None,
        return_std=False,
        random_state=None,
    ):
        """Compute the posterior means of visible values that were observed with noise.

        The model serves as the prior (Sec. VII.4 of Tramel et al. 2018). If ``inference`` is a
        fixed point, its equations are solved starting from the pointwise estimate, the posterior
        means of independent units. If it is a sampler, means of bits are exact if sums over the
        hidden units take no longer than Gibbs chains; otherwise chains start at Y, which are
        tempered if :meth:`sample` tempers its chains.

        Read more in the :ref:`User Guide <denoising>`.

        Parameters
        ----------
        Y : {array-like, sparse matrix} of shape (n_samples, n_features)
            Noisy values.
        flip_probability : float in [0, 0.5], default=None
            For binary visible units: probability with which each bit was flipped.
        noise_variance : float >= 0, default=None
            For real visible units: variance of the normal noise that was added to each value.
        substitution_probability : float in [0, 1), default=None
            For categories: probability with which each value was replaced by another value of its
            column, all being equally likely. The result consists of the most probable values.
        prior_mean : array-like of shape (n_features,), default=None
            For binary visible units: means of the independent units in the pointwise estimate; by
            default ``visible_means_``.
        n_starts : int, default=1
            Number of solutions per row, which are averaged. The first one starts at the pointwise
            estimate, the others at draws from the independent units.
        n_steps : int, default=None
            Maximum number of sweeps of the equations, by default 300, or ``max_iter`` of
            ``inference`` if that is larger; or number of sweeps of the chains, by default 200, of
            which the second half is averaged.
        return_std : bool, default=False
            Whether to also return standard deviations.
        random_state : int, RandomState instance or None, default=None
            Determines the starts and the chains. Has no effect if equations are solved from a
            single start.

        Returns
        -------
        X : array of shape (n_samples, n_features)
            Posterior means; for binary units, the probabilities of a 1.
        std : array of shape (n_samples, n_features)
            Posterior standard deviations. Only returned if ``return_std`` is True.

        Raises
        ------
        ValueError
            Unless exactly one noise model is given and it is compatible with the visible units; or
            if Y has values other than 0 and 1 in binary columns.
        """
        check_is_fitted(self, "components_")
        return denoised(
            self,
            Y,
            channel(flip_probability, noise_variance, substitution_probability),
            prior_mean=prior_mean,
            n_starts=n_starts,
            n_steps=n_steps,
            return_std=return_std,
            random_state=random_state,
        )

    @available_if(_learns_by_fixed_points)
    def tap_log_likelihood(self, X, starts=None):
        """Compute the TAP log-likelihood of each sample (Eq. 39 of Tramel et al. 2018).

        log p(v) ≈ -F(v) + mean of the free energies of the distinct solutions of ``inference`` that
        are reached from ``starts``. If the model has other modes, the result is too large,
        sometimes by tens of nats; to compare models, use :meth:`score_samples`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        starts : array-like of shape (n_starts, n_features), default=None
            Visible values at which the iterations start; by default those kept from ``fit``.

        Returns
        -------
        log_likelihood : array of shape (n_samples,)
            In nats, float64.

        Warns
        -----
        LikelihoodWarning
            If the result is more than 0.1 nats too large. This is only checked if a layer is small
            enough for an exact log Z.
        """
        free_energy, method = self.free_energy(X), self._own_fixed_point()
        return -free_energy - solved_log_partition(self, method, starts)

    @available_if(_learns_by_fixed_points)
    def solutions(self, X=None, *, unique_tol=1e-2):
        """Find the distinct solutions of the mean-field equations, the modes of the model.

        The equations of ``inference`` are iterated to convergence from each row of ``X``, in
        float64, and equal solutions are merged (Sec. VII.3 of Tramel et al. 2018).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
            Values at which the iterations start, such as rows of data; by default those kept from
            ``fit``.
        unique_tol : float, default=1e-2
            Two solutions are merged if all their visible means differ by less than this, or if they
            are linked by a chain of such pairs.

        Returns
        -------
        solutions : Solutions
            Means, variances and free energies of the solutions, sorted by free energy, and which
            rows each attracts (:class:`skrbm.evaluation.Solutions`).

        Warns
        -----
        ConvergenceWarning
            If no start converges. The last states are then returned.
        """
        check_is_fitted(self)
        if X is not None and not takes_table(self):  # else evaluation does it
            X = self._encode(X)
        return evaluation.solutions(self, self._own_fixed_point(), X, unique_tol=unique_tol)
