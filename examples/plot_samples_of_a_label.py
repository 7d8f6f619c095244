"""
==================
Samples of a class
==================

:class:`~skrbm.RBMClassifier` is a generative model of images and labels. It predicts labels, and
generates images of a given label.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from skrbm import RBM, RBMClassifier

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X / 16, y, random_state=0)
model = RBMClassifier(RBM(100, n_iter=40, random_state=0)).fit(X_train, y_train)
print(f"accuracy: {model.score(X_test, y_test):.1%}")

# %%
# The log-likelihood of unusual images is low:

shuffled = X_test[:, np.random.default_rng(0).permutation(64)]
print(f"test images:     {model.score_samples(X_test).mean():.1f} nats")
print(f"pixels shuffled: {model.score_samples(shuffled).mean():.1f} nats")

# %%
# Samples of each label, shown as the means of the pixels given the hidden units:

samples, labels = model.sample(8, y=np.arange(10), n_steps=500, random_state=0)
columns = np.concatenate([samples, np.eye(10)[labels]], axis=1)
means = model.rbm_.inverse_transform(model.rbm_.transform(columns))[:, :64]

figure, axes = plt.subplots(8, 10, figsize=(7, 6), layout="constrained")
for axis, image in zip(axes.T.flat, means, strict=True):
    axis.imshow(image.reshape(8, 8), cmap="gray_r")
    axis.set_axis_off()
for axis, label in zip(axes[0], range(10), strict=True):
    axis.set_title(label)
plt.show()
