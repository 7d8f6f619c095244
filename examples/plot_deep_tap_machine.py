"""
======================
Deep Boltzmann machine
======================

The layers of a :class:`~skrbm.DeepTAPMachine` are pretrained one by one and then trained jointly.
"""

# %%
# Joint training
# --------------
# With ``n_iter=0`` a fit ends after the pretraining, and ``warm_start`` continues from there. TAP
# overestimates the log-likelihood, so annealed importance sampling (AIS) is used as a check.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from skrbm import DeepTAPMachine
from skrbm.evaluation import AIS
from skrbm.inspection import ComponentsDisplay

X, X_test = train_test_split(
    (load_digits().data > 7).astype(np.float32), test_size=500, random_state=0
)
deep = DeepTAPMachine((64, 24), n_iter_pretrain=10, n_iter=0, warm_start=True, random_state=0)
deep.fit(X)

curve = []
for epochs in (0, 1, 2, 4, 5):
    if epochs:
        deep.set_params(n_iter=epochs).fit(X)
    by_tap = deep.tap_log_likelihood(X_test).mean()
    by_ais = -deep.free_energy(X_test).mean() - deep.log_partition(AIS(100, 500))
    curve.append((sum(row[0] for row in curve[-1:]) + epochs, by_tap, by_ais))
    print(f"{curve[-1][0]:3d} joint epochs: {by_tap:7.2f} by TAP, {by_ais:7.2f} with AIS")

# %%
# Layers
# ------
# The weights of the first layer, and the effect of each unit of the second layer on the pixels.

one_on = np.eye(24, dtype=np.float32)
second = deep.inverse_transform(one_on) - deep.inverse_transform(0 * one_on)
first = deep.components_[0]
first = first[np.argsort(-np.linalg.norm(first, axis=1))[:24]]

figure = plt.figure(figsize=(7.5, 5.8), layout="constrained")
above, below = figure.subfigures(2, 1, height_ratios=(1.2, 1))
left, right = above.subfigures(1, 2)
left.suptitle("First layer: weights")
ComponentsDisplay(first, (8, 8)).plot(n_columns=6, figure=left)
right.suptitle("Second layer: effect on the pixels")
ComponentsDisplay(second, (8, 8)).plot(n_columns=6, figure=right)
epochs, by_tap, by_ais = zip(*curve, strict=True)
axis = below.subplots()
axis.plot(epochs, by_tap, "o-", label="by TAP")
axis.plot(epochs, by_ais, "o-", label="with log Z by AIS")
axis.set(xlabel="joint epochs", ylabel="test log-likelihood (nats)")
axis.legend()
plt.show()

# %%
# Test digits (above) and samples (below)
# ---------------------------------------

images = np.concatenate([X_test[:30], deep.sample(30, n_steps=500, random_state=0)])
figure, axes = plt.subplots(4, 15, figsize=(7.5, 2.5), layout="constrained")
for axis, image in zip(axes.flat, images, strict=True):
    axis.imshow(image.reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
    axis.set_axis_off()
plt.show()
