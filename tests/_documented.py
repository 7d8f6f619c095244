"""The unit that the developers' guide shows how to write, from the file that it shows."""

import importlib.util
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "doc" / "developers" / "ternary.py"
_spec = importlib.util.spec_from_file_location("documented_ternary", SOURCE)
_module = sys.modules["documented_ternary"] = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)  # a module that is known, so that what it defines can be pickled
Ternary = _module.Ternary
