"""The contract of the model phase in learning."""

from ..machine import data_moments


class Method:
    """How learning finds the moments of the machine: the model phase.

    ``init`` makes the first state. ``phases`` takes a batch of data and a state, and returns the
    next state and the two sets of moments whose difference is the gradient.
    """

    @property
    def kind(self):
        """Layout of the state; a warm start reuses a state only for an equal kind."""
        return (type(self),)

    def init(self, machine, rng, n, X):
        """Return the first state, with ``n`` rows; X holds rows of data to start from."""
        raise NotImplementedError

    def phases(self, machine, state, X, rng):
        """Return (state, data moments, model moments) for the batch X."""
        data = data_moments(machine, X)
        state = self.advance(machine, state, X, rng)
        return state, data, self.moments(machine, state)

    def advance(self, machine, state, X, rng):
        """Return the next state."""
        raise NotImplementedError

    def moments(self, machine, state):
        """Return the machine's expected sufficient statistics at a state."""
        raise NotImplementedError

    def visible(self, state):
        """Return the visible values of a state, of shape (n_rows, n_visible)."""
        raise NotImplementedError

    def kept(self, state):
        """Return the part of the state that a later fit needs; the rest can be computed again."""
        return state

    def report(self, state):
        """Return numbers about the state for the history of a fit, a dict of floats."""
        return {}
