"""
===================================
Features of digits for a classifier
===================================

Scikit-learn's digits are 1797 images of 8 x 8 pixels. Following scikit-learn's own example of a
restricted Boltzmann machine, the data are enlarged by copies shifted by a pixel in each direction,
and a logistic regression is fitted to the raw pixels and to the hidden units of a machine.

The machine is a :class:`~skrbm.TAPRBM`, trained deterministically at the fixed points of the TAP
equations. Scikit-learn's ``BernoulliRBM`` of the same size and number of epochs stands beside it.
"""

# %%
# Data
# ----
# Pixels are scaled to [0, 1], the range of binary units. A fifth of the rows is held out.

import numpy as np
from scipy.ndimage import shift
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import minmax_scale

images, labels = load_digits(return_X_y=True)
images = images.reshape(-1, 8, 8).astype("float32")
directions = [(0, 0), (0, 1), (0, -1), (1, 0), (-1, 0)]
shifted = [shift(images, (0, *step), order=0, mode="constant") for step in directions]
X = minmax_scale(np.concatenate(shifted).reshape(-1, 64), feature_range=(0, 1))
y = np.concatenate([labels] * len(directions))
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.2, random_state=0)

# %%
# Pipelines
# ---------
# A machine is a transformer: it goes in front of the classifier, and its parameters can be
# searched like any other's. Size, epochs and batches are the same for both machines.

import time

from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import BernoulliRBM as SklearnRBM
from sklearn.pipeline import make_pipeline

from skrbm import TAPRBM

classifier = LogisticRegression(C=100, max_iter=1000)
models = {
    "raw pixels": clone(classifier),
    "scikit-learn BernoulliRBM": make_pipeline(
        SklearnRBM(n_components=100, learning_rate=0.06, n_iter=10, random_state=0),
        clone(classifier),
    ),
    "TAPRBM": make_pipeline(
        TAPRBM(n_components=100, n_iter=10, batch_size=10, random_state=0),
        clone(classifier),
    ),
}
accuracy = {}
for name, model in models.items():
    begin = time.perf_counter()
    model.fit(X_train, y_train)
    accuracy[name] = model.score(X_test, y_test)
    print(f"{name:26s} accuracy {accuracy[name]:.3f}   ({time.perf_counter() - begin:.1f} s)")

# %%
# Pictures
# --------
# The receptive fields are the weights between the pixels and each hidden unit. The curve is the
# pseudo-likelihood, which the machine records after each epoch.

import matplotlib.pyplot as plt

from skrbm.inspection import ComponentsDisplay, HistoryDisplay

figure = plt.figure(figsize=(11, 5), layout="constrained")
left, right = figure.subfigures(1, 2, width_ratios=(1.1, 1))
left.suptitle("Receptive fields of 100 hidden units")
ComponentsDisplay.from_estimator(models["TAPRBM"][0], figure=left)
top, bottom = right.subplots(2, 1)
HistoryDisplay.from_estimator(models["TAPRBM"][0], ax=top, marker="o")
top.set_title("Learning curve (nats per image)")
top.set_ylabel("")
bars = bottom.barh(list(accuracy), list(accuracy.values()), color=["0.7", "0.7", "C0"])
bottom.bar_label(bars, fmt=" %.3f")
bottom.set(xlim=(0.5, 1.05), title="Test accuracy of logistic regression")
bottom.invert_yaxis()
figure.savefig("digits_features.png", dpi=100)
plt.show()
