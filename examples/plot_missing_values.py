"""
============================
Learning from missing values
============================

A pixel that was not observed is a latent unit: :class:`~skrbm.RBM` takes NaN as it is, in learning
and in everything that follows. Here a third of all pixels of the digits are missing, at random. The
machine that takes NaN is held against one that learns rows filled in beforehand.
"""

# %%
# Rows with holes
# ---------------

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.model_selection import train_test_split

from skrbm import RBM

X = (load_digits().data > 7.5).astype("float32")
X_train, X_test = train_test_split(X, test_size=300, random_state=0)
rng = np.random.default_rng(0)


def with_holes(X):
    return np.where(rng.random(X.shape) < 1 / 3, np.nan, X)


holes_train, holes_test = with_holes(X_train), with_holes(X_test)

# %%
# Likelihood of complete rows
# ---------------------------
# Filling in the most frequent value of a column, or what similar rows have, makes rows that are
# more alike than the true ones, and a machine learns them as they are. The score is the mean
# log-likelihood of complete test rows in nats. Of 1497 digits many are alike, so that nearest rows
# do well here.

filled = {
    "most frequent": SimpleImputer(strategy="most_frequent").fit_transform(holes_train),
    "5 nearest rows": (KNNImputer().fit_transform(holes_train) > 0.5).astype("float32"),
}
machines = {
    name: RBM(64, random_state=0).fit(rows)
    for name, rows in {**filled, "NaN": holes_train, "complete": X_train}.items()
}
for name, rbm in machines.items():
    print(f"trained on rows with {name:15} {rbm.score(X_test):7.2f}")

# %%
# Imputation
# ----------
# ``impute`` gives the means of the missing values given the observed ones. An error counts where
# the value that is nearer to the mean is not the true one.

rbm, missing = machines["NaN"], np.isnan(holes_test)
means = {
    "most frequent": SimpleImputer(strategy="most_frequent").fit(holes_train).transform(holes_test),
    "5 nearest rows": KNNImputer().fit(holes_train).transform(holes_test),
    "RBM": rbm.impute(holes_test, random_state=0),
}
for name, found in means.items():
    wrong = ((found > 0.5) != (X_test > 0.5))[missing].mean()
    print(f"{name:15} {100 * wrong:5.1f} % of the missing values are wrong")

# %%
# Draws
# -----
# Where half of an image is missing there is more than one way to go on. The mean blurs them; each
# draw is one of them, with its probability.

half = X_test[:8].reshape(-1, 8, 8).copy()
half[:, 4:] = np.nan
half = half.reshape(len(half), -1)
rows = [X_test[:8], half, rbm.impute(half, random_state=0)]
rows += [rbm.sample(given=half, random_state=seed) for seed in range(3)]
names = "true", "observed", "mean", "draw", "draw", "draw"

figure, axes = plt.subplots(len(rows), 8, figsize=(7, 5.6), layout="constrained")
figure.suptitle("The lower halves are unknown: their mean, and three draws")
for line, name, images in zip(axes, names, rows, strict=True):
    line[0].set_ylabel(name, rotation=0, ha="right", va="center")
    for ax, image in zip(line, images, strict=True):
        ax.imshow(np.ma.masked_invalid(image.reshape(8, 8)), cmap="gray_r", vmin=0, vmax=1)
        ax.set(xticks=[], yticks=[], facecolor="tab:blue")
plt.show()
