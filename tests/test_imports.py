"""Imports run one way. This reads every file and holds them to it."""

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import skrbm

ROOT = Path(skrbm.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))

# Each room may import from the rooms before it.
ORDER = [
    "exceptions",
    "_checks",
    "_params",
    "_schedules",
    "_sklearn",
    "arrays",
    "_ranks",
    "units",
    "machine",
    "inputs",
    "inference",
    "evaluation",
    "learning",
    "estimators",
    "inspection",
    "persistence",
    "distributed",
    "sequences",
    "",  # skrbm/__init__.py
]

DISPLAYS = ("_components", "_diagnosis", "_free_energy", "_history", "_landscape")

# Libraries that are optional or slow to load, and the only files that may import them.
OPTIONAL = {
    "torch": {
        "arrays._namespace",
        "arrays._random",
        "arrays._replay",
        "arrays._special",
        "distributed._torch",
        "distributed._dask",
        "inference._odds_triton",
    },
    "triton": {"inference._odds_triton"},
    "dask": {"distributed._dask"},
    "mpi4py": {"distributed._mpi"},
    "array_api_compat": {"arrays._namespace"},
    "array_api_strict": set(),
    "matplotlib": {*(f"inspection.{name}" for name in DISPLAYS), "sequences._logo"},
    "pandas": set(),
    "h5py": {"sequences._readers"},
    "zarr": set(),
}
# Kernels are decorated by Triton, so that their file imports it; others import it in functions.
KERNELS = "inference._odds_triton"


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
    assert ("units._binary", "arrays") in EDGES
    assert ("inference._ais", "inference._gibbs") in EDGES
    assert ("inference._sampler", "machine") in EDGES
    assert ("", "estimators") in EDGES


def test_every_file_is_in_a_known_room():
    assert {room(module_name(path)) for path in FILES} <= set(ORDER)


def test_imports_run_one_way():
    wrong = [
        f"{module} imports {imported}"
        for module, imported in EDGES
        if room(imported) != room(module)
        and ORDER.index(room(imported)) >= ORDER.index(room(module))
    ]
    assert not wrong


def test_files_of_a_room_import_each_other_without_cycles():
    inside = {}
    for module, imported in EDGES:
        if room(module) == room(imported) and "." in module:  # an __init__ gathers its room
            inside.setdefault(module, set()).add(imported)
    assert inside
    TopologicalSorter(inside).prepare()  # which raises CycleError


def test_optional_libraries_are_imported_where_they_are_needed():
    wrong = [
        f"{module_name(path)} imports {name}{'' if inside else ' outside of a function'}"
        for path in FILES
        for name, inside in imports(path)
        if (allowed := OPTIONAL.get(name.split(".")[0])) is not None
        and not ((inside or module_name(path) == KERNELS) and module_name(path) in allowed)
    ]
    assert not wrong
    importers = [
        inside for path in FILES for name, inside in imports(path) if target(name) == KERNELS
    ]
    assert importers and all(importers)


def is_private(name):
    """Whether a full name is one that scikit-learn may change without notice."""
    library, *parts = name.split(".")
    return library == "sklearn" and ("callback" in parts or any(p.startswith("_") for p in parts))


def test_one_file_imports_what_scikit_learn_may_change():
    wrong = [
        f"{module_name(path)} imports {name}, which belongs in _sklearn"
        for path in FILES
        for name, _ in imports(path)
        if module_name(path) != "_sklearn" and is_private(name)
    ]
    assert not wrong
    assert any(is_private(name) for name, _ in imports(ROOT / "_sklearn.py"))


def test_importing_the_package_loads_no_optional_library():
    libraries = sorted(set(OPTIONAL) - {"pandas"})  # which scikit-learn itself may load
    code = (
        "import sys, skrbm, skrbm.distributed, skrbm.evaluation, skrbm.inspection, "
        "skrbm.sequences; "
        f"print([name for name in {libraries} if name in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT.parent
    )
    assert result.stdout.strip() == "[]"
