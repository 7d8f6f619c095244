"""Being here puts this folder on the path, so that all tests find the oracle ``_exact``."""

import os

from _libraries import GPU

if not GPU:
    os.environ["TRITON_INTERPRET"] = "1"  # before Triton is imported: kernels run on the processor
