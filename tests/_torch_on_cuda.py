"""torch, with arrays on a GPU where no device is given."""

import torch

if not torch.cuda.is_available():
    raise ImportError("torch finds no GPU")


def _on_gpu(name):
    def make(*args, **kwargs):
        return getattr(torch, name)(*args, **{"device": "cuda", **kwargs})

    return make


asarray, zeros, ones, full, arange = map(_on_gpu, ("asarray", "zeros", "ones", "full", "arange"))


def __getattr__(name):
    return getattr(torch, name)
