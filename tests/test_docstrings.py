"""Docstrings of everything public are numpydoc's, but for what is left out here by name."""

import importlib
import inspect

import pytest

ROOMS = (
    *("arrays", "units", "machine", "inputs", "inference", "evaluation", "learning"),
    *("inspection", "persistence", "distributed", "sequences"),
)
PLACES = ("skrbm", *(f"skrbm.{room}" for room in ROOMS))
FOR_USERS = tuple(f"skrbm.{room}." for room in ("evaluation", "inspection", *ROOMS[-3:]))
LEFT_OUT = {
    "ES01": "one sentence may say it all",
    "EX01": "examples are in the docstrings of estimators and in the user guide",
    "SA01": "what belongs together is listed together in doc/api.rst",
    "GL08": "a method may inherit its docstring; one that has none at all fails below",
    "PR01": "methods of a contract say in a sentence what they take, and fields of results too",
    "PR07": "a name and a type may say it all: random_state, machine, ax",
    "RT01": "a summary may begin with Return",
    "RT02": "what is returned has a name, as in scikit-learn",
    "RT03": "a name and a type may say it all",
    "PR08": "a symbol may begin a sentence: b, log Z, p(v)",
    "RT04": "a symbol may begin a sentence: b, log Z, p(v)",
    "SS02": "a symbol may begin a sentence: b, log Z, p(v)",
    "YD01": "a summary may begin with Yield",
}


def documented():
    """All public functions and classes by their full names, and the methods that these define."""
    found = {}
    for place in PLACES:
        module = importlib.import_module(place)
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isclass(value) or inspect.isfunction(value):
                found[f"{place}.{name}"] = value
            if inspect.isclass(value):
                kinds = (classmethod, staticmethod, property)
                for part, member in vars(value).items():
                    if part[0] != "_" and (inspect.isfunction(member) or isinstance(member, kinds)):
                        found[f"{place}.{name}.{part}"] = getattr(value, part)
    return found


@pytest.mark.checks
@pytest.mark.parametrize("name, value", documented().items())
def test_docstrings(name, value):
    numpydoc = pytest.importorskip("numpydoc.validate")
    found = [] if inspect.getdoc(value) else [("no docstring", name)]
    left_out = set(LEFT_OUT)
    if inspect.isfunction(value) and name.startswith(FOR_USERS) and name.count(".") == 2:
        left_out -= {"PR01", "PR02"}
    found += [e for e in numpydoc.validate(name)["errors"] if e[0] not in left_out]
    assert not found
