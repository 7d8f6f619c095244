"""Parameters, lengths and likelihoods of machines of counts."""

import math
import warnings
from dataclasses import replace

import numpy as np

from ..arrays import from_numpy, make_rng, namespace, to_numpy
from ..evaluation import Density
from ..evaluation._lengths import length_partitions
from ..exceptions import LikelihoodWarning
from ..machine import in_double, precise_free_energy
from ..units import Multinomial, Theta
from ._blocks import by_blocks
from ._log_partition import kept_with_parameters

_PER_WORD = 0.01  # standard error of log Z, in nats, that is a percent of the perplexity


class CountLikelihoods:
    """The likelihoods of rows of counts given their sums, the methods of an estimator."""

    def density(self, length):
        """Return the distribution of documents of one length.

        Parameters
        ----------
        length : int
            Number of words.

        Returns
        -------
        density : :class:`~skrbm.evaluation.Density`
            What the functions of :mod:`skrbm.evaluation` take.
        """
        machine = in_double(self.machine_)
        return Density(replace(machine, units=(Multinomial(length), machine.units[1])))

    def log_partitions(self, lengths, return_std=False):
        """Compute or estimate the log-partition function for documents of some lengths.

        It is exact for at most 12 hidden units. Otherwise 256 chains, as 8 independent runs with
        resampling, go from documents of one word, which are drawn exactly, to longer and longer
        ones: each step is an importance weight and a draw of each hidden unit given the others,
        with the words summed out. All lengths are on the way, so that one run serves all of them.
        The value is kept, for the same parameters, as long as the process runs.

        Parameters
        ----------
        lengths : float or array-like of shape (n_lengths,)
            Numbers of words.
        return_std : bool, default=False
            Whether to return the standard error too.

        Returns
        -------
        log_z : float or ndarray of shape (n_lengths,)
            In nats.
        std : float or ndarray of shape (n_lengths,)
            Only if ``return_std``: 0 where exact.
        """
        machine = self.machine_
        asked = checked_lengths(lengths)
        # Few different ends, so that what is kept serves most calls.
        longest = 2 ** math.ceil(math.log2(max(asked.max(initial=1), 1)))

        def estimate():
            rng = make_rng(self._evaluation_seed, np.empty(0))
            return length_partitions(machine, rng, longest)

        found = kept_with_parameters(self, ("lengths", longest), estimate)
        distinct, places = np.unique(asked, return_inverse=True)
        values, std = (part[places].reshape(asked.shape)[()] for part in found.at(distinct))
        return (values, std) if return_std else values

    def score_samples(self, X):
        """Compute the log-likelihood of each document: of its words in their order, given D.

        It is log p(v | D) without the multinomial coefficient, which is the number of orders. It
        depends on the parameters and the document alone. log Z is that of :meth:`log_partitions`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts.

        Returns
        -------
        log_likelihood : array of shape (n_samples,)
            In nats, float64; 0 for a document without words.

        Warns
        -----
        LikelihoodWarning
            If the standard error of log Z is larger than 0.1 nats and than 0.01 nats per word.
        """
        return self._scored(X)

    @by_blocks
    def _scored(self, X):
        machine = in_double(self.machine_)

        def of_rows(rows):
            lengths = to_numpy(machine.units[0].totals(rows))
            log_z, std = self.log_partitions(lengths, return_std=True)
            warn_uncertain(lengths, std)
            return -precise_free_energy(machine, rows) - from_numpy(log_z, machine.weights[0])

        return self._by_blocks(of_rows, X, machine.dtype)

    def perplexity(self, X, average="words"):
        """Compute the perplexity per word: exp of minus the mean log-likelihood of a word.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts of held-out documents.
        average : {"words", "documents"}, default="words"
            Over all words, as of
            :meth:`sklearn.decomposition.LatentDirichletAllocation.perplexity`; or over the words of
            each document and then over documents, as Salakhutdinov and Hinton (2009) do. Documents
            without words do not count.

        Returns
        -------
        perplexity : float
        """
        if average not in ("words", "documents"):
            raise ValueError(f'average must be "words" or "documents", got {average!r}')
        scores = to_numpy(self._scored(X))
        double = namespace(self.components_).float64
        lengths = to_numpy(self._by_blocks(Multinomial().totals, X, double))
        if not lengths.any():
            raise ValueError("X has no words")
        if average == "words":
            return float(np.exp(-scores.sum() / lengths.sum()))
        known = lengths > 0
        return float(np.exp(-np.mean(scores[known] / lengths[known])))


def with_biases_in_weights(machine):
    """Return the machine with hidden biases, of each word, as a part of its weights."""
    own, hidden = machine.thetas
    weights = machine.weights[0] + hidden.field[:, None]
    return replace(machine, thetas=(own, Theta(0 * hidden.field)), weights=(weights,))


def warn_uncertain(lengths, std):
    """Warn if log Z has a large standard error at some of the lengths."""
    unsure = std > np.maximum(0.1, _PER_WORD * lengths)
    if unsure.any():
        warnings.warn(
            f"log Z is uncertain for documents of {lengths[unsure].min():.0f} words and more: its "
            f"standard error is up to {std[unsure].max():.2f} nats. Chains mix better after "
            "training with a smaller learning_rate or a larger alpha; fewer hidden units than 13 "
            "are summed over exactly",
            LikelihoodWarning,
            stacklevel=5,
        )


def checked_lengths(lengths):
    """Return one number of words or several, float64; ValueError if they are none."""
    try:
        found = np.asarray(lengths, dtype=np.float64)
    except (TypeError, ValueError):
        found = np.array(np.nan)
    if found.ndim > 1 or not found.size or not (np.isfinite(found) & (found >= 0)).all():
        raise ValueError(f"lengths must be one or several numbers >= 0, got {lengths!r}")
    return found


def with_lengths(machine, lengths, n_samples, starts, rng):
    """Return the machine whose rows have given numbers of words, or those of random starts."""
    if lengths is None:
        kept = to_numpy(machine.units[0].totals(starts))
        lengths = kept[to_numpy(rng.integers(len(kept), n_samples))]
    lengths = checked_lengths(lengths)
    lengths = np.full(n_samples, lengths) if lengths.ndim == 0 else lengths
    unit = Multinomial(from_numpy(lengths, machine.weights[0]))
    return replace(machine, units=(unit, machine.units[1]))
