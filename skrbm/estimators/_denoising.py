"""Denoising by the posterior of a machine, for estimators that know fixed points."""

import itertools
from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from .._checks import check_count
from ..arrays import cast, is_foreign, make_rng, namespace, one_blas_thread, row_blocks
from ..inference import channel, posterior_moments
from ..inputs import check_data, check_rows

_BLOCK_ROWS, _N_SWEEPS, _DAMPING = 1024, 300, 0.7


class Denoising:
    """The method ``denoise``, for estimators with ``_fixed_point()`` and ``machine_``."""

    @one_blas_thread
    def denoise(
        self,
        Y,
        *,
        flip_probability=None,
        noise_variance=None,
        prior_mean=None,
        n_starts=1,
        return_std=False,
        random_state=None,
    ):
        """Compute the posterior means of visible values that were observed with noise.

        The machine is the prior, and what is observed adds a field and a precision to each visible
        unit (Sec. VII.4 of Tramel et al. 2018). The equations of ``inference`` are solved with
        them, from the pointwise estimate: the posterior means of independent units.

        Read more in the :ref:`User Guide <denoising>`.

        Parameters
        ----------
        Y : {array-like, sparse matrix} of shape (n_samples, n_features)
            Noisy values.
        flip_probability : float in [0, 0.5], default=None
            For binary visible units: probability with which each bit was flipped. With 0 the
            result is Y.
        noise_variance : float >= 0, default=None
            For real visible units: variance of the normal noise that was added to each value, and
            that may have taken it out of their bounds. With 0 the result is Y.
        prior_mean : array-like of shape (n_features,), default=None
            For binary visible units: means of the independent units of the pointwise estimate;
            default: ``visible_means_``, or without them those of the machine without couplings.
            Real units are started from their law without couplings.
        n_starts : int, default=1
            Number of solutions for each row, whose posteriors are averaged. The first starts at
            the pointwise estimate, the others at draws from the independent units.
        return_std : bool, default=False
            Whether to return standard deviations too.
        random_state : int, RandomState instance or None, default=None
            Determines the draws; a single start needs none.

        Returns
        -------
        X : array of shape (n_samples, n_features)
            Posterior means; of binary units, the probabilities of 1.
        std : array of shape (n_samples, n_features)
            Only if ``return_std``: posterior standard deviations.

        Raises
        ------
        ValueError
            If not one of ``flip_probability`` and ``noise_variance`` is given, if it is not for the
            kind of visible units, or if Y has bits other than 0 and 1.
        """
        noise = channel(flip_probability, noise_variance)
        check_count("n_starts", n_starts, 1)
        machine, Y = self._noisy(Y, noise)
        prior = noise.prior(machine, self._prior_mean(machine, prior_mean, noise))
        if noise.is_clean:
            mean, variance = Y, namespace(Y).zeros_like(Y)
        else:
            mean, variance = self._posterior(machine, Y, noise, prior, n_starts, random_state)
        return (mean, namespace(variance).sqrt(variance)) if return_std else mean

    def _noisy(self, Y, noise):
        """Return (machine, Y): a dense copy of Y that can have come through the channel."""
        machine, Y = self.machine_, check_data(self, Y, missing=not sp.issparse(Y))
        if not sp.issparse(Y) and not bool(namespace(Y).all(Y == Y)):
            raise ValueError("Y contains NaN; denoise takes complete rows, impute fills others")
        Y = Y.toarray() if sp.issparse(Y) else Y
        unit = machine.units[0]
        if unit.values is not None and self.binarize is not None:
            Y = Y > self.binarize
        noise.check(unit, Y)
        copy = namespace(Y).asarray(Y, copy=True)
        return machine, cast(copy, machine.dtype)

    def _prior_mean(self, machine, given, noise):
        """Return the visible means of the pointwise estimate, of shape (n_features,)."""
        if given is None:
            kept = getattr(self, "visible_means_", None)
            return machine.units[0].mean(machine.thetas[0]) if kept is None else kept
        given = given if is_foreign(given) else np.asarray(given)
        if given.ndim != 1:
            raise ValueError(f"prior_mean must have 1 dimension, got {given.ndim}")
        row = given[None, :]
        mean = check_rows("prior_mean", row, machine.n_units[0], machine.weights[0])[0, :]
        noise.check_mean(mean)
        return mean

    def _posterior(self, machine, Y, noise, prior, n_starts, random_state):
        """Return means and variances of the visible units, block by block of rows."""
        method = self._fixed_point()
        # At strong noise the plain sweeps often go round in circles; most damped ones do not, and
        # move less far each, which the tolerance takes into account.
        damping = max(method.damping, _DAMPING)
        tol = method.tol * ((1 - damping) / (1 - method.damping)) ** 2
        method = replace(method, damping=damping, tol=tol)
        n_sweeps = max(method.max_iter, _N_SWEEPS)
        rng = make_rng(random_state, machine.weights[0])
        unit, blocks = machine.units[0], []
        for rows in row_blocks(Y, _BLOCK_ROWS):
            evidence = noise.evidence(rows)
            independent = unit.tilt(prior, *evidence)
            draws = (unit.sample(independent, rng) for _ in range(n_starts - 1))
            starts = itertools.chain([unit.mean(independent)], draws)
            tilted = machine.tilted(0, *evidence)
            blocks.append(posterior_moments(method, tilted, starts, n_sweeps))
        return tuple(namespace(Y).concat(parts, axis=0) for parts in zip(*blocks, strict=True))
