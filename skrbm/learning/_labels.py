"""Columns of labels: their probabilities given the other columns, and learning these."""

from dataclasses import dataclass
from typing import Any

from ..arrays import cast, from_numpy, log_sum_exp, namespace
from ..machine import condition, data_moments
from ..units import log_weight


@dataclass(frozen=True)
class LabelColumns:
    """The last visible columns of a machine, which are labels.

    Sums over all values of the labels are exact: given them and the features, hidden units are
    independent (Larochelle and Bengio 2008).

    ``values`` are all values that they can have, of shape (n_values, n_columns). ``part`` is the
    weight of log p(y | x) in the objective, from 0 to 1; log p(x, y) has the remaining weight.
    """

    values: Any
    part: float = 0.0

    def log_probabilities(self, machine, X):
        """Return log p(y | x) for all values y of the labels, (n_rows, n_values), float64.

        The columns of labels of X, an array or a sparse matrix, are zeros.
        """
        xp, joint = namespace(machine.weights[0]), []
        for theta, log_label in self._given(machine, X):
            logs = cast(machine.units[1].log_partition(theta), xp.float64)
            joint.append(log_label + xp.sum(logs, axis=-1))
        joint = xp.stack(joint, axis=1)
        return joint - log_sum_exp(joint)[:, None]

    def hidden_means(self, machine, X):
        """Return E[h | x] for rows as of :meth:`log_probabilities`, of shape (n_rows, n_hidden)."""
        log_p, total = self.log_probabilities(machine, X), 0.0
        for k, (theta, _) in enumerate(self._given(machine, X)):
            p = cast(namespace(log_p).exp(log_p[:, k]), machine.dtype)
            total = total + p[:, None] * machine.units[1].mean(theta)
        return total

    def _given(self, machine, X):
        """Yield for each value of the labels the hidden units given it and X, and a log weight."""
        (W, *_), hidden, n = machine.weights, machine.units[1], X.shape[1] - self.values.shape[1]
        xp, theta = namespace(W), condition(machine, X)
        labels = cast(from_numpy(self.values, W), machine.dtype)
        fields = machine.scale * (labels @ W[:, n:].T)
        own = machine.thetas[0]._replace(joint=None)  # which labels are no part of
        logs = log_weight(own.map(lambda part: part[n:]), labels)
        for k in range(labels.shape[0]):
            yield hidden.tilt(theta, xp.broadcast_to(fields[k, :], theta.field.shape)), logs[k]

    def mixed(self, machine, model, X, observed=None):
        """Return what moments of the data are compared with, by the weight of log p(y | x).

        For log p(y | x) they are those of the same rows, with labels that the machine draws.
        ``observed`` is what is known of X; None if all is.
        """
        if not self.part:
            return model
        xp, n = namespace(X), X.shape[1] - self.values.shape[1]
        if observed is not None and not bool(xp.all(observed[:, :n])):
            raise ValueError(
                "discriminative learning needs all features of each row, and X has missing values; "
                "impute them, or set discriminative=0"
            )
        rows = xp.concat([X[:, :n], xp.zeros_like(X[:, n:])], axis=1)
        weights = xp.exp(self.log_probabilities(machine, rows)) * (self.part / X.shape[0])
        model = model.scaled(1 - self.part)
        for k in range(self.values.shape[0]):
            labels = cast(from_numpy(self.values[k, :], X), X.dtype)
            labels = xp.broadcast_to(labels, (X.shape[0], X.shape[1] - n))
            row = xp.concat([X[:, :n], labels], axis=1)
            model = model + data_moments(machine, row, weights[:, k])
        return model
