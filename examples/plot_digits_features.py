"""
===========================
Features for classification
===========================

Logistic regression is trained on the pixels of scikit-learn's digits, on the features of
scikit-learn's ``BernoulliRBM``, and on those of :class:`~skrbm.RBM`. As in scikit-learn's example,
the data are enlarged by copies shifted by a pixel in each direction. The fitted :class:`~skrbm.RBM`
then also completes digits whose lower half is missing, and generates new ones.
"""

# %%
# Classification
# --------------
# A fifth of the images, with all their copies, is the test set.

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import shift
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neural_network import BernoulliRBM as SklearnRBM
from sklearn.pipeline import make_pipeline

from skrbm import RBM
from skrbm.inspection import ComponentsDisplay


def with_copies(images, labels):
    """Return images and their shifted copies as rows, and the labels."""
    moves = [(0, 0), (0, 1), (0, -1), (1, 0), (-1, 0)]
    copies = [shift(images, (0, *move), order=0) for move in moves]
    return np.concatenate(copies).reshape(-1, 64), np.tile(labels, len(moves))


digits = load_digits()
images, images_test, labels, labels_test = train_test_split(
    digits.images / 16, digits.target, test_size=0.2, random_state=0
)
X_train, y_train = with_copies(images, labels)
X_test, y_test = with_copies(images_test, labels_test)

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
# Imputation and generation
# -------------------------
# For generated digits, the mean of each pixel given the hidden units is shown.

rbm = models["RBM"][0]
shown = X_test[[np.argmax(labels_test == label) for label in range(10)]]
observed = shown.copy()
observed[:, 32:] = np.nan
completed = rbm.impute(observed, random_state=0)
new = rbm.inverse_transform(rbm.transform(rbm.sample(20, n_steps=1000, random_state=0)))

figure = plt.figure(figsize=(8, 7.6), layout="constrained")
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
rows |= {"generated": new[:10], "": new[10:]}
for line, (name, part) in zip(below.subplots(5, 10), rows.items(), strict=True):
    line[0].set_ylabel(name, rotation=0, ha="right", va="center")
    for axis, image in zip(line, part, strict=True):
        pixels = np.ma.masked_invalid(image.reshape(8, 8))
        axis.imshow(pixels, cmap="gray_r", vmin=0, vmax=1)
        axis.set(xticks=[], yticks=[], facecolor="tab:blue")
figure.savefig("digits_features.png", dpi=100)
plt.show()
