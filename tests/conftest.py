"""Being here puts this folder on the path, so that all tests find the oracle ``_exact``."""

import _libraries  # noqa: F401, what it sets must be set before torch is imported
