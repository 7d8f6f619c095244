"""Plots of fitted estimators, as Display classes of scikit-learn; they need matplotlib."""

from ._components import ComponentsDisplay
from ._diagnosis import DiagnosisDisplay
from ._feature_scores import FeatureScoresDisplay
from ._free_energy import FreeEnergyDisplay
from ._history import HistoryDisplay
from ._landscape import LandscapeDisplay
from ._recorder import SolutionsRecorder

__all__ = [
    "ComponentsDisplay",
    "DiagnosisDisplay",
    "FeatureScoresDisplay",
    "FreeEnergyDisplay",
    "HistoryDisplay",
    "LandscapeDisplay",
    "SolutionsRecorder",
]
