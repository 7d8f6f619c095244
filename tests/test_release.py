"""What is published agrees with the package: versions, dependencies, files of a distribution."""

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest

import skrbm

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
RECIPE = (ROOT / ".github" / "conda-forge" / "recipe.yaml").read_text()
EXTRAS = PROJECT["optional-dependencies"]


def lower_bounds(requirements):
    """Name and oldest version of each requirement, without extras and comments."""
    found = [re.match(r"([\w-]+)(?:\[.*\])?>=([\d.]+)$", r) for r in requirements]
    return {m[1]: m[2] for m in found if m}


def as_numbers(version):
    """A version as numbers, in which 2.0 is 2.0.0."""
    numbers = [int(part) for part in version.split(".")]
    return numbers + [0] * (3 - len(numbers))


def test_the_version_stands_in_the_package_alone():
    assert PROJECT["dynamic"] == ["version"]
    assert "\nversion:" not in (ROOT / "CITATION.cff").read_text()
    next_release = skrbm.__version__.partition(".dev")[0]
    assert f'\n  version: "{next_release}"\n' in RECIPE


@pytest.mark.parametrize("name", sorted(lower_bounds(PROJECT["dependencies"])))
def test_the_recipe_asks_for_the_same_versions(name):
    oldest = lower_bounds(PROJECT["dependencies"])[name]
    assert f"\n    - {name} >={oldest}\n" in RECIPE


def test_the_recipe_asks_for_the_same_python_and_builder():
    assert f'python_min: "{PROJECT["requires-python"].removeprefix(">=")}"' in RECIPE
    (builder,) = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    assert f"- {builder.replace('>=', ' >=')}\n" in RECIPE


def test_the_oldest_versions_tested_are_the_oldest_allowed():
    lines = (ROOT / ".ci" / "oldest.txt").read_text().splitlines()
    tested = dict(line.split("==") for line in lines if "==" in line)
    allowed = lower_bounds(EXTRAS["tests"]) | lower_bounds(PROJECT["dependencies"])
    assert set(lower_bounds(PROJECT["dependencies"])) <= set(tested)
    for name in set(allowed) & set(tested):
        assert as_numbers(tested[name]) == as_numbers(allowed[name]), name


def test_types_are_shipped_and_announced():
    assert (Path(skrbm.__file__).parent / "py.typed").exists()
    assert "Typing :: Typed" in PROJECT["classifiers"]


def test_the_documentation_installs_what_its_examples_import():
    names = lower_bounds(PROJECT["dependencies"] + EXTRAS["docs"])
    installed = {"sklearn" if name == "scikit-learn" else name for name in names} | {"skrbm"}
    for example in (ROOT / "examples").glob("plot_*.py"):
        for node in ast.walk(ast.parse(example.read_text())):
            found = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            found += [node.module] if isinstance(node, ast.ImportFrom) else []
            packages = {name.partition(".")[0] for name in found} - sys.stdlib_module_names
            assert packages <= installed, f"{example.name} imports {packages - installed}"
