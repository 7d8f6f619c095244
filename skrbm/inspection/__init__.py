"""Plots of fitted estimators, as Display classes like those of scikit-learn (needs matplotlib)."""

from ._components import ComponentsDisplay
from ._diagnosis import DiagnosisDisplay
from ._feature_scores import FeatureScoresDisplay
from ._free_energy import FreeEnergyDisplay
from ._history import HistoryDisplay
from ._landscape import LandscapeDisplay
from ._recorder import SolutionsRecorder
from ._samples import SamplesDisplay
from ._solution_tree import SolutionTreeDisplay

__all__ = [
    "ComponentsDisplay",
    "DiagnosisDisplay",
    "FeatureScoresDisplay",
    "FreeEnergyDisplay",
    "HistoryDisplay",
    "LandscapeDisplay",
    "SamplesDisplay",
    "SolutionTreeDisplay",
    "SolutionsRecorder",
]
