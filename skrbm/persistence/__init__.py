"""Saving of fitted estimators, and checkpoints during training."""

from ._checkpoint import Checkpoint, resume
from ._files import load, save, trusted_types

__all__ = ["Checkpoint", "load", "resume", "save", "trusted_types"]
