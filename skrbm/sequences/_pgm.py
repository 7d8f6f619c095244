"""Reader of the pickles of PGM, which runs no code of them."""

import io
import pickle
import pickletools
import re

import numpy as np

from ..estimators import RBM, CategoricalRBM
from ._fasta import reading

_NUMBERS = re.compile(r"[<>|=]?[fiub][1248]")
_VISIBLE = {"Potts": "categories", "Bernoulli": "bernoulli", "Spin": "spin"}


class _Record:
    """Stands for any object of a pickle, and stores its arguments and state."""

    name, state = "", None

    def __new__(cls, *args, **kwargs):
        self = super().__new__(cls)
        self.args = args
        return self

    def __init__(self, *args, **kwargs):
        pass

    def __setstate__(self, state):
        self.state = state

    def __getitem__(self, key):
        """Return an attribute of the pickled object."""
        if not isinstance(self.state, dict) or key not in self.state:
            raise ValueError(f"{self.name} has no {key!r}")
        return self.state[key]


class _Records(pickle.Unpickler):
    """Unpickler that imports and calls nothing."""

    def find_class(self, module, name):
        return type(name, (_Record,), {"name": f"{module}.{name}"})


def _unpickled(data):
    """Return what a pickle has, for which no more memory is taken than its size."""
    for code, argument, _ in pickletools.genops(data):
        if code.name.endswith("PUT") and argument > len(data):
            raise ValueError(f"it has no object number {argument}")
    return _Records(io.BytesIO(data), encoding="latin1").load()


def read_pgm(path, **params):
    """Read a machine that PGM has saved by ``saveRBM``.

    The file is a pickle, but nothing in it is imported or called. PGM is not needed.

    Parameters
    ----------
    path : str or path
    **params : dict
        Parameters of the estimator, such as ``random_state``.

    Returns
    -------
    CategoricalRBM or RBM
        Fitted. PGM's alphabet of amino acids is "ACDEFGHIKLMNPQRSTVWY-". Hidden dReLU and ReLU
        units become "double_relu", ReLUplus units "relu".

    Raises
    ------
    ValueError
        If the file is no such machine, or one with other units.
    """
    with reading(path, "a machine that PGM has saved"):
        with open(path, "rb") as file:
            rbm = _unpickled(file.read())
        visible, hidden = rbm["visible"], rbm["hidden"]
        if visible not in _VISIBLE or hidden not in _HIDDEN:
            raise ValueError(f"units {visible!r} and {hidden!r} are not supported")
        W, fields = _array(rbm["weights"]), _array(rbm["vlayer"]["fields"])
        unit, parts = _HIDDEN[hidden](lambda name: _array(rbm["hlayer"][name]))
    parts = {f"{name}_hidden": part for name, part in parts.items()}
    more = {"intercept_visible": fields, "hidden": unit, **parts, **params}
    if visible == "Potts":
        return CategoricalRBM.from_parameters(W, **more)
    return RBM.from_parameters(W, visible=_VISIBLE[visible], **more)


def _array(record):
    """Return the array of a record."""
    name = record.name.rpartition(".")[2] if isinstance(record, _Record) else ""
    if name == "_reconstruct" and record.state is not None:
        _, shape, dtype, is_fortran, raw = record.state
        order = "F" if is_fortran else "C"
    elif name == "_frombuffer":  # of newer protocols
        raw, dtype, shape, order = record.args
    else:
        raise ValueError("a parameter in the file is not an array")
    dtype = _dtype(dtype)
    if isinstance(raw, _Record) and raw.name == "_codecs.encode":  # bytes of older protocols
        raw = raw.args[0]
    raw = raw.encode("latin1") if isinstance(raw, str) else bytes(raw)
    return np.frombuffer(raw, dtype).reshape(shape, order=order)


def _dtype(record):
    code = str(record.args[0])
    if not _NUMBERS.fullmatch(code):
        raise ValueError(f"a parameter in the file has dtype {code!r}")
    is_swapped = record.state is not None and record.state[1] == ">"
    return np.dtype(code).newbyteorder(">" if is_swapped else "=")


# Units of PGM have the energy gamma h**2 / 2 + theta h, with parameters of each sign of h.


def _discrete(part):
    return {"intercept": part("fields")}


def _quadratic(part):
    return {"intercept": -part("theta"), "precision": part("gamma")}


def _two_sided(part, gammas=("gamma_plus", "gamma_minus")):
    plus, minus = map(part, gammas)
    theta_plus, theta_minus = part("theta_plus"), part("theta_minus")
    return {
        "intercept": (theta_minus - theta_plus) / 2,
        "absolute": -(theta_plus + theta_minus) / 2,
        "precision": (plus + minus) / 2,
        "skew": (plus - minus) / 2,
    }


_HIDDEN = {
    "Bernoulli": lambda part: ("bernoulli", _discrete(part)),
    "Spin": lambda part: ("spin", _discrete(part)),
    "Gaussian": lambda part: ("gaussian", _quadratic(part)),
    "ReLUplus": lambda part: ("relu", _quadratic(part)),
    "dReLU": lambda part: ("double_relu", _two_sided(part)),
    "ReLU": lambda part: ("double_relu", _two_sided(part, ("gamma", "gamma"))),
}
