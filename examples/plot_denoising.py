"""
=========
Denoising
=========

Bits of test images are flipped with a known probability, and :meth:`~skrbm.TAPRBM.denoise` computes
the posterior probability of each bit with the RBM as the prior. It is compared with a pointwise
estimate, which knows only the mean of each pixel, and with the nearest training image.
"""

# %%
# Matthews' correlation between true and estimated bits
# -----------------------------------------------------

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import matthews_corrcoef
from sklearn.model_selection import train_test_split
from sklearn.neighbors import NearestNeighbors

from skrbm import TAPRBM

X = (load_digits().data > 7.5).astype("float32")
X_train, X_test = train_test_split(X, test_size=300, random_state=0)
rbm = TAPRBM(n_components=64, random_state=0).fit(X_train)
mean = X_train.mean(axis=0)
neighbours = NearestNeighbors(n_neighbors=1).fit(X_train)


def pointwise(Y, p):
    """Posterior of a bit with its mean as prior."""
    one, zero = np.where(Y == 1, 1 - p, p) * mean, np.where(Y == 1, p, 1 - p) * (1 - mean)
    return one / (one + zero)


estimates = {
    "RBM": lambda Y, p: rbm.denoise(Y, flip_probability=p, n_starts=5, random_state=0),
    "nearest": lambda Y, p: X_train[neighbours.kneighbors(Y)[1][:, 0]],
    "pointwise": pointwise,
}
flips = [0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4]
generator = np.random.default_rng(0)
noisy = {p: np.where(generator.random(X_test.shape) < p, 1 - X_test, X_test) for p in flips}
restored = {name: {p: estimate(noisy[p], p) for p in flips} for name, estimate in estimates.items()}

figure = plt.figure(figsize=(7.5, 7), layout="constrained")
above, below = figure.subfigures(2, 1, height_ratios=(1, 1.4))
axis = above.subplots()
for name, found in restored.items():
    scores = [matthews_corrcoef(X_test.ravel() > 0.5, found[p].ravel() > 0.5) for p in flips]
    axis.plot(flips, scores, "o-", label=name)
axis.set(xlabel="flip probability", ylabel="Matthews' correlation", ylim=(0, 1))
axis.legend()

rows = {"truth": dict.fromkeys(flips, X_test), "noisy": noisy, **restored}
for p, panel in zip((0.1, 0.2, 0.3), below.subfigures(1, 3), strict=True):
    panel.suptitle(f"{p:.0%} of the bits are flipped", fontsize=10)
    for line, (name, images) in zip(panel.subplots(len(rows), 4), rows.items(), strict=True):
        line[0].set_ylabel(name, fontsize=8)
        for axis, image in zip(line, images[p], strict=False):
            axis.imshow(image.reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
            axis.set(xticks=[], yticks=[])
plt.show()
