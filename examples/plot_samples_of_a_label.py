"""
=========================
Digits of a given label
=========================

:class:`~skrbm.RBMClassifier` is one density of images and labels. It predicts labels, and draws
images of a label that is given.
"""

# %%
# A machine of images and labels
# ------------------------------
# Grey levels are probabilities of bits, and the label is a site of ten columns, of which one is 1.
# Probabilities of labels given an image are exact sums.

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from skrbm import RBM, RBMClassifier

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X / 16, y, random_state=0)
model = RBMClassifier(RBM(100, n_iter=40, random_state=0)).fit(X_train, y_train)
print(f"accuracy: {model.score(X_test, y_test):.1%}")

# %%
# Images of each label
# --------------------
# Chains hold the label and draw the image. Shown are the means of the pixels at their ends, given
# the hidden units.

import matplotlib.pyplot as plt

samples, labels = model.sample(8, y=np.arange(10), n_steps=500, random_state=0)
columns = np.concatenate([samples, np.eye(10)[labels]], axis=1)
means = model.rbm_.inverse_transform(model.rbm_.transform(columns))[:, :64]

figure, axes = plt.subplots(8, 10, figsize=(7, 6), layout="constrained")
figure.suptitle("Images drawn for each label")
for axis, image in zip(axes.T.flat, means, strict=True):
    axis.imshow(image.reshape(8, 8), cmap="gray_r")
    axis.set(xticks=[], yticks=[])
for axis, label in zip(axes[0], range(10), strict=True):
    axis.set_title(label)
plt.show()

# %%
# The machine knows which images it has not seen the like of: their log-likelihood is low. Here are
# test images beside the same with their pixels in another order.

shuffled = X_test[:, np.random.default_rng(0).permutation(64)]
print(f"test images:     {model.score_samples(X_test).mean():.1f} nats")
print(f"pixels shuffled: {model.score_samples(shuffled).mean():.1f} nats")
