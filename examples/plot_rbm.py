"""
=========================================
Kinds of hidden units, and two optimisers
=========================================

:class:`~skrbm.RBM` takes any kind of units, any inference and any optimiser. Here the visible units
are binary and the inference is persistent contrastive divergence throughout. What changes are the
hidden units: binary; Gaussian, which make a Hopfield network; and truncated Gaussian units on
[0, 4], which are never negative, as rectified linear units are. Each machine learns once by
gradient ascent, whose learning rate is found in training, and once by Adam at a rate that is given.
"""

# %%
# Six machines
# ------------
# A pixel of scikit-learn's digits counts as on above 7 of 16. A quarter of the images is held out.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from skrbm import RBM
from skrbm.units import TruncatedGaussian

X = (load_digits().data > 7).astype(np.float32)
X_train, X_test = train_test_split(X, random_state=0)

kinds = {
    "binary": "bernoulli",
    "Gaussian": "gaussian",
    "truncated": TruncatedGaussian(0, 4),
}
rates = {"sgd": "auto", "adam": 0.005}
fill = {"sgd": "none", "adam": "full"}
machines = {
    (name, optimizer): RBM(
        32,
        hidden=hidden,
        optimizer=optimizer,
        learning_rate=rate,
        batch_size=20,
        n_iter=15,
        random_state=0,
    ).fit(X_train)
    for name, hidden in kinds.items()
    for optimizer, rate in rates.items()
}

# %%
# Scores of held-out images
# -------------------------
# ``score`` is the mean log-likelihood in nats, whatever the units are. Adam's steps have about the
# same length for every parameter, whatever the size of its gradient.

scores = {key: rbm.score(X_test) for key, rbm in machines.items()}
for (name, optimizer), score in scores.items():
    print(f"{name:10s} {optimizer:5s} {score:7.2f} nats per image")

# %%
# Weights, samples and features
# -----------------------------
# The machine with the better score of each kind: its eight strongest receptive fields; eight
# samples, ends of Gibbs chains; and the features of the held-out images, E[h | v].

figure = plt.figure(figsize=(8, 7), layout="constrained")
figure.suptitle("Weights, samples and features of machines with three kinds of hidden units")
rows = figure.subfigures(len(kinds), 3, width_ratios=[2, 2, 1.4])
for row, (name, color) in zip(rows, zip(kinds, ("C0", "C1", "C2"), strict=True), strict=True):
    optimizer = max(rates, key=lambda optimizer, name=name: scores[name, optimizer])
    rbm = machines[name, optimizer]
    strongest = np.argsort(-np.linalg.norm(rbm.components_, axis=1))[:8]
    weights, limit = rbm.components_[strongest], np.abs(rbm.components_[strongest]).max()
    for axis, image in zip(row[0].subplots(2, 4).flat, weights, strict=True):
        axis.imshow(image.reshape(8, 8), cmap="RdBu_r", vmin=-limit, vmax=limit)
        axis.set_axis_off()
    samples = rbm.sample(8, n_steps=500, random_state=0)
    for axis, image in zip(row[1].subplots(2, 4).flat, samples, strict=True):
        axis.imshow(image.reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
        axis.set(xticks=[], yticks=[])
    axis = row[2].subplots()
    axis.hist(rbm.transform(X_test).ravel(), bins=40, color=color)
    axis.set(yticks=[])
    row[0].suptitle(f"{name} units, {optimizer}: weights", fontsize="medium")
    row[1].suptitle("samples", fontsize="medium")
    row[2].suptitle("features", fontsize="medium")
plt.show()

# %%
# The scores once more
# --------------------
# Filled circles are Adam, open ones gradient ascent. Further to the right is better.

figure, axis = plt.subplots(figsize=(7.5, 2.8), layout="constrained")
for (name, optimizer), score in scores.items():
    color = f"C{list(kinds).index(name)}"
    axis.plot(score, name, "o", color=color, markersize=12, fillstyle=fill[optimizer])
for optimizer, style in fill.items():
    axis.plot([], [], "o", color="gray", markersize=12, fillstyle=style, label=optimizer)
axis.legend(loc="upper center")
axis.set(xlabel="nats per image", title="Log-likelihood of held-out images")
axis.margins(y=0.3)
axis.invert_yaxis()
plt.show()
