"""
=====================================
Images restored as structured outputs
=====================================

Each image of a digit is damaged, and all 64 pixels of the clean one are to be predicted from the
damaged ones. :class:`~skrbm.ConditionalRBM` predicts them together: pixels share hidden units,
which stand for strokes, so that they agree with each other. Logistic regression, which is the same
machine without hidden units, decides each pixel by itself.
"""

# %%
# Two kinds of damage
# -------------------
# Scikit-learn's digits have 8 x 8 pixels with 17 levels of grey; the upper half counts as 1. In one
# task each pixel is flipped with probability 0.1. In the other a square of 4 x 4 pixels at a random
# place is set to 0, and nothing says where it is.

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

Y = (load_digits().data > 7.5).astype("float32")
generator = np.random.default_rng(0)
flips = generator.random(Y.shape) < 0.1
squares = np.zeros((len(Y), 8, 8), bool)
for square, (row, column) in zip(squares, generator.integers(0, 5, (len(Y), 2)), strict=True):
    square[row : row + 4, column : column + 4] = True
squares = squares.reshape(Y.shape)
damaged = {"noisy": np.where(flips, 1 - Y, Y), "occluded": np.where(squares, 0, Y)}

# %%
# Prediction
# ----------
# A machine for each task, and logistic regression with the same settings. An error counts where a
# predicted pixel differs from the true one, of all pixels and of those that the damage had changed.

from skrbm import ConditionalRBM

train, test = train_test_split(np.arange(len(Y)), test_size=300, random_state=0)
settings = {"learning_rate": 0.3, "batch_size": 30, "n_iter": 8, "schedule": "cosine"}
machines, rows = {}, {}
print("task      predicted by         all pixels  changed pixels")
for task, X in damaged.items():
    crbm = ConditionalRBM(n_components=48, random_state=0, **settings).fit(X[train], Y[train])
    logistic = ConditionalRBM(n_components=0, random_state=0, **settings).fit(X[train], Y[train])
    machines[task] = crbm
    rows[task] = {"logistic": logistic.predict(X[test]), "machine": crbm.predict(X[test])}
    for name, predicted in rows[task].items():
        wrong = predicted != Y[test]
        changed = wrong[X[test] != Y[test]].mean()
        print(f"{task:9s} {name:20s} {wrong.mean():10.2%} {changed:15.2%}")

# %%
# Known pixels
# ------------
# If it is known where the square is, the pixels outside of it are known as well. Then
# :meth:`~skrbm.ConditionalRBM.impute` holds these at their values and infers the others, marked by
# NaN, from both: from the features as before, and from the known outputs through the hidden units.
# Logistic regression has no use for them.

X, hidden = damaged["occluded"], squares[test]
completed = machines["occluded"].impute(X[test], np.where(hidden, np.nan, Y[test]))
rows["occluded"]["completed"] = completed
print("errors inside of the square")
for name, predicted in rows["occluded"].items():
    print(f"{name:20s} {(predicted != Y[test])[hidden].mean():.2%}")

# %%
# Pictures
# --------
# From top to bottom: the truth, what the machines were shown, and what they make of it. Where
# pixels are lost, logistic regression leaves gaps and loose ends; the machine prefers whole
# strokes, though not always the right ones. "completed" knows where the square is.

import matplotlib.pyplot as plt

figure = plt.figure(figsize=(7, 7.5), layout="constrained")
figure.suptitle("Damaged digits and their restoration")
panels = figure.subfigures(2, 1, height_ratios=(4, 5))
for panel, (task, predictions) in zip(panels, rows.items(), strict=True):
    panel.suptitle(task)
    shown = {"truth": Y[test], "shown": damaged[task][test], **predictions}
    axes = panel.subplots(len(shown), 9)
    for line, (name, images) in zip(axes, shown.items(), strict=True):
        line[0].set_ylabel(name, fontsize=9)
        for axis, image in zip(line, images, strict=False):
            axis.imshow(image.reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
            axis.set(xticks=[], yticks=[])
plt.show()
