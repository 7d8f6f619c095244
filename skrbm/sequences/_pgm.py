"""Machines of PGM, which writes pickles, read without running anything that is in them."""

import pickle
import re

import numpy as np

from ..estimators import RBM, CategoricalRBM

_NUMBERS = re.compile(r"[<>|=]?[fiub][1248]")
_VISIBLE = {"Potts": "categories", "Bernoulli": "bernoulli", "Spin": "spin"}
_ADVICE = "those that are read have Potts, Bernoulli or Spin visible units and no mixture"


class _Record:
    """What a pickle asks for, whatever its name: it only keeps what it is given."""

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
        """An attribute of the object that was pickled; ValueError if it has none."""
        if not isinstance(self.state, dict) or key not in self.state:
            raise ValueError(f"the file has no machine of PGM: {self.name} has no {key!r}")
        return self.state[key]


class _Records(pickle.Unpickler):
    """Reads a pickle as records: no name in it is imported, and none is called."""

    def find_class(self, module, name):
        return type(name, (_Record,), {"name": f"{module}.{name}"})


def read_pgm(path, **params):
    """Read a machine that PGM has saved by ``saveRBM``.

    Such a file is a pickle, which can run any program when Python loads it. Here it cannot:
    objects in it become records of what they hold, nothing is imported or called, and arrays of
    numbers are made from their bytes. PGM itself need not be there.

    Parameters
    ----------
    path : str or path
    **params : dict
        Parameters of the estimator, such as ``random_state``.

    Returns
    -------
    CategoricalRBM or RBM
        Fitted. PGM's codes of amino acids are those of the alphabet "ACDEFGHIKLMNPQRSTVWY-", with
        the gap at the end. Hidden dReLU and ReLU units become "double_relu", ReLUplus units "relu".

    Raises
    ------
    ValueError
        If the file is no such machine.
    """
    with open(path, "rb") as file:
        try:
            rbm = _Records(file, encoding="latin1").load()
        except (
            pickle.UnpicklingError,
            EOFError,
            TypeError,
            ValueError,
            AttributeError,
            LookupError,
        ) as error:
            raise ValueError(f"{path} is no pickle of a machine: {error}") from None
    if not isinstance(rbm, _Record):
        raise ValueError(f"{path} is no pickle of a machine, but of a {type(rbm).__name__}")
    visible, hidden = rbm["visible"], rbm["hidden"]
    if visible not in _VISIBLE or hidden not in _HIDDEN:
        raise ValueError(f"{path} has {visible} and {hidden} units; {_ADVICE}")
    W, fields = _array(rbm["weights"]), _array(rbm["vlayer"]["fields"])
    unit, parts = _HIDDEN[hidden](lambda name: _array(rbm["hlayer"][name]))
    parts = {f"{name}_hidden": part for name, part in parts.items()}
    more = {"intercept_visible": fields, "hidden": unit, **parts, **params}
    if visible == "Potts":
        return CategoricalRBM.from_parameters(W, **more)
    return RBM.from_parameters(W, visible=_VISIBLE[visible], **more)


def _array(record):
    """Return the array of numbers that a record tells of."""
    name = record.name.rpartition(".")[2] if isinstance(record, _Record) else ""
    if name == "_reconstruct" and record.state is not None:
        _, shape, dtype, is_fortran, raw = record.state
        order = "F" if is_fortran else "C"
    elif name == "_frombuffer":  # of newer protocols
        raw, dtype, shape, order = record.args
    else:
        raise ValueError("a parameter in the file is no array")
    dtype = _dtype(dtype)
    if isinstance(raw, _Record) and raw.name == "_codecs.encode":  # bytes of older protocols
        raw = raw.args[0]
    raw = raw.encode("latin1") if isinstance(raw, str) else bytes(raw)
    return np.frombuffer(raw, dtype).reshape(shape, order=order)


def _dtype(record):
    code = str(record.args[0])
    if not _NUMBERS.fullmatch(code):
        raise ValueError(f"a parameter in the file is of dtype {code!r}, and no number")
    is_swapped = record.state is not None and record.state[1] == ">"
    return np.dtype(code).newbyteorder(">" if is_swapped else "=")


# Units of PGM have the energy gamma h**2 / 2 + theta h, on each side of 0 by itself.


def _fields(part):
    return {"intercept": part("fields")}


def _line(part):
    return {"intercept": -part("theta"), "precision": part("gamma")}


def _sides(right, left, theta_right, theta_left):
    return {
        "intercept": (theta_left - theta_right) / 2,
        "absolute": -(theta_right + theta_left) / 2,
        "precision": (right + left) / 2,
        "skew": (right - left) / 2,
    }


def _two_sides(part):
    names = "gamma_plus", "gamma_minus", "theta_plus", "theta_minus"
    return _sides(*map(part, names))


def _equal_sides(part):
    return _sides(part("gamma"), part("gamma"), part("theta_plus"), part("theta_minus"))


_HIDDEN = {
    "Bernoulli": lambda part: ("bernoulli", _fields(part)),
    "Spin": lambda part: ("spin", _fields(part)),
    "Gaussian": lambda part: ("gaussian", _line(part)),
    "ReLUplus": lambda part: ("relu", _line(part)),
    "dReLU": lambda part: ("double_relu", _two_sides(part)),
    "ReLU": lambda part: ("double_relu", _equal_sides(part)),
}
