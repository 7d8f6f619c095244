"""The examples of the docstrings print what they say."""

import doctest
import importlib
import pkgutil

import pytest

import skrbm
from skrbm._callbacks import HAS_CALLBACKS

MODULES = sorted(m.name for m in pkgutil.walk_packages(skrbm.__path__, "skrbm."))
EXAMPLES = {
    test.name: test
    for name in MODULES
    for test in doctest.DocTestFinder().find(importlib.import_module(name))
    if test.examples
}
NEEDS_CALLBACKS = "skrbm.inspection._recorder.SolutionsRecorder"


def test_the_examples_are_found():
    found = {name.rpartition(".")[2] for name in EXAMPLES}
    assert set(skrbm.__all__) - {"__version__"} <= found
    assert NEEDS_CALLBACKS in EXAMPLES


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_examples_of_docstrings(name):
    if name == NEEDS_CALLBACKS and not HAS_CALLBACKS:
        pytest.skip("callbacks came with scikit-learn 1.9")
    printed = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    failed, tried = runner.run(EXAMPLES[name], out=printed.append)
    assert tried and not failed, "".join(printed)
