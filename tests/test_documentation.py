"""The examples of the docstrings print what they say."""

import doctest
import importlib
import pkgutil

import pytest

import skrbm

KERNELS = "skrbm.inference._odds_triton"  # imports what is optional, and has no examples
MODULES = sorted(
    m.name for m in pkgutil.walk_packages(skrbm.__path__, "skrbm.") if m.name != KERNELS
)
EXAMPLES = {
    test.name: test
    for name in MODULES
    for test in doctest.DocTestFinder().find(importlib.import_module(name))
    if test.examples
}


def test_the_examples_are_found():
    found = {name.rpartition(".")[2] for name in EXAMPLES}
    assert set(skrbm.__all__) - {"__version__"} <= found


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_examples_of_docstrings(name):
    printed = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    failed, tried = runner.run(EXAMPLES[name], out=printed.append)
    assert tried and not failed, "".join(printed)
