"""Being here puts this folder on the path, so that all tests find the oracle ``_exact``."""
