"""
==========================
Solutions of TAP equations
==========================

The fixed points of the TAP equations are the modes of the model: each is a mean image with a free
energy, and attracts rows of one kind. This example follows the solutions of a
:class:`~skrbm.TAPRBM` during training, as in Figs. 4 to 7 of :cite:t:`Tramel2018`.
"""

# %%
# Training with a recorder
# ------------------------
# After some of the epochs, the callback iterates the TAP equations from 1000 rows until they reach
# their solutions.

import copy

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from skrbm import TAPRBM
from skrbm.evaluation import solution_tree
from skrbm.inference import TAP
from skrbm.inspection import (
    ComponentsDisplay,
    FreeEnergyDisplay,
    LandscapeDisplay,
    SolutionsRecorder,
    SolutionTreeDisplay,
)
from skrbm.learning import SGD

X, y = load_digits(return_X_y=True)
X = (X > 7).astype("float32")
recorder = SolutionsRecorder(X[:1000], epochs=[0, 3, 5, 7, 10, 20, 30, 40])
paper = SGD(momentum=0.5, alpha=0.001, schedule="constant", centered=False, average=False)
settings = {"batch_size": 20, "learning_rate": 0.1, "n_iter": 40, "random_state": 0}
rbm = TAPRBM(64, inference=TAP(max_iter=10, start="data"), optimizer=paper, **settings)
rbm.set_callbacks(recorder).fit(X)

# %%
# Free energies
# -------------
# Before training there is one solution; their number grows. Each dot is a solution.

FreeEnergyDisplay.from_recorder(recorder, figure=plt.figure(figsize=(9, 5), layout="constrained"))
plt.show()

# %%
# Solutions as images
# -------------------
# The solutions that attract the most rows, with the number of rows above each. If each row is
# assigned the most common digit of its solution, this fraction is right:

found = recorder.solutions_[-1]
digits = y[: len(found.labels)]
right = [np.bincount(digits[found.labels == k]).max() for k in range(len(found))]
print(f"{sum(right) / sum(found.counts):.3f}")

figure, axes = plt.subplots(2, 5, figsize=(6, 3.2), layout="constrained")
for axis, k in zip(axes.flat, np.argsort(-found.counts), strict=False):
    axis.imshow(found.visible_means[k].reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
    axis.set_title(str(found.counts[k]), fontsize="small")
for axis in axes.flat:
    axis.set_axis_off()
plt.show()

# %%
# Landscape
# ---------
# Isomap embeddings of the solutions, coloured by free energy, and of the data, coloured by digit,
# with the solutions as black dots.

# sphinx_gallery_thumbnail_number = 4
figure = plt.figure(figsize=(7.5, 5.5), layout="constrained")
LandscapeDisplay.from_recorder(recorder, figure=figure)
figure = plt.figure(figsize=(8, 6.2), layout="constrained")
LandscapeDisplay.from_recorder(recorder, y[:1000], fit_on="starts", figure=figure)
plt.show()

# %%
# A tree of solutions
# -------------------
# During training, solutions split off from one another. From the last epoch back to the first, each
# solution is followed to one of the model before, which gives a hierarchical clustering of the
# rows, as proposed by :cite:t:`Decelle2023`. Branches are grey where no digit makes up half of the
# rows.

epochs, models = [3, 5, 10, 13, 16, 20, 25, 30, 40], []
growing = TAPRBM(64, inference=rbm.inference, optimizer=paper, **settings)
growing.set_params(warm_start=True)
for before, epoch in zip([0, *epochs], epochs, strict=False):
    models.append(copy.deepcopy(growing.set_params(n_iter=epoch - before).fit(X)))
tree = solution_tree(models, X[:1000])
SolutionTreeDisplay.from_tree(tree, y[:1000], epochs=epochs)
plt.show()

# %%
# Receptive fields
# ----------------

figure = plt.figure(figsize=(7.5, 4), layout="constrained")
panels = figure.subfigures(2, 2)
for row, rank_by in zip(panels, ("spread", "activation"), strict=True):
    for panel, end in zip(row, ("highest", "lowest"), strict=True):
        panel.suptitle(f"{end} {rank_by}")
        ComponentsDisplay.from_estimator(
            rbm, X, rank_by=rank_by, end=end, n_components=12, n_columns=6, figure=panel
        )
plt.show()
