"""Random numbers in the array library, device and dtype of the machine.

Draws have the same distribution in every library, but not the same numbers.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np
from scipy import special
from sklearn.utils import check_random_state

from ._namespace import Array, cast, from_numpy, is_foreign, like, namespace, to_numpy, torch_of

Shape: TypeAlias = tuple[int, ...]

_MOST_DRAWS = 1e9  # of one row, 8 bytes each
_FEW = 800  # bits, for which NumPy's own uniform numbers take less time


def seed_sequence(random_state: Any) -> np.random.SeedSequence:
    """Return a SeedSequence drawn from a scikit-learn ``random_state``.

    Of a SeedSequence, or of its ``state``, it returns a copy, from which nothing was spawned.
    """
    state = random_state.state if hasattr(random_state, "spawn_key") else random_state
    if isinstance(state, dict) and state.keys() >= {"entropy", "spawn_key"}:
        return np.random.SeedSequence(state["entropy"], spawn_key=state["spawn_key"])
    words = check_random_state(random_state).randint(0, 2**32, size=4, dtype=np.uint32)
    return np.random.SeedSequence([int(word) for word in words])


class Rng:
    """Stream of random arrays; NumPy's own, and the base for the other libraries.

    Parameters
    ----------
    seed : numpy.random.SeedSequence
        Where the stream starts.
    reference : array
        An array whose library, dtype and device the draws have; only an empty one is kept.
    """

    def __init__(self, seed: np.random.SeedSequence, reference: Array) -> None:
        self._seed = seed
        self._reference = namespace(reference).empty(0, **like(reference))
        self._generator = np.random.Generator(np.random.SFC64(seed))

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_seed": self._seed.state}  # plain values, as skops needs them

    def __setstate__(self, state: dict[str, Any]) -> None:
        seed = state["_seed"]
        self.__dict__.update(state)
        self._seed = np.random.SeedSequence(**seed) if isinstance(seed, dict) else seed

    def uniform(self, shape: Shape) -> Array:
        """Draw from the uniform distribution on [0, 1)."""
        return self._generator.random(shape, dtype=self._reference.dtype)

    def normal(self, shape: Shape) -> Array:
        """Draw from the standard normal distribution."""
        return self._generator.standard_normal(shape, dtype=self._reference.dtype)

    def bits(self, mean: Array) -> Array:
        """Draw 1 with the probabilities ``mean``, else 0, in its dtype."""
        if mean.size < _FEW:
            noise = self.uniform(mean.shape)
        else:  # 32 random bits as a float take half of the time, but more calls
            raw = self._generator.bit_generator.random_raw((mean.size + 1) // 2).view(np.uint32)
            noise = raw[: mean.size].astype(mean.dtype).reshape(mean.shape)
            noise *= 2.0**-32  # in place, since large arrays need new pages
        return (noise < mean).astype(noise.dtype)

    def order(self, n: int) -> np.ndarray:
        """Return a random order of ``range(n)``, a NumPy array whatever the library."""
        return self._generator.permutation(n)

    def permutation(self, n: int) -> Array:
        """Return a random order of ``range(n)``, an index array of the same library."""
        return from_numpy(self.order(n), self._reference)

    def choice(self, high: int, n: int) -> Array:
        """Return ``n`` random integers of ``range(high)``, without repeats if there are enough."""
        return self.permutation(high)[:n] if n <= high else self.integers(high, n)

    def integers(self, high: int, size: Shape | int) -> Array:
        """Draw ``size`` integers from ``range(high)``, an index array of the same library."""
        return from_numpy(self._generator.integers(high, size=size), self._reference)

    def poisson(self, rate: Array) -> Array:
        """Draw from Poisson distributions with the rates given."""
        drawn = self._generator.poisson(to_numpy(rate))
        return cast(from_numpy(drawn, self._reference), self._reference.dtype)

    def multinomial(self, n: Array, weights: Array) -> Array:
        """Draw counts of each row, of ``n`` draws, rounded, with probabilities by its weights.

        ``n`` has shape (n_rows,). The weights and the counts have shape (n_rows, n_columns), and no
        row of weights is all 0.
        """
        n = np.rint(to_numpy(n))
        if n.size and not n.max() <= _MOST_DRAWS:  # there is a number in memory for each draw
            raise ValueError(
                f"a row has {n.max():.3g} draws, more than the maximum of {_MOST_DRAWS:.0e}; scale "
                "the counts down"
            )
        edges = np.cumsum(to_numpy(weights), axis=1, dtype=np.float64)
        edges /= edges[:, -1:]
        edges += np.arange(edges.shape[0])[:, None]  # rows take turns on one line
        rows = np.repeat(np.arange(edges.shape[0]), n.astype(np.int64))
        points = rows + self._generator.random(len(rows))
        drawn = np.searchsorted(edges.ravel(), points, side="right")  # of no weight, never
        drawn = np.minimum(drawn, (rows + 1) * edges.shape[1] - 1)
        counts = np.bincount(drawn, minlength=edges.size).reshape(edges.shape)
        return cast(from_numpy(counts, self._reference), self._reference.dtype)

    def spawn(self, n: int) -> list["Rng"]:
        """Return ``n`` independent streams."""
        return [type(self)(seed, self._reference) for seed in self._seed.spawn(n)]


class CommonRng:
    """Random numbers that several groups of rows have in common.

    Arrays of draws have the rows of ``n`` groups, one after the other. So the chains of a row of
    data do not depend on how many other rows there are.
    """

    def __init__(self, rng: Rng, n: int) -> None:
        self._rng, self._n = rng, n

    def _shape(self, shape: Shape) -> Shape:
        """Return the shape of one group."""
        return shape[0] // self._n, *shape[1:]

    def _tiled(self, x: Array) -> Array:
        return namespace(x).tile(x, (self._n, *(1 for _ in x.shape[1:])))

    def choice(self, high: int, n: int) -> Array:
        return self._tiled(self._rng.choice(high, n // self._n))

    def uniform(self, shape: Shape) -> Array:
        return self._tiled(self._rng.uniform(self._shape(shape)))

    def normal(self, shape: Shape) -> Array:
        return self._tiled(self._rng.normal(self._shape(shape)))

    def bits(self, mean: Array) -> Array:
        return cast(self.uniform(mean.shape) < mean, mean.dtype)

    def poisson(self, rate: Array) -> Array:
        """Draw from Poisson distributions with the rates given, as quantiles of uniform noise."""
        noise = to_numpy(self.uniform(tuple(rate.shape)))
        drawn = np.ceil(special.pdtrik(noise, to_numpy(rate))).clip(0, None)
        return cast(from_numpy(drawn, rate), rate.dtype)


class _ConvertedRng(Rng):
    """Draws by NumPy, converted to another array library."""

    def _draw(self, name: str, *args: Any) -> Array:
        values = getattr(self._generator, name)(*args)
        return cast(from_numpy(values, self._reference), self._reference.dtype)

    def uniform(self, shape: Shape) -> Array:
        return self._draw("random", shape)

    def normal(self, shape: Shape) -> Array:
        return self._draw("standard_normal", shape)

    def bits(self, mean: Array) -> Array:
        return cast(self.uniform(mean.shape) < mean, mean.dtype)


class _TorchRng(Rng):
    """Draws on the device of a torch tensor."""

    def __init__(self, seed: np.random.SeedSequence, reference: Array) -> None:
        super().__init__(seed, reference)
        self._torch = self._started()

    def _started(self) -> Any:
        """Return a generator of the device at the start of the stream."""
        seed = int(self._seed.generate_state(1, np.uint64)[0] >> 1)
        generator = torch_of(self._reference).Generator(device=self._reference.device)
        return generator.manual_seed(seed)

    def uniform(self, shape: Shape) -> Array:
        return torch_of(self._reference).rand(shape, generator=self._torch, **like(self._reference))

    def normal(self, shape: Shape) -> Array:
        return torch_of(self._reference).randn(
            shape, generator=self._torch, **like(self._reference)
        )

    def bits(self, mean: Array) -> Array:
        return self.uniform(mean.shape).lt_(mean)

    @contextmanager
    def recorded(self, graph: Any) -> Iterator[None]:
        """Draw in a recording of a CUDA graph, whose replays then draw the next numbers."""
        place = self._torch.get_state()
        graph.register_generator_state(self._torch)
        try:
            yield
        except BaseException:  # the generator may think that it is still recorded
            self._torch = self._started()
            self._torch.set_state(place)
            raise

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_torch": to_numpy(self._torch.get_state())}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._torch = self._started()
        place = torch_of(self._reference).from_numpy(state["_torch"])
        if place.shape == self._torch.get_state().shape:  # else it is of another kind of device
            self._torch.set_state(place)


def make_rng(random_state: Any, reference: Array) -> Rng:
    """Return the stream for ``random_state`` with draws like the array ``reference``."""
    is_seed = hasattr(random_state, "generate_state")
    seed = random_state if is_seed else seed_sequence(random_state)
    if not is_foreign(reference):
        return Rng(seed, reference)
    return (_TorchRng if torch_of(reference) else _ConvertedRng)(seed, reference)
