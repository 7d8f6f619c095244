"""The pages of the documentation agree with the code: examples run, and what is public is named."""

import doctest
import inspect
import re
import runpy
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.utils import estimator_html_repr

import skrbm

ROOT = Path(__file__).parents[1]
PAGES = sorted(page for page in (ROOT / "doc").rglob("*.rst") if ">>> " in page.read_text())
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
ESTIMATORS = [name for name in skrbm.__all__ if name[0].isupper()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_examples_of_a_page_print_what_it_says(page):
    failed, attempted = doctest.testfile(str(page), module_relative=False, optionflags=FLAGS)
    assert attempted and not failed


def test_pages_have_examples():
    assert {"fit", "add_optimizer", "arrays"} <= {page.stem for page in PAGES}


def test_the_estimator_of_the_guide_learns_as_the_general_one_does():
    X = (np.random.default_rng(0).random((30, 6)) < 0.4).astype(np.float64)
    Estimator = runpy.run_path(str(ROOT / "doc" / "developers" / "hopfield.py"))["HopfieldRBM"]
    same = {"n_components": 3, "n_iter": 3, "n_steps": 2, "random_state": 0}
    ours = Estimator(**same).fit(X, sample_weight=np.arange(30) % 3)
    plain = {"learning_rate": 0.1, "schedule": "constant", "alpha": 0.0}
    plain |= {"centered": False, "average": False}
    theirs = skrbm.RBM(hidden="gaussian", **plain, **same).fit(X, sample_weight=np.arange(30) % 3)
    assert_array_equal(ours.components_, theirs.components_)
    assert_array_equal(ours.sample(5, random_state=0), theirs.sample(5, random_state=0))


@pytest.mark.parametrize(
    "name", ["Optimizer", "Gradient", "FixedPoint", "Sampler", "Needs", "Unit"]
)
def test_every_contract_is_in_the_reference(name):
    assert re.search(rf"^   {name}$", (ROOT / "doc" / "api.rst").read_text(), re.MULTILINE)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_is_in_the_reference_and_the_readme(name):
    assert re.search(rf"^   {name}$", (ROOT / "doc" / "api.rst").read_text(), re.MULTILINE)
    assert f"| `{name}` |" in (ROOT / "README.md").read_text()


def test_every_figure_of_the_readme_has_a_script_and_stands_in_the_benchmarks():
    text = (ROOT / "README.md").read_text().partition("## Benchmarks\n")[2]
    figures = re.findall(r"^- (.*\n(?:  .*\n)*)", text, re.MULTILINE)
    benchmarks = (ROOT / "doc" / "benchmarks.rst").read_text()
    assert len(figures) >= 5
    for figure in figures:
        scripts = re.findall(r"`([\w/]+\.py)`", figure)
        assert scripts, figure
        for script in scripts:
            assert (ROOT / "examples" / "benchmarks" / script).exists(), script
            assert script in benchmarks, script
        for number in re.findall(r"−?\d+\.\d+", figure):
            assert re.search(rf"(?<![\d.−]){number}(?!\d)", benchmarks), f"{number} in {figure}"


@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_html_representation_links_to_the_reference(name):
    html = estimator_html_repr(getattr(skrbm, name)())
    assert f'href="https://skrbm.readthedocs.io/en/stable/generated/skrbm.{name}.html"' in html


@pytest.mark.parametrize("name", ESTIMATORS)
def test_each_parameter_has_an_entry_of_its_own_for_its_tooltip(name):
    Estimator = getattr(skrbm, name)
    for parameter in Estimator().get_params(deep=False):
        assert re.search(rf"^{parameter} : ", inspect.getdoc(Estimator), re.MULTILINE), parameter


def test_estimators_of_others_link_to_no_page_of_ours():
    class Heirs(skrbm.RBM):
        """An estimator of another package."""

    Heirs.__module__ = "theirs"
    assert "skrbm.readthedocs.io" not in estimator_html_repr(Heirs())


@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_chapter_that_an_estimator_names_exists(name):
    (label,) = re.findall(r":ref:`User Guide <(\w+)>`", getattr(skrbm, name).__doc__)
    chapters = (ROOT / "doc").rglob("*.rst")
    assert any(f".. _{label}:\n" in page.read_text() for page in chapters)
