"""Imports run one way. This reads every file and holds them to it."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import skrbm

ROOT = Path(skrbm.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))

# Each room may import from the rooms before it.
ORDER = [
    "exceptions",
    "_callbacks",
    "_threads",
    "_backend",
    "_random",
    "units",
    "_machine",
    "_validation",
    "_enumeration",
    "_optim",
    "_lbfgs",
    "_atoms",
    "_conditional",
    "_gaussian_bernoulli",
    "inference",
    "_targets",
    "_objectives",
    "_solutions",
    "evaluation",
    "_epochs",
    "_supervised",
    "_mixtures",
    "_frank_wolfe",
    "_growing",
    "_training",
    "estimators",
    "inspection",
    "",  # skrbm/__init__.py
]

# Inside a room a file imports its _base only, save for these.
SIBLINGS = {
    ("inference._belief_propagation", "inference._odds"),  # numerics that need a file of their own
    ("inference._propagation", "inference._belief_propagation"),  # the same, in many machines
    ("inference._propagation", "inference._odds"),
    ("inference._propagation", "inference._mean_field"),  # TAP, where messages start
    ("inference._classes", "inference._propagation"),  # the same, for one label of classes
    ("inference._classes", "inference._odds"),
    ("units._truncated", "units._truncnorm"),  # numerics that need a file of their own
    ("inference._ais", "inference._gibbs"),  # annealing starts at draws without couplings
    (
        "estimators._tap_rbm",
        "estimators._denoising",
    ),  # a method of its mixin, with a file of its own
    ("inference._starts", "inference._gibbs"),  # one choice of starts is the states of chains
    ("estimators._frank_wolfe_rbm", "estimators._bernoulli_rbm"),  # what it becomes
    ("estimators._deep_tap_machine", "estimators._tap_rbm"),  # pretraining is TAPRBM's training
}

DISPLAYS = ("_components", "_free_energy", "_history", "_landscape")

# Libraries that are optional or slow to load, and the only files that may import them.
OPTIONAL = {
    "torch": {"_backend", "_random"},
    "array_api_compat": {"_backend"},
    "array_api_strict": set(),
    "matplotlib": {f"inspection.{name}" for name in DISPLAYS},
    "pandas": set(),
}


def module_name(path):
    """Dotted name below skrbm; the name of a room for its __init__."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def absolute(node, path):
    """What an import statement names, as full dotted names of modules or of things in them."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not node.level:
        return [f"{node.module}.{alias.name}" for alias in node.names]
    folder = path.parent
    for _ in range(node.level - 1):
        folder = folder.parent
    package = ["skrbm", *folder.relative_to(ROOT).parts, *(node.module or "").split(".")]
    base = ".".join(part for part in package if part)
    return [f"{base}.{alias.name}" for alias in node.names]


def imports(path):
    """Yield (full name, whether inside a function) of everything that a file imports."""
    tree = ast.parse(path.read_text())
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    inside = {id(child) for function in functions for child in ast.walk(function)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            for name in absolute(node, path):
                yield name, id(node) in inside


def target(name):
    """The module of skrbm that a full name is in, as a dotted name below skrbm."""
    parts = name.split(".")[1:]
    while parts:
        path = ROOT.joinpath(*parts)
        if path.is_dir() or path.with_suffix(".py").exists():
            return ".".join(parts)
        parts.pop()
    return ""


def room(module):
    return module.split(".")[0]


EDGES = [
    (module_name(path), target(name))
    for path in FILES
    for name, _ in imports(path)
    if name.split(".")[0] == "skrbm"
]


def test_the_reader_sees_the_imports():
    assert ("units._bernoulli", "_backend") in EDGES
    assert ("inference._ais", "inference._gibbs") in EDGES
    assert ("inference._base", "_machine") in EDGES
    assert ("", "estimators") in EDGES


def test_every_file_is_in_a_known_room():
    assert {room(module_name(path)) for path in FILES} <= set(ORDER)


@pytest.mark.parametrize("path", FILES, ids=lambda path: module_name(path) or "skrbm")
def test_imports_run_one_way(path):
    module = module_name(path)
    for source, imported in EDGES:
        if source != module or room(imported) == room(module):
            continue
        assert ORDER.index(room(imported)) < ORDER.index(room(module)), f"{module} <- {imported}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: module_name(path) or "skrbm")
def test_siblings_import_only_their_base(path):
    module = module_name(path)
    if path.name == "__init__.py":  # which gathers the room
        return
    for source, imported in EDGES:
        if source != module or room(imported) != room(module):
            continue
        own_base = f"{room(module)}._base"
        assert imported == own_base or (module, imported) in SIBLINGS, f"{module} <- {imported}"


def test_exceptions_between_siblings_are_needed():
    assert SIBLINGS <= set(EDGES)


@pytest.mark.parametrize("path", FILES, ids=lambda path: module_name(path) or "skrbm")
def test_optional_libraries_are_imported_where_they_are_needed(path):
    for name, inside in imports(path):
        library = name.split(".")[0]
        if library in OPTIONAL:
            assert module_name(path) in OPTIONAL[library], f"{path.name} imports {name}"
            assert inside, f"{path.name} imports {name} outside of a function"


def test_importing_the_package_loads_no_optional_library():
    libraries = sorted(set(OPTIONAL) - {"pandas"})  # which scikit-learn itself may load
    code = (
        "import sys, skrbm, skrbm.evaluation, skrbm.inspection; "
        f"print([name for name in {libraries} if name in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT.parent
    )
    assert result.stdout.strip() == "[]"
