"""
============================
Hidden units and optimizers
============================

:class:`~skrbm.RBM` combines any kinds of units. Here the visible units are binary, and the hidden
units are binary, Gaussian (a Hopfield network) or truncated Gaussian on [0, 4]. Each model is
trained by gradient ascent with an automatic step length, and by Adam with a fixed rate.
"""

# %%
# Six models
# ----------

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from skrbm import RBM
from skrbm.units import TruncatedGaussian

X = (load_digits().data > 7).astype(np.float32)
X_train, X_test = train_test_split(X, random_state=0)

kinds = {"binary": "bernoulli", "Gaussian": "gaussian", "truncated": TruncatedGaussian(0, 4)}
rates = {"sgd": "auto", "adam": 0.005}
models, scores = {}, {}
for name, hidden in kinds.items():
    for optimizer, rate in rates.items():
        rbm = RBM(32, hidden=hidden, optimizer=optimizer, learning_rate=rate, random_state=0)
        models[name, optimizer] = rbm.set_params(batch_size=20, n_iter=15).fit(X_train)
        scores[name, optimizer] = rbm.score(X_test)
        print(f"{name:10s} {optimizer:5s} {scores[name, optimizer]:7.2f} nats per test image")

# %%
# Weights, samples and features
# -----------------------------
# For each kind of hidden unit, the better of both models: its eight largest receptive fields, eight
# samples, and the distribution of the features of test images.

figure = plt.figure(figsize=(8, 7), layout="constrained")
rows = figure.subfigures(len(kinds), 3, width_ratios=[2, 2, 1.4])
for row, name in zip(rows, kinds, strict=True):
    optimizer = max(rates, key=lambda optimizer, name=name: scores[name, optimizer])
    rbm = models[name, optimizer]
    largest = np.argsort(-np.linalg.norm(rbm.components_, axis=1))[:8]
    images = {"weights": rbm.components_[largest], "samples": rbm.sample(8, random_state=0)}
    for panel, (title, values) in zip(row, images.items(), strict=False):
        panel.suptitle(f"{name} units, {optimizer}: {title}", fontsize="small")
        limit = np.abs(values).max()
        for axis, image in zip(panel.subplots(2, 4).flat, values, strict=True):
            axis.imshow(image.reshape(8, 8), cmap="RdBu_r", vmin=-limit, vmax=limit)
            axis.set_axis_off()
    row[2].suptitle("features", fontsize="small")
    row[2].subplots().hist(rbm.transform(X_test).ravel(), bins=40)
plt.show()

# %%
# Scores
# ------

figure, axis = plt.subplots(figsize=(7.5, 2.8), layout="constrained")
for optimizer, fill in {"sgd": "none", "adam": "full"}.items():
    values = [scores[name, optimizer] for name in kinds]
    axis.plot(values, list(kinds), "o", markersize=12, fillstyle=fill, label=optimizer)
axis.legend(loc="upper center")
axis.set(xlabel="test log-likelihood (nats)")
axis.margins(y=0.3)
plt.show()
