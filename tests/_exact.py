"""Enumeration and quadrature: the truth that all tests of machines compare with.

Nothing here calls skrbm: a machine is read as a container of supports, parameters and
couplings, and everything is summed over all configurations, in float64.
"""

import itertools
from math import comb

import numpy as np
from scipy.special import gammaln, logsumexp

_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(20)

# The statistics of a unit's natural parameters, in their order.
STATISTICS = {
    "field": lambda x: x,
    "precision": lambda x: -0.5 * x**2,
    "spike": lambda x: (x != 0).astype(float),
    "absolute": np.abs,
    "skew": lambda x: -0.5 * x * np.abs(x),
}


def _support_edges(field, precision, bounds):
    """Panel edges that are fine near the places where the density can be large.

    The panels double in width away from the ends of the support and from the stationary point,
    so that exp(10000 x) on [0, 1] is resolved as well as exp(0 x).
    """
    low, high = bounds
    if not np.isfinite(low) or not np.isfinite(high):
        centre, reach = np.clip(field / precision, low, high), 14 / np.sqrt(precision)
        low = low if np.isfinite(low) else centre - reach
        high = high if np.isfinite(high) else centre + reach
    distances = (high - low) * 2.0 ** -np.arange(30)
    corners = [low, high]
    if precision != 0 and low < field / precision < high:
        corners.append(field / precision)
    edges = np.concatenate([corner + sign * distances for corner in corners for sign in (-1, 1)])
    edges = np.concatenate([edges, corners])
    return np.unique(np.clip(edges, low, high))


class Line:
    """The law exp(field * x - precision * x**2 / 2) on one interval, with an atom at 0.

    The continuous part has the factor exp(spike); ``spike=None`` means that there is no atom. On
    the whole line it may have the factor exp(absolute * |x| - skew * x |x| / 2).
    """

    def __init__(
        self,
        field,
        precision=0.0,
        bounds=(-np.inf, np.inf),
        spike=None,
        absolute=None,
        skew=None,
    ):
        if absolute is None:
            edges = _support_edges(field, precision, bounds)
        else:
            left = _support_edges(field - absolute, precision - skew, (-np.inf, 0.0))
            right = _support_edges(field + absolute, precision + skew, (0.0, np.inf))
            edges = np.concatenate([left[:-1], right])
        half = 0.5 * np.diff(edges)
        x = (edges[:-1, None] + half[:, None] * (1 + _NODES)).ravel()
        log_weights = field * x - 0.5 * precision * x**2
        if absolute is not None:
            log_weights += absolute * np.abs(x) - 0.5 * skew * x * np.abs(x)
        with np.errstate(divide="ignore"):
            log_weights += np.log((half[:, None] * _NODE_WEIGHTS).ravel())
        if spike is not None:
            x, log_weights = np.append(x, 0.0), np.append(log_weights + spike, 0.0)
        self.points, self.log_z = x, logsumexp(log_weights)
        self.probabilities = np.exp(log_weights - self.log_z)
        self.mean = self.probabilities @ x
        self.variance = self.probabilities @ (x - self.mean) ** 2
        n_nodes = x.size - (spike is not None)
        self.occupied = self.probabilities[:n_nodes].sum()
        # Nodes come panel by panel, but panels are sorted and so are their nodes.
        self._nodes = self.points[:n_nodes]
        probabilities = self.probabilities[:n_nodes] / self.occupied
        self._middle = np.cumsum(probabilities) - 0.5 * probabilities

    def cdf(self, x):
        """P(X <= x | X is not at the atom), interpolated between the nodes."""
        return np.interp(x, self._nodes, self._middle, left=0, right=1)

    def uniform(self, x, generator):
        """Numbers that are uniform on [0, 1] if x follows the law: its distribution function,
        with the jump at the atom filled at random."""
        empty = 1 - self.occupied
        below = self.occupied * self.cdf(x) + empty * (x > 0)
        return below + empty * (x == 0) * generator.random(np.shape(x))

    def sample(self, generator, size):
        x = np.interp(generator.random(size), self._middle, self._nodes)
        return np.where(generator.random(size) < self.occupied, x, 0.0)


class Counts:
    """The law base(x) exp(field * x - precision * x**2 / 2) on whole numbers."""

    def __init__(self, unit, field, precision=0.0):
        x = np.arange(unit.largest + 1.0 if type(unit).__name__ == "Binomial" else 400.0)
        log_weights = log_base(unit, x) + field * x - 0.5 * precision * x**2
        self.points, self.log_z = x, logsumexp(log_weights)
        self.probabilities = np.exp(log_weights - self.log_z)
        self.mean = self.probabilities @ x
        self.variance = self.probabilities @ (x - self.mean) ** 2

    def uniform(self, x, generator):
        """Numbers that are uniform on [0, 1] if x follows the law, with jumps filled at random."""
        ends = np.append(0.0, np.cumsum(self.probabilities))
        i = x.astype(int)
        return ends[i] + self.probabilities[i] * generator.random(i.shape)

    def sample(self, generator, size):
        return generator.choice(self.points, size, p=self.probabilities)


def log_base(unit, x):
    """The logarithm of the base measure of a kind of units at values x."""
    if type(unit).__name__ == "Binomial":
        return np.log([comb(unit.largest, int(v)) for v in np.ravel(x)]).reshape(np.shape(x))
    return -gammaln(x + 1) if type(unit).__name__ == "Poisson" else np.zeros_like(x)


def groups(unit, n):
    """The columns of each group of a layer of ``n`` columns; none if columns are independent."""
    if not hasattr(unit, "sizes"):
        return []
    sizes = (n,) if unit.sizes is None else unit.sizes
    sizes = (sizes,) * (n // sizes) if isinstance(sizes, int) else sizes
    return np.split(np.arange(n), np.cumsum(sizes)[:-1])


_MORE = {"TruncatedGaussBernoulli": ("spike",), "DoubleReLU": ("absolute", "skew")}


def kinds(unit, n):
    """The kind of each column of a layer of ``n`` columns, pairs (unit, index array)."""
    if not hasattr(unit, "parts"):
        return [(unit, np.arange(n))]
    found, start = [], 0
    for kind, columns in unit.parts:
        columns = range(start, start + columns) if isinstance(columns, int) else columns
        start += len(columns)
        found.append((kind, np.array(columns)))
    return found


def statistics_of(unit):
    """The names of the statistics of one kind of units with a precision, by its class."""
    return ("field", "precision", *_MORE.get(type(unit).__name__, ()))


class Exact:
    """All expectations of a machine with few units.

    Units with a finite support are enumerated; the others, which must not be coupled with each
    other, are integrated one by one given those. Of a group of columns exactly one is 1.

    Parameters
    ----------
    machine : Machine
        Read only for ``units`` (values, bounds, sizes, parts), ``thetas``, ``weights``, ``scale``.
    observed : array of shape (n_visible,), default=None
        Values at which visible units are held, NaN for those that are free.
    """

    def __init__(self, machine, observed=None):
        sizes = [machine.weights[0].shape[1], *(W.shape[0] for W in machine.weights)]
        self.layers = np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])
        self._read(machine, sizes)
        if observed is not None:
            for i, value in enumerate(observed):
                self.supports[i] = self.supports[i] if np.isnan(value) else (float(value),)
        self._enumerate()

    def _read(self, machine, sizes):
        n = sum(sizes)
        self.theta, self.coupling = {name: np.zeros(n) for name in STATISTICS}, np.zeros((n, n))
        self.supports, self.bounds, self.further = [None] * n, [None] * n, [()] * n
        self.kinds = [None] * n
        self.groups, self.absent = [], {name: np.zeros(n, dtype=bool) for name in STATISTICS}
        for units, layer, theta in zip(self.layers, machine.units, machine.thetas, strict=True):
            for part, name in zip(theta[:5], STATISTICS, strict=True):
                if part is not None:
                    self.theta[name][units] = np.asarray(part, dtype=np.float64)
            for kind, columns in kinds(layer, len(units)):
                present = zip(theta[:5], STATISTICS, strict=True)
                names = [name for part, name in present if part is not None]
                self._read_kind(kind, units[columns], names, kind is not layer)
        for below, above, W in zip(self.layers[:-1], self.layers[1:], machine.weights, strict=True):
            scaled = machine.scale * np.asarray(W, dtype=np.float64)
            self.coupling[np.ix_(above, below)] = scaled
            self.coupling[np.ix_(below, above)] = scaled.T

    def _read_kind(self, kind, units, names, is_part):
        if is_part:  # with zeros for what the kind does not have
            discrete = kind.values is not None or hasattr(kind, "sizes")
            discrete = discrete or type(kind).__name__ == "Poisson"
            names = ("field",) if discrete else statistics_of(kind)
            for name in set(STATISTICS) - set(names):
                self.absent[name][units], self.theta[name][units] = True, 0.0
        for i in units:
            self.supports[i], self.bounds[i], self.further[i] = kind.values, kind.bounds, names[1:]
            self.kinds[i] = kind
        for columns in groups(kind, len(units)):
            self.groups.append(units[columns])
            for i in units[columns]:
                self.supports[i] = (0.0, 1.0)

    def line(self, i, field):
        """The law of the continuous unit ``i`` in an external field."""
        others = {name: self.theta[name][i] for name in self.further[i]}
        if type(self.kinds[i]).__name__ == "Poisson":
            return Counts(self.kinds[i], self.theta["field"][i] + field)
        return Line(self.theta["field"][i] + field, bounds=self.bounds[i], **others)

    def _enumerate(self):
        n = len(self.supports)
        self.discrete = [i for i in range(n) if self.supports[i] is not None]
        self.continuous = [i for i in range(n) if self.supports[i] is None]
        assert not self.coupling[np.ix_(self.continuous, self.continuous)].any()
        x = np.array(list(itertools.product(*(self.supports[i] for i in self.discrete))))
        for columns in self.groups:
            x = x[x[:, np.isin(self.discrete, columns)].sum(axis=1) == 1]
        J = self.coupling[np.ix_(self.discrete, self.discrete)]
        own = (f(x) @ self.theta[name][self.discrete] for name, f in STATISTICS.items())
        own = [*own, *(log_base(self.kinds[i], x[:, k]) for k, i in enumerate(self.discrete))]
        log_weights = sum(own) + 0.5 * np.einsum("ci,ij,cj->c", x, J, x)
        self.expected = {name: np.zeros((len(x), n)) for name in STATISTICS}
        for name, function in STATISTICS.items():
            self.expected[name][:, self.discrete] = function(x)
        self.values = self.expected["field"]
        for i in self.continuous:
            fields = x @ self.coupling[self.discrete, i]
            distinct, where = np.unique(fields, return_inverse=True)
            lines = [self.line(i, field) for field in distinct]
            log_weights += np.array([line.log_z for line in lines])[where]
            for name, function in STATISTICS.items():
                means = np.array([line.probabilities @ function(line.points) for line in lines])
                self.expected[name][:, i] = means[where]
        self.log_z = float(logsumexp(log_weights))
        self.probabilities = np.exp(log_weights - self.log_z)

    def mean(self, l):
        """E[x_l], of shape (n_units[l],)."""
        return self.probabilities @ self.values[:, self.layers[l]]

    def second(self, l):
        """E[x_l ** 2], of shape (n_units[l],)."""
        return -2 * self.probabilities @ self.expected["precision"][:, self.layers[l]]

    def statistic(self, name, l):
        """The expected statistic that a natural parameter belongs to, of shape (n_units[l],)."""
        found = self.probabilities @ self.expected[name][:, self.layers[l]]
        return np.where(self.absent[name][self.layers[l]], 0.0, found)

    def occupancy(self, l):
        """P[x_l != 0], of shape (n_units[l],)."""
        return self.statistic("spike", l)

    def variance(self, l):
        return self.second(l) - self.mean(l) ** 2

    def pair(self, l):
        """E[x_{l+1} x_l'], of shape (n_units[l + 1], n_units[l])."""
        above, below = self.values[:, self.layers[l + 1]], self.values[:, self.layers[l]]
        return (self.probabilities[:, None] * above).T @ below

    def layer_law(self, l):
        """The configurations of a discrete layer and their probabilities."""
        rows, where = np.unique(self.values[:, self.layers[l]], axis=0, return_inverse=True)
        return rows, np.bincount(where.ravel(), weights=self.probabilities)

    def sample(self, generator, size):
        """Draw configurations; returns an array of shape (size, n_units[l]) for each layer."""
        index = generator.choice(len(self.probabilities), size, p=self.probabilities)
        x = self.values[index]
        for i in self.continuous:
            fields = x[:, self.discrete] @ self.coupling[self.discrete, i]
            for field in np.unique(fields):
                rows = np.flatnonzero(fields == field)
                x[rows, i] = self.line(i, field).sample(generator, rows.size)
        return [x[:, layer] for layer in self.layers]

    def uniform(self, i, x, generator):
        """Numbers that are uniform on [0, 1] if x follows the law of the continuous unit ``i``."""
        fields = self.values[:, self.discrete] @ self.coupling[self.discrete, i]
        distinct, where = np.unique(fields, return_inverse=True)
        weights = np.bincount(where, weights=self.probabilities)
        # The same random numbers for each of the laws, or their mean would not be uniform.
        state = generator.integers(2**32)
        return sum(
            w * self.line(i, field).uniform(x, np.random.default_rng(state))
            for w, field in zip(weights, distinct, strict=True)
        )


def clamped(machine, X):
    """The oracle with all visible units held, for each row of X."""
    return [Exact(machine, observed=row) for row in np.asarray(X, dtype=np.float64)]


def free_energy(machine, X):
    """-log sum_h exp(-energy(x, h)) for each row."""
    return np.array([-exact.log_z for exact in clamped(machine, X)])


def log_likelihood(machine, X):
    """log p(x) for each row."""
    return -free_energy(machine, X) - Exact(machine).log_z
