"""
===================================
Features of digits for a classifier
===================================

Scikit-learn's digits are 1797 images of 8 x 8 pixels. As in scikit-learn's own example of a
restricted Boltzmann machine, the data are enlarged by copies shifted by a pixel in each direction,
and a logistic regression is fitted to the raw pixels and to the hidden units of a machine.

The machine is an :class:`~skrbm.RBM` of 100 hidden units, which finds its learning rate itself and
goes through the data 40 times. Scikit-learn's ``BernoulliRBM`` of the same size stands beside it,
with the rate and the 10 passes of its own example. The same fitted machine then completes digits of
which the lower half is lost, and draws new ones.
"""

# %%
# Data
# ----
# Pixels are scaled to [0, 1], the range of binary units. A fifth of the images is held out, with
# all their copies.

import numpy as np
from scipy.ndimage import shift
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split


def with_copies(images, labels):
    moves = [(0, 0), (0, 1), (0, -1), (1, 0), (-1, 0)]
    copies = [shift(images, (0, *move), order=0) for move in moves]
    return np.concatenate(copies).reshape(-1, 64), np.tile(labels, len(moves))


digits = load_digits()
images, images_test, labels, labels_test = train_test_split(
    digits.images / 16, digits.target, test_size=0.2, random_state=0
)
X_train, y_train = with_copies(images, labels)
X_test, y_test = with_copies(images_test, labels_test)

# %%
# Pipelines
# ---------
# A machine is a transformer: it goes in front of the classifier, and its parameters can be
# searched like any other's.

from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import BernoulliRBM as SklearnRBM
from sklearn.pipeline import make_pipeline

from skrbm import RBM

classifier = LogisticRegression(C=100, max_iter=1000)
models = {
    "raw pixels": clone(classifier),
    "scikit-learn\nBernoulliRBM": make_pipeline(
        SklearnRBM(n_components=100, learning_rate=0.06, n_iter=10, random_state=0),
        clone(classifier),
    ),
    "RBM": make_pipeline(RBM(n_components=100, random_state=0), clone(classifier)),
}
accuracy = {}
for name, model in models.items():
    accuracy[name] = model.fit(X_train, y_train).score(X_test, y_test)
    print(f"{' '.join(name.split()):26s} accuracy {accuracy[name]:.3f}")

# %%
# Completed and new digits
# ------------------------
# The lower halves of ten test digits are lost: NaN. ``impute`` fills in the means of the lost
# pixels given the others. New digits are the ends of Gibbs chains; shown are the means of their
# pixels given the hidden units.

rbm = models["RBM"][0]
shown = X_test[[np.argmax(labels_test == label) for label in range(10)]]
observed = shown.copy()
observed[:, 32:] = np.nan
completed = rbm.impute(observed, random_state=0)
drawn = rbm.inverse_transform(rbm.transform(rbm.sample(20, n_steps=1000, random_state=0)))

# %%
# Pictures
# --------
# The receptive fields are the weights between the pixels and each hidden unit, of which those with
# the largest weights are shown.

import matplotlib.pyplot as plt

from skrbm.inspection import ComponentsDisplay

figure = plt.figure(figsize=(8, 7.6), layout="constrained")
figure.suptitle("One machine of digits: features, completed digits and new ones")
above, below = figure.subfigures(2, 1, height_ratios=(1, 1.2))
left, right = above.subfigures(1, 2, width_ratios=(1, 1.1))
left.suptitle("Weights of 36 hidden units", fontsize="medium")
ComponentsDisplay.from_estimator(rbm, n_components=36, n_columns=6, figure=left)
axis = right.subplots()
bars = axis.barh(list(accuracy), list(accuracy.values()), color=["0.7", "0.7", "C0"])
axis.bar_label(bars, fmt=" %.3f")
axis.set(xlim=(0.5, 1.08), xticks=[0.5, 0.75, 1])
axis.set_title("Test accuracy of logistic regression", fontsize="medium")
axis.invert_yaxis()
rows = {"digits": shown, "observed": observed, "completed": completed}
rows |= {"drawn": drawn[:10], "": drawn[10:]}
for line, (name, images) in zip(below.subplots(5, 10), rows.items(), strict=True):
    line[0].set_ylabel(name, rotation=0, ha="right", va="center")
    for axis, image in zip(line, images, strict=True):
        pixels = np.ma.masked_invalid(image.reshape(8, 8))
        axis.imshow(pixels, cmap="gray_r", vmin=0, vmax=1)
        axis.set(xticks=[], yticks=[], facecolor="tab:blue")
figure.savefig("digits_features.png", dpi=100)
plt.show()
