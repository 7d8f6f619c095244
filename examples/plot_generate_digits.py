"""
========================
Digits drawn from noise
========================

A machine with Gaussian visible units learns scikit-learn's digits by Gibbs-Langevin sampling from
noise, the modified contrastive divergence of Liao et al. (2022), and then draws digits of its own:
Fig. 2 of the paper on small images.
"""

# %%
# The machine
# -----------
# Images have 8 x 8 pixels of 17 levels. Pixels are standardised inside, and what comes out is in
# their own units again.

import numpy as np
from sklearn.datasets import load_digits

from skrbm import GaussianBernoulliRBM

X = load_digits().data.astype("float32")
rbm = GaussianBernoulliRBM(
    n_components=128,
    n_steps=20,
    learning_rate=0.1,
    n_iter=40,
    random_state=0,
).fit(X)

# %%
# From noise to digits
# --------------------
# Each row is one chain, after more and more steps. To learn, chains were run for 20 steps.

import matplotlib.pyplot as plt

steps = [0, 1, 2, 5, 10, 20, 40, 100]
V, states = rbm.sample(8, n_steps=100, return_steps=steps, random_state=1)
figure, axes = plt.subplots(8, len(steps) + 1, figsize=(7, 6.4), layout="constrained")
figure.suptitle("Chains from noise, after so many steps, and digits of the data")
for chain, line in enumerate(axes):
    for panel, image in zip(line, [*states[:, chain], X[chain]], strict=True):
        panel.imshow(image.reshape(8, 8), cmap="gray_r", vmin=0, vmax=16)
        panel.set(xticks=[], yticks=[])
for panel, step in zip(axes[0], steps, strict=False):
    panel.set_title(f"{step}", fontsize=9)
axes[0, -1].set_title("data", fontsize=9)
plt.show()

# %%
# What was learned
# ----------------
# Left, what each of some hidden units adds to the pixels. Right, the variance that is left to each
# pixel given the hidden units, beside its variance in the data: the machine has learned where the
# images are sharp.

order = np.argsort(-np.abs(rbm.components_).sum(axis=1))[:25]
figure = plt.figure(figsize=(7.5, 4), layout="constrained")
figure.suptitle("Weights of 25 hidden units, and the variances that are left to the pixels")
left, right = figure.subfigures(1, 2)
for panel, unit in zip(left.subplots(5, 5).flat, order, strict=True):
    panel.imshow(rbm.components_[unit].reshape(8, 8), cmap="RdBu_r")
    panel.set(xticks=[], yticks=[])
axis = right.subplots()
varies = X.var(axis=0) > 0
axis.loglog(X.var(axis=0)[varies], rbm.variances_[varies], ".")
axis.loglog([0.001, 50], [0.001, 50], "k:", linewidth=1)
axis.set(xlabel="variance of the pixel", ylabel="variance given the hidden units")
plt.show()
