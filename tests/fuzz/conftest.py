"""Being here puts the folder of ``_estimators`` on the path too."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "estimators"))
