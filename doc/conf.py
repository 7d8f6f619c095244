"""Configuration of the documentation; it builds without a network and with warnings as errors."""

import ast
import importlib.util
import os
from pathlib import Path

from sphinx.util.docutils import SphinxDirective
from sphinx_gallery.sorting import ExplicitOrder

import skrbm

os.environ.setdefault("MPLBACKEND", "Agg")

project = "skrbm"
author = "skrbm developers"
copyright = "2026, skrbm developers"
release = skrbm.__version__
version = ".".join(release.split(".")[:2])

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "sphinxcontrib.bibtex",
]
bibtex_bibfiles = ["references.bib"]
bibtex_reference_style = "author_year"
templates_path = ["_templates"]
exclude_patterns = ["_build", "_templates", "paper", "Thumbs.db", ".DS_Store"]
default_role = "literal"  # as in docstrings: `X` is code
nitpicky = True  # a reference to nothing is an error ...
nitpick_ignore_regex = [(r"py:.*", r"sklearn\..*")]  # ... but to pages of another package

autosummary_generate = True
autosummary_filename_map = {  # or else two pages are one where file names ignore case
    f"skrbm.evaluation.{name}": f"skrbm.evaluation.{name}-function"
    for name in ("bracket", "solutions")
}
autodoc_typehints = "none"
numpydoc_show_class_members = False  # the class template lists the methods itself

# The order of the examples: what a newcomer asks for first. A new one comes after these.
_FIRST = """
digits_features missing_values samples_of_a_label denoising multilabel synthetic_table topics
sequences categories spikes generate_digits image_completion rbm kinds_of_units
gaussian_mixture_density how_many_hidden_units grid_search diagnose tap_landscape deep_tap_machine
resume large_data
""".split()
sphinx_gallery_conf = {
    "examples_dirs": ["../examples"],
    "gallery_dirs": ["auto_examples"],
    "filename_pattern": r"/plot_",
    "within_subsection_order": ExplicitOrder([*(f"plot_{name}.py" for name in _FIRST), "*"]),
    "ignore_pattern": r"(/benchmarks/|/_|__init__\.py)",
    "backreferences_dir": "generated/backreferences",
    "doc_module": ("skrbm",),
    "reference_url": {"skrbm": None},
    "remove_config_comments": True,
    "show_memory": False,
    "parallel": 2,
    "write_computation_times": False,  # whose page would load scripts from other hosts
    "download_all_examples": False,
}

# Formulas are drawn by a script of the book's own, so that it reads without a network.
mathjax_package = Path(importlib.util.find_spec("sphinx-mathjax-offline").origin).parent
mathjax_path = "tex-svg-full.js"  # one file, which asks for no other

html_theme = "pydata_sphinx_theme"
html_title = "skrbm"
html_static_path = ["_static", str(mathjax_package / "static" / "mathjax" / mathjax_path)]
html_css_files = ["pages.css"]
html_show_sourcelink = False
html_theme_options = {
    "show_toc_level": 2,
    "header_links_before_dropdown": 11,  # all but the last few fit beside an icon for the search
    "navbar_persistent": ["search-button"],
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
_ALONE = "start choose tasks benchmarks reliability references changelog"  # with no pages below
html_sidebars = {page: [] for page in _ALONE.split()}


def skip_foreign_members(app, what, name, obj, skip, options):
    """Leave out what a class inherits from elsewhere; scikit-learn's own pages describe it."""
    module = getattr(obj, "__module__", None) or "skrbm"
    return skip or not module.startswith("skrbm")


class Rooms(SphinxDirective):
    """The rooms of the package in the order in which they may import each other.

    The order is that of the list which ``tests/test_imports.py`` holds the code to; what a room is
    comes from its docstring.
    """

    def run(self):
        package = Path(skrbm.__file__).parent
        tests = Path(__file__).parents[1] / "tests"
        tree = ast.parse((tests / "test_imports.py").read_text())
        assigned = {
            node.targets[0].id: node.value for node in tree.body if isinstance(node, ast.Assign)
        }
        rooms = [
            room
            for room in ast.literal_eval(assigned["ORDER"])
            if room and (package / room).is_dir()
        ]
        text = []
        for room in rooms:
            summary = importlib.import_module(f"skrbm.{room}").__doc__.strip().splitlines()[0]
            text.append(f"``{room}``\n    {summary}\n")
        return self.parse_text_to_nodes("\n".join(text))


def setup(app):
    """Connect the filter of members, and add the list of rooms."""
    app.connect("autodoc-skip-member", skip_foreign_members)
    app.add_directive("rooms", Rooms)
