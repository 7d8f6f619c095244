"""Pictures of fitted machines, as scikit-learn's Display classes; they need matplotlib."""

from ._components import ComponentsDisplay
from ._diagnosis import DiagnosisDisplay
from ._free_energy import FreeEnergyDisplay
from ._history import HistoryDisplay
from ._landscape import LandscapeDisplay
from ._recorder import SolutionsRecorder

__all__ = [
    "ComponentsDisplay",
    "DiagnosisDisplay",
    "FreeEnergyDisplay",
    "HistoryDisplay",
    "LandscapeDisplay",
    "SolutionsRecorder",
]
