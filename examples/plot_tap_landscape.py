"""
==============================
The landscape of a TAP machine
==============================

The fixed points of the TAP equations are the modes of a machine: each is a mean image with a free
energy, and each attracts the rows of data that the machine takes to be of its kind. This example
trains a :class:`~skrbm.TAPRBM` on scikit-learn's digits and looks at the solutions as
Figs. 4 to 7 of :cite:t:`Tramel2018` do: how many there are in the course of training, how their
free energies are distributed, and where they lie among the data.
"""

# %%
# Training, with a recorder
# -------------------------
# Pixels are made binary by a threshold. The recorder follows 1000 rows of data to the solutions
# they lead to, before training and after some of the epochs, which changes nothing in the fit. It
# is one of scikit-learn's callbacks (1.9 or later).

import numpy as np
from sklearn.datasets import load_digits

from skrbm import TAPRBM
from skrbm.inspection import SolutionsRecorder

X, y = load_digits(return_X_y=True)
X = (X > 7).astype("float32")
recorder = SolutionsRecorder(X[:1000], epochs=[0, 3, 5, 7, 10, 20, 30, 40], keep_solutions=True)
paper = {"starts": "data", "centered": False, "average": False, "batch_size": 20, "alpha": 0.001}
rbm = TAPRBM(64, learning_rate=0.1, schedule="constant", n_iter=40, random_state=0, **paper)
rbm.set_callbacks(recorder).fit(X)

print("epoch  solutions  unconverged")
for record in recorder.records_:
    print("{epoch:5d}  {n_solutions:9d}  {n_unconverged:11d}".format(**record))

# %%
# Before training there is one solution: the mean image. The number grows as the machine learns.
#
# Free energies
# -------------
# Each dot is a solution. Two solutions count as one if none of their visible means differs by
# 0.01; ``record["n_unique"]`` has the numbers at other tolerances too.

import matplotlib.pyplot as plt

from skrbm.inspection import ComponentsDisplay, FreeEnergyDisplay, LandscapeDisplay

figure = plt.figure(figsize=(9, 5), layout="constrained")
figure.suptitle("Free energies and number of solutions in the course of training")
FreeEnergyDisplay.from_recorder(recorder, figure=figure)
plt.show()

# %%
# Solutions as images
# -------------------
# The visible means of the solutions that attract most rows, with the number of rows.

found = recorder.records_[-1]["solutions"]
largest = np.argsort(-found.counts)[:10]
figure, axes = plt.subplots(2, 5, figsize=(6, 3.2), layout="constrained")
figure.suptitle("Solutions as images, with numbers of rows", fontsize="medium")
for ax in axes.flat:
    ax.set_axis_off()
for ax, k in zip(axes.flat, largest, strict=False):
    ax.imshow(found.visible_means[k].reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
    ax.set_title(str(found.counts[k]), fontsize="small")
plt.show()

# %%
# The landscape
# -------------
# All pictures share one Isomap embedding. First that of the solutions of the last epoch, by the
# means of all units, coloured by free energy; then that of the data, coloured by digit, with the
# solutions as black dots, which are the larger the more rows they attract.

# sphinx_gallery_thumbnail_number = 4
figure = plt.figure(figsize=(7.5, 5.5), layout="constrained")
figure.suptitle("Solutions in the course of training, coloured by free energy")
LandscapeDisplay.from_recorder(recorder, figure=figure)
figure = plt.figure(figsize=(8, 6.2), layout="constrained")
figure.suptitle("Rows of data by digit, and the solutions as black dots")
LandscapeDisplay.from_recorder(recorder, y[:1000], fit_on="starts", figure=figure)
plt.show()

# %%
# Do attractors correspond to digits? The classes were not part of the training. If each start
# takes the commonest digit of its attractor, this share of them is right:

digits = y[: len(found.labels)]
right = [np.bincount(digits[found.labels == k]).max() for k in range(len(found))]
print(f"{sum(right) / sum(found.counts):.3f}")

# %%
# Receptive fields
# ----------------
# The weights of hidden units, from those that are spread out over the image to the local ones, and
# from those that are active most to those that are least.

figure = plt.figure(figsize=(7.5, 4), layout="constrained")
figure.suptitle("Receptive fields by spread and by activation")
panels = figure.subfigures(2, 2).flat
for rank_by in ("spread", "activation"):
    for end in ("highest", "lowest"):
        panel = next(panels)
        panel.suptitle(f"{end} {rank_by}")
        ComponentsDisplay.from_estimator(
            rbm, X, rank_by=rank_by, end=end, n_components=12, n_columns=6, figure=panel
        )
plt.show()
