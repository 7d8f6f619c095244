"""
=============
Visible units
=============

The digits have grey values from 0 to 1, half of which are exactly 0. Samples of binary units are 0
or 1, truncated Gaussian units have a density on [0, 1], and truncated Gauss-Bernoulli units also
have a point mass at 0.
"""

# %%
# Samples of three models
# -----------------------
# To the right of the samples: the fraction of pixels that are exactly 0, and a histogram of the
# others.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from skrbm import RBM

X = load_digits().data.astype(np.float32) / 16
kinds = ["bernoulli", "truncated_gaussian", "truncated_gauss_bernoulli"]
models = {kind: RBM(64, visible=kind, n_iter=30, random_state=0).fit(X) for kind in kinds}
samples = {"data": X[:150]}
for kind, rbm in models.items():
    samples[kind] = rbm.sample(150, n_steps=300, random_state=0)

figure = plt.figure(figsize=(8, 5.4), layout="constrained")
rows = figure.subfigures(len(samples), 2, width_ratios=[3, 1])
for (left, right), (name, V) in zip(rows, samples.items(), strict=True):
    left.suptitle(name.replace("_", " "), fontsize=10)
    for axis, image in zip(left.subplots(1, 8), V, strict=False):
        axis.imshow(image.reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
        axis.set_axis_off()
    right.suptitle(f"{np.mean(V == 0):.0%} are 0; the others:", fontsize=9)
    right.subplots().hist(V[V != 0], bins=16, range=(0, 1), color="0.4")
plt.show()
