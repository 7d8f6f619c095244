"""Files of fitted estimators: arrays and JSON, which run no code when they are loaded."""

import importlib
import inspect
import json
import os
import pkgutil
import uuid
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from zipfile import ZIP_STORED, ZipFile, is_zipfile

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from .._sklearn import is_of_scikit_learn
from ..arrays import from_numpy, is_foreign, to_numpy

_FORMAT = 2
_LIBRARIES = ("torch", "cupy", "array_api_strict")
_TREE = "tree"  # name of the JSON among the arrays
_ROOMS = "arrays", "estimators", "inference", "inputs", "learning", "machine", "units"
"""Packages whose objects are parts of estimators; others have callbacks, paths and processes."""


def save(estimator, path):
    """Write an estimator to a file.

    An existing file is replaced atomically. The file is an ``.npz`` archive of arrays, one of which
    is JSON text. It includes the state of the training (chains, random stream, optimizer state), so
    that ``partial_fit`` and ``warm_start`` continue from a loaded estimator as from the saved one.
    Callbacks and metadata requests are not saved.

    Parameters
    ----------
    estimator : estimator of skrbm
        A fitted or unfitted estimator.
    path : str or path-like
        The name of the file, to which no suffix is added.

    Raises
    ------
    TypeError
        If a parameter or an attribute consists of anything but arrays, plain values and objects of
        skrbm, such as a function passed as ``schedule``.
    """
    check_own(estimator, "save")
    write(path, estimator=estimator)


def check_own(estimator, name):
    """Raise TypeError unless ``estimator`` is one of skrbm, as ``name`` needs it."""
    cls = type(estimator)
    if not isinstance(estimator, BaseEstimator) or _types().get(cls.__name__) is not cls:
        raise TypeError(f"{name} needs an estimator of skrbm, got {cls.__module__}.{cls.__name__}")


def write(path, **values):
    """Write values to a file, which is replaced as a whole or not at all."""
    writer = _Writer()
    tree = {"format": _FORMAT, "skrbm": skrbm().__version__}
    tree |= {name: writer.tree(value, type(value).__name__) for name, value in values.items()}
    text = np.frombuffer(json.dumps(tree).encode(), np.uint8)
    arrays = {str(number): array for number, array in enumerate(writer.arrays)}
    path = Path(path).resolve()  # the target of a link is replaced, not the link
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
    """Load an estimator from a file written by :func:`save`.

    Parameters
    ----------
    path : str or path-like
    device : str, default=None
        Device of its torch tensors, such as "cpu" on a computer without a GPU; by default the one
        from which they were saved. On another kind of device, training continues with other random
        numbers.

    Returns
    -------
    estimator : object
        The estimator with its parameters and attributes; arrays have the same library and dtype as
        before.

    Raises
    ------
    ValueError
        If the file was not written by :func:`save`, if it was written by a later release of skrbm,
        or if the estimator has invalid parameters or inconsistent arrays.
    ImportError
        If the file has arrays of a library that is not installed.
    """
    estimator = read(path, "estimator", device=device)[0]
    if not isinstance(estimator, BaseEstimator):
        raise ValueError(f"{path} contains no estimator")
    return estimator


def read(path, *names, device=None):
    """Return values of a file by name, None where missing; raise errors as :func:`load`."""
    with open(path, "rb") as file:
        if not is_zipfile(file):
            raise ValueError(f"{path} was not written by skrbm.persistence.save")
        file.seek(0)
        try:
            if any(entry.compress_type != ZIP_STORED for entry in ZipFile(file).infolist()):
                raise ValueError("it is compressed")
            file.seek(0)
            archive = np.load(file, allow_pickle=False)
            tree = json.loads(archive[_TREE].tobytes())
            version, release = int(tree["format"]), tree["skrbm"]
        except Exception as error:  # zipfile and NumPy raise almost anything for damaged files
            raise ValueError(
                f"{path} was not written by skrbm.persistence.save: {error}"
            ) from error
        if version > _FORMAT:
            raise ValueError(f"{path} was written by a later release, skrbm {release}")
        try:
            reader = _Reader(archive, device)
            return [reader.value(tree.get(name)) for name in names]
        except ImportError:
            raise
        except Exception as error:
            reason = str(error).rstrip(".").replace(". Got ", ", got ")  # scikit-learn's
            raise ValueError(
                f"{path}, which was written by skrbm {release}, cannot be read: {reason}"
            ) from error


def trusted_types():
    """Return the names of all types in estimators of skrbm, for ``skops.io.load``.

    Returns
    -------
    list of str
        Pass it as ``trusted``.

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
    """Return the classes of skrbm that a file can have, by name."""
    found = {}
    for module in pkgutil.walk_packages(skrbm().__path__, "skrbm."):
        needs_torch = module.name.endswith(("_triton", "_replay"))
        if module.name.split(".")[1] not in _ROOMS or needs_torch:
            continue
        for name, cls in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if cls.__module__ == module.name and not issubclass(cls, BaseException):
                found[name] = cls
    return found


class _Writer:
    """Convert values to JSON, in which arrays are numbers of ``arrays``."""

    def __init__(self):
        self.arrays, self._numbers = [], {}

    def tree(self, value, path):
        """Return a value as JSON; ``path`` is its name in errors."""
        if value is None or type(value) in (bool, int, float, str):
            return value
        if type(value) in (list, tuple):
            items = [self.tree(item, f"{path}[{i}]") for i, item in enumerate(value)]
            return items if type(value) is list else {"tuple": items}
        if type(value) is dict:
            items = [[self.tree(k, path), self.tree(v, f"{path}[{k!r}]")] for k, v in value.items()]
            return {"dict": items}
        if isinstance(value, np.dtype):
            return {"dtype": value.str}
        if isinstance(value, np.generic):
            return {"scalar": self._number(value, np.asarray(value))}
        if isinstance(value, np.ndarray):
            if value.dtype.hasobject:
                return {"objects": self.tree(value.tolist(), path)}
            return {"array": self._number(value, value)}
        if isinstance(value, sp.csr_array):
            parts = [value.data, value.indices, value.indptr, value.shape]
            return {"sparse": self.tree(parts, path)}
        library = type(value).__module__.partition(".")[0]
        if is_foreign(value) and library in _LIBRARIES:
            number = self._number(value, to_numpy(value))
            return {"array": number, "library": library, "device": str(value.device)}
        if isinstance(value, np.random.SeedSequence):
            return {"seed": self.tree(value.state, path)}
        if isinstance(value, np.random.Generator):
            return {"generator": self.tree(value.bit_generator.state, path)}
        if isinstance(value, np.random.RandomState):
            return {"generator": self.tree(value.get_state(legacy=False), path)}
        name = type(value).__name__
        if _types().get(name) is not type(value):
            raise TypeError(
                f"{path} is of type {type(value).__module__}.{name}, which cannot be saved"
            )
        if isinstance(value, BaseEstimator):
            state = {k: v for k, v in vars(value).items() if not is_of_scikit_learn(k)}
        elif is_dataclass(value):
            state = {field.name: getattr(value, field.name) for field in fields(value)}
        elif isinstance(value, tuple):
            state = value._asdict()
        else:
            state = value.__getstate__() if hasattr(type(value), "__setstate__") else vars(value)
        state = {k: self.tree(v, f"{path}.{k}") for k, v in state.items()}
        return {"type": name, "state": state}

    def _number(self, value, array):
        """Return the number of an array, one for each object."""
        if id(value) not in self._numbers:
            self._numbers[id(value)] = len(self.arrays), value  # which keeps its id
            self.arrays.append(array)
        return self._numbers[id(value)][0]


def _sparse(parts):
    *arrays, shape = parts
    found = sp.csr_array(tuple(arrays), shape=shape)
    found.check_format()  # of indices out of range
    return found


def _generator(state):
    if "has_gauss" in state:
        found = np.random.RandomState()
        found.set_state(state)
        return found
    cls = getattr(np.random, state["bit_generator"], None)
    if not (inspect.isclass(cls) and issubclass(cls, np.random.BitGenerator)):
        raise ValueError(f"there is no generator {state['bit_generator']}")
    bits = cls()
    bits.state = state
    return np.random.Generator(bits)


_KINDS = {
    "tuple": tuple,
    "dict": dict,
    "dtype": np.dtype,
    "objects": lambda items: np.array(items, dtype=object),
    "sparse": _sparse,
    "seed": lambda state: np.random.SeedSequence(**state),
    "generator": _generator,
}
"""Functions that make values of the parts that a writer has made of them."""


class _Reader:
    """Convert JSON and arrays back to values, of a fixed set of types."""

    def __init__(self, archive, device=None):
        self._archive, self._device, self._arrays = archive, device, {}

    def value(self, tree):
        """Return the value of JSON."""
        if isinstance(tree, list):
            return [self.value(item) for item in tree]
        if not isinstance(tree, dict):
            return tree
        if "library" in tree:
            return self._foreign(**tree)
        if "type" in tree:
            return self._object(**tree)
        ((kind, content),) = tree.items()
        if kind == "array":
            return self._stored(content)
        if kind == "scalar":
            return self._stored(content)[()]
        return _KINDS[kind](self.value(content))

    def _stored(self, number):
        if number not in self._arrays:
            self._arrays[number] = self._archive[str(number)]
        return self._arrays[number]

    def _foreign(self, array, library, device):
        if library not in _LIBRARIES:
            raise ValueError(f"arrays of {library} are not supported")
        if (array, library) not in self._arrays:
            device = self._device or device
            options = {"device": device} if library == "torch" else {}
            try:
                reference = importlib.import_module(library).empty(0, **options)
            except (AssertionError, RuntimeError) as error:
                raise ValueError(
                    f"device {device!r} is not available; pass device='cpu'"
                ) from error
            self._arrays[array, library] = from_numpy(self._stored(array), reference)
        return self._arrays[array, library]

    def _object(self, type, state):
        if type not in _types():
            raise ValueError(f"it contains a {type}, which is not part of an estimator")
        cls = _types()[type]
        if issubclass(cls, BaseEstimator):  # callbacks and methods do not come from files
            wrong = [n for n in state if is_of_scikit_learn(n) or callable(getattr(cls, n, None))]
            if wrong:
                raise ValueError(
                    f"it contains an attribute {wrong[0]!r}, which estimators do not save"
                )
        values = {name: self.value(tree) for name, tree in state.items()}
        if is_dataclass(cls) or issubclass(cls, tuple):
            return cls(**values)
        found = cls.__new__(cls)
        has_own = hasattr(cls, "__setstate__") and not issubclass(cls, BaseEstimator)
        (found.__setstate__ if has_own else vars(found).update)(values)
        if issubclass(cls, BaseEstimator):
            _check(found)
        return found


def _check(estimator):
    """Raise ValueError unless an estimator has parameters that ``fit`` takes, and fitted arrays."""
    estimator._validate_params()
    if hasattr(estimator, "components_"):
        machine, starts = estimator.machine_, getattr(estimator, "starts_", None)
        machine.check()
        if [*map(type, getattr(estimator, "units_", machine.units))] != [*map(type, machine.units)]:
            raise ValueError(f"units_ must be {machine.units}, got {estimator.units_}")
        if starts is not None and starts.shape[1:] != machine.n_units[:1]:
            raise ValueError(f"starts_ must have {machine.n_units[0]} columns, got {starts.shape}")
