"""What is published agrees with the package: the oldest versions, and the recipe of conda-forge."""

import re
import tomllib
from pathlib import Path

import skrbm

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def lower_bounds(requirements):
    """Name and oldest version of each requirement, without extras and comments."""
    found = [re.match(r"([\w-]+)(?:\[.*\])?>=([\d.]+)$", r) for r in requirements]
    return {m[1]: m[2] for m in found if m}


def as_numbers(version):
    """A version as numbers, in which 2.0 is 2.0.0."""
    numbers = [int(part) for part in version.split(".")]
    return numbers + [0] * (3 - len(numbers))


def test_the_recipe_has_the_same_versions():
    recipe = (ROOT / ".github" / "conda-forge" / "recipe.yaml").read_text()
    assert f'\n  version: "{skrbm.__version__.partition(".dev")[0]}"\n' in recipe
    assert f'python_min: "{PROJECT["requires-python"].removeprefix(">=")}"' in recipe
    for name, oldest in lower_bounds(PROJECT["dependencies"]).items():
        assert f"\n    - {name} >={oldest}\n" in recipe


def test_the_oldest_versions_tested_are_the_oldest_allowed():
    lines = (ROOT / ".ci" / "oldest.txt").read_text().splitlines()
    tested = dict(line.split("==") for line in lines if "==" in line)
    required = lower_bounds(PROJECT["dependencies"])
    allowed = lower_bounds(PROJECT["optional-dependencies"]["tests"]) | required
    assert set(required) <= set(tested)
    for name in set(allowed) & set(tested):
        assert as_numbers(tested[name]) == as_numbers(allowed[name]), name
