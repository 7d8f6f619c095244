"""The snippets of the documentation and of README run as they are, those of a page in their order.

``.. code-block:: python`` is code of ours, and is run. Code of other packages, on the pages for
those who come from them, is marked ``py``.
"""

import ast
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOC = ROOT / "doc"
PAGES = sorted(
    page
    for pattern in ("index.rst", "start.rst", "choose.rst", "guide/*.rst", "coming_from/*.rst")
    for page in DOC.glob(pattern)
    if ".. code-block:: python\n" in page.read_text()
)
OPTIONAL = {"dask", "distributed", "h5py", "matplotlib", "pandas", "polars", "torch", "zarr"}


def code_of(page):
    """All snippets of a page, in its order."""
    text = page.read_text()
    if page.suffix == ".md":
        return "\n".join(re.findall(r"^```python\n(.*?)^```", text, re.M | re.S))
    found = re.findall(r"^( *)\.\. code-block:: python\n((?:\1   .*\n|\s*\n)+)", text, re.M)
    return "\n".join(textwrap.dedent(body).strip("\n") for _, body in found)


def imported(code):
    """Names of the packages that the code imports."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module.partition(".")[0]


def test_snippets_are_found():
    code = code_of(DOC / "start.rst")
    assert code.startswith("from sklearn.datasets import load_digits\n")
    assert code.rstrip().endswith("# draws the course of the fit")
    assert {"skrbm", "sklearn"} <= set(imported(code)) <= {"numpy", "skrbm", "sklearn"} | OPTIONAL


@pytest.mark.checks
@pytest.mark.parametrize(
    "page", [*PAGES, ROOT / "README.md"], ids=lambda page: str(page.relative_to(ROOT))
)
def test_the_snippets_of_a_page_run(page, tmp_path):
    code = code_of(page)
    for package in sorted(OPTIONAL & set(imported(code))):
        pytest.importorskip(package)
    script = tmp_path / "snippets.py"
    script.write_text(code)
    environment = os.environ | {"MPLBACKEND": "Agg", "PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
