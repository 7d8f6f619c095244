"""
Grey values and the kinds of units
==================================

A machine's samples show what its visible units can express. The digits have grey values from 0 to
1, half of them exactly 0. Binary units know only 0 and 1: their means are grey, their samples are
not. Truncated Gaussian units have all values between, but none of them with a finite probability;
truncated Gauss-Bernoulli units have a point mass at 0 beside the density.
"""

# %%
# Three machines of one size
# --------------------------
# ``visible`` is all that differs. The bounds are those of the data.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from skrbm import RBM

X = load_digits().data.astype(np.float32) / 16
kinds = ["bernoulli", "truncated_gaussian", "truncated_gauss_bernoulli"]
machines = {kind: RBM(64, visible=kind, n_iter=30, random_state=0).fit(X) for kind in kinds}

# %%
# Samples and their grey values
# -----------------------------
# Each sample is the end of a Gibbs chain of 300 sweeps that began at one of the last rows of the
# fit. Beside them are the part of the pixels that are exactly 0 and the histogram of the others.

samples = {"data": X[:150]}
for kind, rbm in machines.items():
    samples[kind] = rbm.sample(150, n_steps=300, random_state=0)

figure = plt.figure(figsize=(8, 5.4), layout="constrained")
figure.suptitle("Digits, samples of three kinds of visible units, and their grey values")
rows = figure.subfigures(len(samples), 2, width_ratios=[3, 1])
for (left, right), (name, V) in zip(rows, samples.items(), strict=True):
    for axis, image in zip(left.subplots(1, 8), V, strict=False):
        axis.imshow(image.reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
        axis.set(xticks=[], yticks=[])
    left.suptitle(name.replace("_", " "), fontsize=10)
    axis = right.subplots()
    axis.hist(V[V != 0], bins=16, range=(0, 1), color="0.4")
    axis.set(yticks=[], xticks=[0, 1])
    right.suptitle(f"{np.mean(V == 0):.0%} are 0; the others:", fontsize=9)
plt.show()

# %%
# Beyond samples
# --------------
# Every kind has the same methods. Here the lower half of some digits is filled in with its mean
# given the upper half.

Y = X[:8].copy()
Y[:, 32:] = np.nan
filled = machines["truncated_gauss_bernoulli"].impute(Y, random_state=0)
figure, axes = plt.subplots(3, 8, figsize=(7.5, 3.2), layout="constrained")
figure.suptitle("Digits whose lower half is filled in")
for row, images in zip(axes, (X[:8], Y, filled), strict=True):
    for axis, image in zip(row, images, strict=True):
        axis.imshow(image.reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
        axis.set(xticks=[], yticks=[])
for axis, name in zip(axes[:, 0], ("digit", "observed", "filled"), strict=True):
    axis.set_ylabel(name)
plt.show()
