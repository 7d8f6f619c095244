"""What growth follows of its data and of held-out samples: complete rows, or rows with holes."""

import numpy as np


class GrowthLikelihood:
    """What the mean log-weight of some rows needs: column means, and each unit's mean softplus.

    Parameters
    ----------
    rows : WeightedRows
    atoms : ndarray of shape (n_units, n_visible + 1)
        The units to begin with.
    """

    by_weight = False  # no two rows are equal

    def __init__(self, rows, atoms):
        self.rows, self.means, self.values = rows, rows.average(), rows.softplus_means(atoms)

    def complete(self, model, mixture):
        """Complete the rows by the present machine; returns whether they have changed."""
        return False

    def follow(self, new, kept):
        """Add new units, and keep some of all."""
        added = self.rows.softplus_means(np.array(new)) if new else ()
        self.values = np.append(self.values, added)[kept]

    def score(self, model, mixture, log_z):
        """Return the mean log-likelihood of the rows."""
        return float(self.means @ mixture.bias + self.values @ mixture.counts - log_z)


class IncompleteLikelihood(GrowthLikelihood):
    """The same of rows with missing values, by completed rows.

    Until these are there, ``means`` are those of what is observed.

    Parameters
    ----------
    source : IncompleteRows
    """

    by_weight = True

    def __init__(self, source):
        self.source, self.means, self.rows, self.values = source, source.average(), None, None

    def complete(self, model, mixture):
        self.rows = model.completed(mixture, self.source)
        self.means, self.values = self.rows.average(), self.rows.softplus_means(mixture.atoms)
        return True

    def follow(self, new, kept):
        """Do nothing: the next completed rows tell."""

    def score(self, model, mixture, log_z):
        """Return the mean log-likelihood of what is observed."""
        return model.observed_log_weight(mixture, self.source) - log_z
