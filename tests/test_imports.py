"""Imports run one way, and optional libraries are imported only where they are needed."""

import ast
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import skrbm

ROOT = Path(skrbm.__file__).parent

# Each of these may import from those before it.
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

# Libraries that are optional or slow to load, and where functions may import them. Two files, which
# functions import, have classes and kernels that are made from such a library.
OPTIONAL = {
    "torch": {"arrays", "distributed", "inference"},
    "triton": {"inference"},
    "dask": {"distributed"},
    "mpi4py": {"distributed"},
    "array_api_strict": set(),
    "matplotlib": {"inspection", "sequences"},
    "h5py": set(),
    "zarr": set(),
}
MADE_OF_THEM = {ROOT / "inference" / "_odds_triton.py", ROOT / "arrays" / "_replay.py"}


@cache
def imports(path):
    """Return (module, whether inside a function) of the import statements of a file."""
    found = []
    tree = ast.parse(path.read_text())
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    inside = {id(child) for function in functions for child in ast.walk(function)}
    package = ["skrbm", *path.relative_to(ROOT).parts[:-1]]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(alias.name, id(node) in inside) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *filter(None, [node.module])])
            # ``from . import a`` imports a module, if there is one.
            found += [(f"{module}.{alias.name}", id(node) in inside) for alias in node.names]
    return found


def module_of(name):
    """Return the parts below skrbm of the module that a full name is in."""
    parts = name.split(".")[1:]
    while parts and not (
        ROOT.joinpath(*parts).is_dir() or ROOT.joinpath(*parts[:-1], f"{parts[-1]}.py").exists()
    ):
        parts.pop()
    return tuple(parts)


def edges():
    """Yield (file, parts of the module that it imports) of all imports of the package itself."""
    for path in ROOT.rglob("*.py"):
        for name, _ in imports(path):
            if name.split(".")[0] == "skrbm":
                yield path.relative_to(ROOT).with_suffix("").parts, module_of(name)


def test_imports_run_one_way():
    inside, rooms = {}, set()
    for importer, imported in edges():
        room, other = importer[0].removesuffix("__init__"), (imported or ("",))[0]
        rooms |= {room, other}
        if room != other:
            assert ORDER.index(other) < ORDER.index(room), f"{importer} imports {imported}"
        elif len(importer) > 1 and importer[-1] != "__init__":
            inside.setdefault(importer, set()).add(imported)
    assert {"arrays", "units", "machine", "learning", "estimators"} <= rooms <= set(ORDER)
    TopologicalSorter(inside).prepare()  # raises CycleError


def test_optional_libraries_are_imported_in_functions():
    for path in ROOT.rglob("*.py"):
        for name, inside in imports(path):
            allowed = OPTIONAL.get(name.split(".")[0])
            if allowed is not None:
                assert path.relative_to(ROOT).parts[0] in allowed, f"{path} imports {name}"
                assert inside or path in MADE_OF_THEM, f"{path} imports {name} at its top"


def test_one_file_imports_what_scikit_learn_may_change():
    for path in ROOT.rglob("*.py"):
        for name, _ in imports(path):
            library, *parts = name.split(".")
            if library == "sklearn" and path.name != "_sklearn.py":
                private = "callback" in parts or any(part.startswith("_") for part in parts)
                assert not private, f"{path} imports {name}, which belongs in _sklearn.py"


def test_importing_the_package_loads_no_optional_library():
    code = (
        "import sys, skrbm, skrbm.distributed, skrbm.evaluation, skrbm.inspection, "
        "skrbm.sequences; "
        f"print([name for name in {sorted(OPTIONAL)} if name in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT.parent
    )
    assert result.stdout.strip() == "[]"
