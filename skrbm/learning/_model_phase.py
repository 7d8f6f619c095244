"""The contract of a model phase, which estimates the moments of the machine in training."""

from ..machine import data_moments, precise_free_energy


class ModelPhase:
    """Computes the next state and two sets of moments from a batch of data and a state.

    The gradient of the log-likelihood is the moments of the data minus those of the machine.
    Subclasses are frozen dataclasses of hyperparameters; everything that changes from batch to
    batch is in the state, in whose arrays the first axis is that of the rows.

    Attributes
    ----------
    n_states : int or None
        Number of rows of the state; None for the size of a batch, but at least ``n_least``.
    n_least : int
    for_ranks : bool
        Whether the state can be distributed over several ranks.
    one_hidden_layer : bool
        Whether only machines with one hidden layer are supported.
    samples_model : bool
        Whether the rows in the moments of the model are samples of the model.
    remedies : dict
        What a user can do, other than train for more epochs, if the model does not match the data:
        a dict from parameters of the estimator to noun phrases about them.
    """

    n_states, n_least = None, 1
    for_ranks = True
    one_hidden_layer = samples_model = False

    @property
    def remedies(self):
        return {"n_components": "more hidden units"}

    @property
    def kind(self):
        """Layout of the state. A warm start needs a state of the same kind."""
        return (type(self),)

    def init(self, machine, rng, n, X):
        """Return the first state, with ``n`` rows; X holds visible values to start from.

        Raises ValueError if the phase does not apply to the machine.
        """
        raise NotImplementedError

    def phases(self, machine, state, X, rng):
        """Return (state, moments of the data, moments of the machine) for the batch X."""
        data = data_moments(machine, X)
        state = self.advance(machine, state, X, rng)
        return state, data, self.moments(machine, state)

    def incomplete_phases(self, machine, state, X, observed, rng):
        """Return the same as :meth:`phases` for a batch with missing values.

        The moments of the data are then conditional expectations given the observed values.
        ``observed`` is an array of bool of the shape of X, whose missing entries can be any
        numbers, such as the means of their columns.
        """
        raise ValueError(f"{type(self).__name__} does not support missing values")

    def advance(self, machine, state, X, rng):
        """Return the next state."""
        raise NotImplementedError

    def moments(self, machine, state):
        """Return the machine's expected sufficient statistics at a state."""
        raise NotImplementedError

    def visible(self, state):
        """Return the visible values of a state, of shape (n_rows, n_visible)."""
        raise NotImplementedError

    def samples(self, state):
        """Return the visible values with which the divergence of a step is measured."""
        return self.visible(state)

    def weights(self, state):
        """Return the importance weights of :meth:`samples`, which sum to 1; None if all equal."""
        return None

    def free_energy(self, machine, X):
        """Return the free energies of visible values, (n_rows,), float64.

        Automatic learning rates are determined from their changes.
        """
        return precise_free_energy(machine, X)

    def energies(self, machine, state):
        """Return the free energies of :meth:`samples` under the machine they were drawn from."""
        return self.free_energy(machine, self.samples(state))

    def step_length(self, machine):
        """Return the :class:`StepLength` for gradient ascent."""
        raise NotImplementedError

    def current_rule(self, rule, state):
        """Return the :class:`StepLength` of the next step, where ``rule`` is that of the fit."""
        return rule

    def kept(self, state):
        """Return the state to keep for a later fit, without what can be recomputed."""
        return state

    def log_partition(self, machine, state):
        """Return the log Z estimated by the phase, in nats; None if it estimates none."""
        return None

    def ladder(self, machine, state):
        """Return the :class:`~skrbm.inference.Ladder` that leads to a machine, None without one."""
        return None

    def report(self, state):
        """Return numbers about the state for the history of a fit, a dict of floats."""
        return {}
