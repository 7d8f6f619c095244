"""The snippets of the documentation and of README run as they are, those of a page in their order.

``.. code-block:: python`` is code of ours, and is run. Code of other packages, on the pages for
those who come from them, is marked ``py``. What a line prints is near the numbers of the comment
behind it.
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
    assert code.rstrip().endswith("# plots the training curve")
    assert {"skrbm", "sklearn"} <= set(imported(code)) <= {"numpy", "skrbm", "sklearn"} | OPTIONAL


def numbers(text):
    return [float(number) for number in re.findall(r"(?<![\w.])-?\d+\.?\d*(?:e-?\d+)?", text)]


def is_near(found, told):
    """Whether a number is one that was told, as far as other processors may give other digits."""
    return any(abs(found - number) <= 0.1 * abs(number) + 0.02 for number in told)


def telling(code):
    """Return the code, with marks around what lines print that end with a comment with numbers."""
    lines, told = code.splitlines(), []
    for node in ast.parse(code).body:
        end = node.end_lineno - 1
        comment = lines[end].encode()[node.end_col_offset :].decode()
        if isinstance(node, ast.Expr) and numbers(comment):
            source = "\n".join(lines[node.lineno - 1 : end + 1])
            shown = source if source.startswith("print(") else f"print({source}\n)"
            told.append(comment)
            lines[node.lineno - 1 : end + 1] = [""] * (end - node.lineno + 2)
            lines[end] = f'print("<<<")\n{shown}\nprint(">>>")'
    return "\n".join(lines), told


def test_numbers_behind_a_line_are_found():
    code, told = telling("x = 1  # 2\nx  # 1.02, as 3\nprint(\n    x\n)  # 4\nprint(x)  # none\n")
    assert told == ["  # 1.02, as 3", "  # 4"]
    assert code.count("<<<") == 2 and "print(x  # 1.02, as 3\n)" in code
    assert numbers("(450, 100), -25.1 nats of 1e-3; v2") == [450, 100, -25.1, 1e-3]
    assert is_near(-24.0, [3, -25.1]) and not is_near(-22.0, [3, -25.1])


@pytest.mark.checks
@pytest.mark.parametrize(
    "page", [*PAGES, ROOT / "README.md"], ids=lambda page: str(page.relative_to(ROOT))
)
def test_the_snippets_of_a_page_run(page, tmp_path):
    code = code_of(page)
    for package in sorted(OPTIONAL & set(imported(code))):
        pytest.importorskip(package)
    code, told = telling(code)
    script = tmp_path / "snippets.py"
    script.write_text(code)
    environment = os.environ | {"MPLBACKEND": "Agg", "PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    printed = re.findall(r"<<<\n(.*?)>>>", run.stdout, re.S)
    pairs = list(zip(printed, told, strict=True))
    far = [
        (output, comment)
        for output, comment in pairs
        if not all(is_near(x, numbers(comment)) for x in numbers(output)[: len(numbers(comment))])
    ]
    assert not far
