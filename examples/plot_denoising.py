"""
==============================
Digits after bits were flipped
==============================

A machine that has learned what digits look like can restore them. Bits of held-out images are
flipped with a known probability, and :meth:`~skrbm.TAPRBM.denoise` computes the posterior
probability of each bit: the machine is the prior, and what was observed adds a field to each
visible unit.

Beside it stand the pointwise estimate, which knows the mean of each pixel and nothing of how pixels
hang together, and the training image nearest to the noisy one.
"""

# %%
# Data and machine
# ----------------
# Scikit-learn's digits have 8 x 8 pixels with 17 levels of grey; the upper half counts as 1.

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from skrbm import TAPRBM

X = (load_digits().data > 7.5).astype("float32")
X_train, X_test = train_test_split(X, test_size=300, random_state=0)
rbm = TAPRBM(n_components=64, random_state=0).fit(X_train)

# %%
# Three estimates
# ---------------
# The scores are Matthews' correlation between the true bits and the estimated ones, of all pixels
# of all images together: 1 for a perfect restoration, 0 for guesses.

from sklearn.metrics import matthews_corrcoef
from sklearn.neighbors import NearestNeighbors

mean = X_train.mean(axis=0)
neighbours = NearestNeighbors(n_neighbors=1).fit(X_train)


def pointwise(Y, p):
    """Posterior of a bit with its mean as prior, whatever the other bits are."""
    one, zero = np.where(Y == 1, 1 - p, p) * mean, np.where(Y == 1, p, 1 - p) * (1 - mean)
    return one / (one + zero)


def denoised(Y, p):
    """Mean of five solutions of the TAP equations."""
    return rbm.denoise(Y, flip_probability=p, n_starts=5, random_state=0)


estimates = {
    "machine": denoised,
    "nearest": lambda Y, p: X_train[neighbours.kneighbors(Y)[1][:, 0]],
    "pointwise": pointwise,
}
flips = np.array([0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4])
generator = np.random.default_rng(0)
noisy = {p: np.where(generator.random(X_test.shape) < p, 1 - X_test, X_test) for p in flips}
restored = {name: {p: estimate(noisy[p], p) for p in flips} for name, estimate in estimates.items()}
scores = {
    name: [matthews_corrcoef(X_test.ravel() > 0.5, found[p].ravel() > 0.5) for p in flips]
    for name, found in restored.items()
}

# %%
# Pictures
# --------
# Below, the digits at three strengths of noise; grey is a bit that stays in doubt. Where four bits
# in ten are wrong, too little is left to tell the digits apart, and to know each pixel's mean is as
# good as to know how pixels hang together.

import matplotlib.pyplot as plt

figure = plt.figure(figsize=(7.5, 7), layout="constrained")
figure.suptitle("Digits with flipped bits, and what three estimates make of them")
above, below = figure.subfigures(2, 1, height_ratios=(1, 1.4))
axis = above.subplots()
for name, curve in scores.items():
    axis.plot(flips, curve, "o-", label=name)
axis.set(xlabel="probability of a flip", ylabel="Matthews' correlation", ylim=(0, 1))
axis.legend()

shown, digits = (0.1, 0.2, 0.3), range(4)
rows = {"truth": {p: X_test for p in shown}, "noisy": noisy, **restored}
panels = below.subfigures(1, len(shown))
for p, panel in zip(shown, panels, strict=True):
    panel.suptitle(f"{p:.0%} of the bits are flipped", fontsize=10)
    axes = panel.subplots(len(rows), len(digits))
    for line, (name, images) in zip(axes, rows.items(), strict=True):
        for axis, digit in zip(line, digits, strict=True):
            image = images[p][digit].reshape(8, 8)
            axis.imshow(image, cmap="gray_r", vmin=0, vmax=1)
            axis.set(xticks=[], yticks=[])
        if p == shown[0]:
            line[0].set_ylabel(name, fontsize=9)
plt.show()
