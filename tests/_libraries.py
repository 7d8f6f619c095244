"""The array libraries other than NumPy that tests run with.

``SKRBM_LIBRARIES="_torch_on_cuda cupy" pytest tests -m arrays`` adds libraries of a GPU, by the
names of their modules.
"""

import os

OTHER_LIBRARIES = ["array_api_strict", "torch", *os.environ.get("SKRBM_LIBRARIES", "").split()]
GPU = "_torch_on_cuda" in OTHER_LIBRARIES
