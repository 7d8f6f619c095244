"""
=================
Image restoration
=================

All 64 pixels of an image are predicted from a damaged version. :class:`~skrbm.ConditionalRBM`
couples them through hidden units. Without hidden units it is a logistic regression of each pixel.
"""

# %%
# Two kinds of damage
# -------------------
# Either pixels are flipped, or a square of 4 x 4 pixels at a random position is set to 0. Errors
# are given for all pixels, and for those changed by the damage.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from skrbm import ConditionalRBM
from skrbm.learning import SGD

Y = (load_digits().data > 7.5).astype("float32")
generator = np.random.default_rng(0)
flips = generator.random(Y.shape) < 0.1
squares = np.zeros((len(Y), 8, 8), bool)
for square, (row, column) in zip(squares, generator.integers(0, 5, (len(Y), 2)), strict=True):
    square[row : row + 4, column : column + 4] = True
squares = squares.reshape(Y.shape)
damaged = {"noisy": np.where(flips, 1 - Y, Y), "occluded": np.where(squares, 0, Y)}

train, test = train_test_split(np.arange(len(Y)), test_size=300, random_state=0)
optimizer = SGD(alpha=0.0, schedule="cosine", average=False)
settings = {"learning_rate": 0.3, "batch_size": 30, "n_iter": 8, "optimizer": optimizer}
models, rows = {}, {}
print("task      model      all pixels  changed pixels")
for task, X in damaged.items():
    rows[task] = {}
    for name, n_components in {"logistic": 0, "RBM": 48}.items():
        model = ConditionalRBM(n_components, random_state=0, **settings)
        models[task, name] = model.fit(X[train], Y[train])
        rows[task][name] = model.predict(X[test])
        wrong = rows[task][name] != Y[test]
        changed = wrong[X[test] != Y[test]].mean()
        print(f"{task:9s} {name:10s} {wrong.mean():10.2%} {changed:15.2%}")

# %%
# Known pixels
# ------------
# If the position of the square is known, its pixels are marked by NaN, and
# :meth:`~skrbm.ConditionalRBM.impute` infers them from the features and from the known pixels.

X, hidden = damaged["occluded"], squares[test]
completed = models["occluded", "RBM"].impute(X[test], np.where(hidden, np.nan, Y[test]))
rows["occluded"]["completed"] = completed
for name, predicted in rows["occluded"].items():
    print(f"{name:10s} {(predicted != Y[test])[hidden].mean():.2%} errors inside the square")

# %%
# Images
# ------

figure = plt.figure(figsize=(7, 7.5), layout="constrained")
panels = figure.subfigures(2, 1, height_ratios=(4, 5))
for panel, (task, predictions) in zip(panels, rows.items(), strict=True):
    panel.suptitle(task)
    shown = {"truth": Y[test], "damaged": damaged[task][test], **predictions}
    for line, (name, images) in zip(panel.subplots(len(shown), 9), shown.items(), strict=True):
        line[0].set_ylabel(name, fontsize=9)
        for axis, image in zip(line, images, strict=False):
            axis.imshow(image.reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
            axis.set(xticks=[], yticks=[])
plt.show()
