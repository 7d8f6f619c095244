"""State of a fit between two epochs, from which another process can resume it."""

from dataclasses import dataclass, field, replace

from ._learner import Training


@dataclass(frozen=True)
class Progress:
    """What the rest of a fit depends on, after one of its epochs. Its arrays are those of the fit.

    Parameters
    ----------
    training : Training or None, default=None
        None if the fit has come to its end.
    n_epochs : int, default=0
        How many epochs of this fit are done.
    monitor : dict, default=None
        State of the monitor.
    own : dict
        What the estimator needs besides, to make the parts of the fit once more: ``rows`` tells
        rows of data from others, and ``random_state`` is what the fit began with.
    """

    training: Training | None = None
    n_epochs: int = 0
    monitor: dict | None = None
    own: dict = field(default_factory=dict)

    def begun(self, rows):
        """Return what the fit began with: its training, by its random state of that moment.

        Parameters
        ----------
        rows : str
            Fingerprint of the data.

        Returns
        -------
        Training or None
            None if the fit has come to its end.

        Raises
        ------
        ValueError
            If the data are not those of the fit.
        """
        if rows != self.own["rows"]:
            raise ValueError(
                "the interrupted fit had other data: other rows, weights or targets; give the "
                "same ones, in any order, or load the file and call fit"
            )
        return self.training and replace(self.training, rng=self.own["random_state"])
