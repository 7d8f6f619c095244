"""Files of fitted estimators: plain arrays and JSON, which run no code when they are loaded."""

from ._checkpoint import Checkpoint, resume
from ._files import load, save, trusted_types

__all__ = ["Checkpoint", "load", "resume", "save", "trusted_types"]
