"""Configuration of the documentation; it builds without a network and with warnings as errors."""

import ast
import importlib.util
import inspect
import os
import re
from html import escape
from pathlib import Path

from docutils import nodes
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


def methods_shared_with_rbm(estimator):
    """Return the methods of an estimator that are RBM's own, which doc/methods.rst describes."""
    return [
        name
        for name in re.findall(r"RBM\.(\w+)", Path(__file__).with_name("methods.rst").read_text())
        if inspect.getattr_static(estimator, name, None) is inspect.getattr_static(skrbm.RBM, name)
    ]


SHARED = {f"skrbm.{name}": methods_shared_with_rbm(getattr(skrbm, name)) for name in skrbm.__all__}
autosummary_context = {"shared_methods": SHARED}
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
html_title = f"skrbm {release}"
html_favicon = "_static/logo.svg"
html_static_path = ["_static", str(mathjax_package / "static" / "mathjax" / mathjax_path)]
html_css_files = ["pages.css"]
html_search_scorer = str(Path(__file__).with_name("_static") / "scorer.js")
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "skrbm", "image_light": "_static/logo.svg", "image_dark": "_static/logo.svg"},
    "icon_links": [
        {
            "name": "Source on GitHub",
            "url": "https://github.com/skrbm/skrbm",
            "icon": "fa-brands fa-github",
        }
    ],
    "show_toc_level": 2,
    "header_links_before_dropdown": 7,
    "navbar_start": ["navbar-logo", "version"],
    "navbar_persistent": ["search-button"],
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}


def add_description(app, pagename, templatename, context, doctree):
    """Describe a page to search engines by its first paragraph."""
    if doctree is not None and (first := next(doctree.findall(nodes.paragraph), None)):
        description = escape(" ".join(first.astext().split())[:300])
        context["metatags"] += f'<meta name="description" content="{description}" />'


def find_shared_method(app, env, node, contnode):
    """Resolve a method of another estimator that is RBM's own, such as TAPRBM.sample."""
    owner, _, name = node["reftarget"].rpartition(".")
    owner = owner.rpartition(".")[2] or node.get("py:class")
    if name in SHARED.get(f"skrbm.{owner}", ()):
        target, page = f"skrbm.RBM.{name}", node["refdoc"]
        return env.domains["py"].resolve_xref(
            env, page, app.builder, "meth", target, node, contnode
        )


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
    """Connect the functions above, and add the list of rooms."""
    app.connect("html-page-context", add_description)
    app.connect("missing-reference", find_shared_method)
    app.connect("autodoc-skip-member", skip_foreign_members)
    app.add_directive("rooms", Rooms)
