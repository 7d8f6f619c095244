"""
======================
Generation from noise
======================

:class:`~skrbm.GaussianBernoulliRBM` is trained on digits by Gibbs-Langevin sampling from noise, and
generates digits in the same way, as in Fig. 2 of :cite:t:`Liao2022` but on small images.
"""

# %%
# From noise to digits
# --------------------
# Each row shows one chain after increasing numbers of steps. Training used 20 steps.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from skrbm import GaussianBernoulliRBM
from skrbm.inference import GibbsLangevin

X = load_digits().data.astype("float32")
chains = GibbsLangevin(n_steps=20, burn_in=0, adjust_after=None)
rbm = GaussianBernoulliRBM(128, inference=chains, learning_rate=0.1, n_iter=40, random_state=0)
rbm.fit(X)

steps = [0, 1, 2, 5, 10, 20, 40, 100]
V, states = rbm.sample(8, n_steps=100, return_steps=steps, random_state=1)
figure, axes = plt.subplots(8, len(steps) + 1, figsize=(7, 6.4), layout="constrained")
for chain, line in enumerate(axes):
    for axis, image in zip(line, [*states[:, chain], X[chain]], strict=True):
        axis.imshow(image.reshape(8, 8), cmap="gray_r", vmin=0, vmax=16)
        axis.set_axis_off()
for axis, title in zip(axes[0], [*steps, "data"], strict=True):
    axis.set_title(title, fontsize=9)
plt.show()

# %%
# Weights and variances
# ---------------------
# Left: the weights of 25 hidden units. Right: the variance of each pixel given the hidden units,
# against its variance in the data.

order = np.argsort(-np.abs(rbm.components_).sum(axis=1))[:25]
figure = plt.figure(figsize=(7.5, 4), layout="constrained")
left, right = figure.subfigures(1, 2)
for axis, unit in zip(left.subplots(5, 5).flat, order, strict=True):
    axis.imshow(rbm.components_[unit].reshape(8, 8), cmap="RdBu_r")
    axis.set_axis_off()
axis = right.subplots()
varies = X.var(axis=0) > 0
axis.loglog(X.var(axis=0)[varies], rbm.variances_[varies], ".")
axis.loglog([0.001, 50], [0.001, 50], "k:", linewidth=1)
axis.set(xlabel="variance of the pixel", ylabel="variance given the hidden units")
plt.show()
