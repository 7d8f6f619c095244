"""Files of fitted estimators: plain arrays and JSON, which run no code when they are loaded."""

import importlib
import inspect
import json
import math
import os
import pkgutil
import uuid
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from zipfile import is_zipfile

import numpy as np
from sklearn.base import BaseEstimator

from .._sklearn import is_of_scikit_learn
from ..arrays import from_numpy, is_foreign, to_numpy

_FORMAT = 1
_LIBRARIES = ("torch", "cupy", "array_api_strict")
_GENERATORS = ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")
_TREE = "tree"  # name of the JSON among the arrays


def save(estimator, path):
    """Write an estimator to a file, which is there as a whole or not at all.

    The file is an ``.npz`` archive of arrays, one of which is JSON text. What a fit goes on from is
    in it (chains, random stream, state of the optimiser), so that ``partial_fit`` and
    ``warm_start`` go on from a loaded estimator as from the saved one. Callbacks are not kept, nor
    what ``set_fit_request`` and its kind have asked for.

    Parameters
    ----------
    estimator : estimator of skrbm
        Fitted or not.
    path : str or path-like
        Of the file, which is replaced if it is there. No suffix is added.

    Raises
    ------
    TypeError
        If a parameter or an attribute is neither an array nor made of plain values and objects of
        skrbm, such as a function as ``schedule``.
    """
    check_own(estimator, "save")
    write(path, estimator=estimator)


def check_own(estimator, name):
    """Raise TypeError unless ``estimator`` is one of skrbm, which ``name`` takes."""
    cls = type(estimator)
    if _types().get(cls.__name__) is not cls or not isinstance(estimator, BaseEstimator):
        raise TypeError(f"{name} takes an estimator of skrbm, got {cls.__module__}.{cls.__name__}")


def write(path, **values):
    """Write values to a file, which is there as a whole or not at all."""
    writer = _Writer()
    tree = {"format": _FORMAT, "skrbm": skrbm().__version__}
    tree |= {name: writer.tree(value, type(value).__name__) for name, value in values.items()}
    text = np.frombuffer(json.dumps(tree, allow_nan=False).encode(), np.uint8)
    arrays = {str(number): array for number, array in enumerate(writer.arrays)}
    path = Path(path).resolve()  # what a link leads to is replaced, not the link
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with open(temporary, "xb") as file:
            np.savez(file, **{_TREE: text}, **arrays)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def load(path, *, device=None):
    """Return the estimator that :func:`save` has written to a file.

    Parameters
    ----------
    path : str or path-like
    device : str, default=None
        Device of its torch tensors, such as "cpu" where there is no GPU; default: that on which
        they were. On another kind of device learning goes on with other random numbers.

    Returns
    -------
    estimator : object
        With the same parameters and attributes; arrays have the same library and dtype.

    Raises
    ------
    ValueError
        If the file was not written by :func:`save`, or by a later release of skrbm.
    ImportError
        If it has arrays of a library that is not installed.
    """
    return read(path, "estimator", device=device)[0]


def read(path, *names, device=None):
    """Return the values of some names in a file, None where it has none; errors as :func:`load`."""
    with open(path, "rb") as file:
        if not is_zipfile(file):
            raise ValueError(f"{path} is no file of skrbm.persistence.save, or only a part of one")
        file.seek(0)  # where NumPy looks for what kind of file it is
        try:
            archive = np.load(file, allow_pickle=False)
            tree = json.loads(archive[_TREE].tobytes())
            version, release = int(tree["format"]), tree["skrbm"]
        except Exception as error:  # lost bytes make zipfile and NumPy raise almost anything
            raise ValueError(f"{path} is no file of skrbm.persistence.save: {error}") from error
        if version > _FORMAT:
            raise ValueError(
                f"{path} was written by skrbm {release} in format {version}, and this is "
                f"skrbm {skrbm().__version__} with format {_FORMAT}; install a later release"
            )
        try:
            reader = _Reader(archive, device)
            return [reader.value(tree.get(name)) for name in names]
        except ImportError:
            raise
        except Exception as error:
            raise ValueError(
                f"skrbm {skrbm().__version__} does not read {path}, which was written by skrbm "
                f"{release}: {error}"
            ) from error


def trusted_types():
    """Return the full names of the types in estimators of skrbm, for ``skops.io.load``.

    Returns
    -------
    list of str
        To be passed as ``trusted``.

    Examples
    --------
    >>> from skrbm import trusted_types
    >>> "skrbm.estimators._rbm.RBM" in trusted_types()
    True
    """
    names = (f"{cls.__module__}.{cls.__qualname__}" for cls in _types().values())
    return [*sorted(names), "numpy.dtype"]


def skrbm():
    """Return the package."""
    return importlib.import_module("skrbm")


@cache
def _types():
    """Return the classes of skrbm by name."""
    found = {}
    for module in pkgutil.walk_packages(skrbm().__path__, "skrbm."):
        if module.name.endswith("_triton"):  # kernels, which need a library that may be missing
            continue
        for name, cls in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if cls.__module__ == module.name and not issubclass(cls, BaseException):
                found[name] = cls
    return found


class _Writer:
    """Turns values into what JSON holds, and numbers of arrays."""

    def __init__(self):
        self.arrays, self._numbers, self._kept = [], {}, []

    def tree(self, value, path):
        """Return a value as JSON; ``path`` says where it is."""
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if type(value) is list:
            return [self.tree(item, f"{path}[{i}]") for i, item in enumerate(value)]
        if type(value) is tuple:
            return {"tuple": self.tree(list(value), path)}
        if type(value) is dict:
            items = [[self.tree(k, path), self.tree(v, f"{path}[{k!r}]")] for k, v in value.items()]
            return {"dict": items}
        return self._array(value, path) or self._random(value, path) or self._object(value, path)

    def _array(self, value, path):
        if isinstance(value, np.dtype):
            return {"dtype": value.str}
        if isinstance(value, np.ndarray) and value.dtype.hasobject:
            return {"strings": self.tree(value.tolist(), path)}
        if isinstance(value, np.generic):
            return {"scalar": self._number(value, np.asarray(value))}
        if isinstance(value, np.ndarray):
            return {"array": self._number(value, value)}
        library = type(value).__module__.partition(".")[0]
        if is_foreign(value) and library in _LIBRARIES:
            number = self._number(value, to_numpy(value))
            return {"array": number, "library": library, "device": str(value.device)}
        return None

    def _number(self, value, array):
        """Return the number of an array, the same for the same object."""
        if id(value) not in self._numbers:
            self._numbers[id(value)] = len(self.arrays)
            self.arrays.append(array)
            self._kept.append(value)  # so that no other object gets its id
        return self._numbers[id(value)]

    def _random(self, value, path):
        if isinstance(value, np.random.SeedSequence):
            return {"seed": self.tree(value.state, path)}
        if isinstance(value, np.random.Generator):
            return {"generator": self.tree(value.bit_generator.state, path)}
        if isinstance(value, np.random.RandomState):
            return {"random_state": self.tree(value.get_state(legacy=False), path)}
        return None

    def _object(self, value, path):
        name = type(value).__name__
        if _types().get(name) is not type(value):
            raise TypeError(
                f"{path} is of type {type(value).__module__}.{name}, which a file of arrays and "
                "JSON does not hold; set another value, or use pickle, joblib or skops"
            )
        state = _state(value)
        return {"type": name, "state": {k: self.tree(v, f"{path}.{k}") for k, v in state.items()}}


def _state(value):
    """Return what an object is made of, by name."""
    if isinstance(value, BaseEstimator):
        return {k: v for k, v in vars(value).items() if not is_of_scikit_learn(k)}
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, tuple):
        return value._asdict()
    return value.__getstate__() if hasattr(type(value), "__setstate__") else vars(value)


class _Reader:
    """Turns JSON and numbers of arrays into values again. What it may make is written down here."""

    def __init__(self, archive, device=None):
        self._archive, self._device, self._arrays = archive, device, {}
        self._kinds = {
            "float": float,
            "tuple": lambda items: (*self.value(items),),
            "dict": lambda items: {self.value(key): self.value(item) for key, item in items},
            "dtype": np.dtype,
            "strings": lambda items: np.array(self.value(items), dtype=object),
            "scalar": lambda number: self._stored(number)[()],
            "array": self._stored,
            "seed": lambda state: np.random.SeedSequence(**self.value(state)),
            "generator": self._generator,
            "random_state": self._random_state,
        }

    def value(self, tree):
        """Return the value that JSON stands for."""
        if isinstance(tree, list):
            return [self.value(item) for item in tree]
        if not isinstance(tree, dict):
            return tree
        if "library" in tree:
            return self._foreign(**tree)
        if "type" in tree:
            return self._object(**tree)
        ((kind, content),) = tree.items()
        return self._kinds[kind](content)

    def _stored(self, number):
        if number not in self._arrays:
            self._arrays[number] = self._archive[str(number)]
        return self._arrays[number]

    def _foreign(self, array, library, device):
        if library not in _LIBRARIES:
            raise ValueError(f"arrays of {library} are not loaded")
        if (array, library) not in self._arrays:
            xp = importlib.import_module(library)
            options = {"device": self._device or device} if library == "torch" else {}
            try:
                reference = xp.empty(0, **options)
            except (AssertionError, RuntimeError) as error:
                raise ValueError(
                    f"it has arrays for device {options.get('device')!r}, which is not there "
                    f"({error}); pass device='cpu'"
                ) from error
            self._arrays[array, library] = from_numpy(self._stored(array), reference)
        return self._arrays[array, library]

    def _generator(self, content):
        state = self.value(content)
        if state["bit_generator"] not in _GENERATORS:
            raise ValueError(f"random streams of {state['bit_generator']} are not loaded")
        bits = getattr(np.random, state["bit_generator"])()
        bits.state = state
        return np.random.Generator(bits)

    def _random_state(self, content):
        found = np.random.RandomState()
        found.set_state(self.value(content))
        return found

    def _object(self, type, state):
        if type not in _types():
            raise ValueError(f"there is no {type}")
        cls, values = _types()[type], {name: self.value(tree) for name, tree in state.items()}
        if is_dataclass(cls) or issubclass(cls, tuple):
            return cls(**values)
        found = cls.__new__(cls)
        if issubclass(cls, BaseEstimator):  # an earlier release may not have had all parameters
            values = _defaults(cls) | values
        has_own = hasattr(cls, "__setstate__") and not issubclass(cls, BaseEstimator)
        (found.__setstate__ if has_own else vars(found).update)(values)
        return found


def _defaults(cls):
    """Return the defaults of the parameters of an estimator."""
    params = inspect.signature(cls.__init__).parameters.values()
    return {param.name: param.default for param in params if param.default is not param.empty}
