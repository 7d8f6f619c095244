"""The parts that the developers' guide shows how to write, from the files that it shows."""

import importlib.util
import sys
from pathlib import Path

DEVELOPERS = Path(__file__).parents[1] / "doc" / "developers"


def _load(name):
    spec = importlib.util.spec_from_file_location(f"documented_{name}", DEVELOPERS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # so that what it defines can be pickled
    spec.loader.exec_module(module)
    return module


Spin, MeanField = _load("spin").Spin, _load("mean_field").MeanField
