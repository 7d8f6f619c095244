"""
A deep machine of digits
========================

A deep Boltzmann machine has hidden units of hidden units. Its layers are first trained one by one,
each on samples of the one below, and then jointly. Here the joint part is followed, and the layers
are looked at.
"""

# %%
# Two parts of the training
# -------------------------
# Pixels above 7 of 16 are 1. With ``n_iter=0`` a fit ends after the pretraining, and with
# ``warm_start`` the next one continues from there.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from skrbm import DeepTAPMachine
from skrbm.evaluation import AIS

digits = load_digits()
X, X_test, y, y_test = train_test_split(
    (digits.data > 7).astype(np.float32), digits.target, test_size=500, random_state=0
)
machine = DeepTAPMachine((64, 24), n_iter_pretrain=10, n_iter=0, warm_start=True, random_state=0)
machine.fit(X)


def likelihoods():
    """Mean log-likelihood of the test rows: by TAP, and with log Z by annealing."""
    annealed = machine.log_partition(AIS(100, 500))
    by_annealing = -float(machine.free_energy(X_test).mean()) - annealed
    return float(machine.tap_log_likelihood(X_test).mean()), by_annealing


curve = [(0, *likelihoods())]
for epochs in (1, 2, 4, 5):
    machine.set_params(n_iter=epochs).fit(X)
    curve.append((machine.n_iter_, *likelihoods()))
for epoch, by_tap, by_annealing in curve:
    print(f"{epoch:3d} joint epochs: {by_tap:7.2f} by TAP, {by_annealing:7.2f} with AIS")

# %%
# TAP's own estimate is too good, the more so the larger the weights; annealed importance sampling
# of log Z is the check. By both, the joint training gains much over the pretrained stack, whose
# layers were not trained for each other.
#
# Layers
# ------
# The fields of the first layer are its weights; the 24 largest of 64 are shown. Those of the second
# are the expected pixels given that only one of its units is on, less those given that none is.

from skrbm.inspection import ComponentsDisplay

one_on = np.eye(24, dtype=np.float32)
second = machine.inverse_transform(one_on) - machine.inverse_transform(0 * one_on)

first = machine.components_[0]
first = first[np.argsort(-np.linalg.norm(first, axis=1))[:24]]  # those with the largest weights

figure = plt.figure(figsize=(7.5, 5.8), layout="constrained")
figure.suptitle("What two hidden layers have learned, and the likelihood in joint training")
above, below = figure.subfigures(2, 1, height_ratios=(1.2, 1))
left, right = above.subfigures(1, 2)
left.suptitle("First layer: weights")
ComponentsDisplay(first, (8, 8)).plot(n_columns=6, figure=left)
right.suptitle("Second layer: effect on the pixels")
ComponentsDisplay(second, (8, 8)).plot(n_columns=6, figure=right)
axis = below.subplots()
for column, label in ((1, "by TAP"), (2, "with log Z by AIS")):
    axis.plot([row[0] for row in curve], [row[column] for row in curve], "o-", label=label)
axis.set(xlabel="joint epochs", ylabel="test log-likelihood (nats)")
axis.legend()
plt.show()

# %%
# Samples
# -------
# Ends of Gibbs chains of 500 sweeps over all layers, below test digits.

samples = machine.sample(30, n_steps=500, random_state=0)
images = np.concatenate([X_test[:30], samples])
figure, axes = plt.subplots(4, 15, figsize=(7.5, 2.5), layout="constrained")
figure.suptitle("Test digits (above) and samples (below)")
for axis, image in zip(axes.flat, images, strict=True):
    axis.imshow(image.reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
    axis.set_axis_off()
plt.show()
