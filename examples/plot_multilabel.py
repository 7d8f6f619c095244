"""
============================
Predicting dependent outputs
============================

The seven segments of a display are predicted from noisy handwritten digits. Only ten of the 128
combinations of segments are digits. Predicting each segment separately is compared with
:class:`~sklearn.multioutput.ClassifierChain`, with :class:`~sklearn.neural_network.MLPClassifier`,
whose outputs share hidden features, and with :class:`~skrbm.ConditionalRBM`, whose outputs are
coupled.
"""

# %%
# Data and models
# ---------------

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.multioutput import ClassifierChain
from sklearn.neural_network import MLPClassifier

from skrbm import ConditionalRBM
from skrbm.learning import SGD

DIGITS = "1110111 0010010 1011101 1011011 0111010 1101011 1101111 1010010 1111111 1111011"
segments = np.array([[int(on) for on in digit] for digit in DIGITS.split()])
digits = load_digits()
generator = np.random.default_rng(0)
X = (digits.data / 16 + 0.5 * generator.standard_normal(digits.data.shape)).astype("float32")
X_train, X_test, Y_train, Y_test = train_test_split(
    X, segments[digits.target], test_size=600, random_state=0
)

settings = {"n_iter": 20, "batch_size": 20, "random_state": 0}
free, weak, strong = (
    SGD(alpha=alpha, schedule="linear", average=False) for alpha in (0.0, 0.001, 0.003)
)
models = {
    "separate": ConditionalRBM(0, learning_rate=0.1, optimizer=free, **settings),
    "chain": ClassifierChain(LogisticRegression(C=0.3, max_iter=1000), random_state=0),
    "MLP": MLPClassifier(alpha=1, learning_rate_init=0.01, random_state=0),
    "RBM": ConditionalRBM(32, learning_rate=0.5, optimizer=weak, **settings),
    "RBM, margin": ConditionalRBM(
        32, objective="margin", learning_rate=0.3, optimizer=strong, **settings
    ),
}
print("               all right   segments wrong   is a digit")
predictions = {}
for name, model in models.items():
    P = predictions[name] = model.fit(X_train, Y_train).predict(X_test).astype(int)
    wrong = P != Y_test
    valid = (P[:, None] == segments).all(axis=2).any(axis=1)
    right = (~wrong).all(axis=1).mean()
    print(f"{name:15s} {right:8.1%} {wrong.mean():16.1%} {valid.mean():12.1%}")

# %%
# Probabilities and missing outputs
# ---------------------------------
# ``score_samples`` returns the log-probability of a configuration. Predictions with a higher
# probability are right more often. If some segments are known, they help to predict the others.

rbm = models["RBM"]
log_p = rbm.score_samples(X_test)
right = (predictions["RBM"] == Y_test).all(axis=1)
for quarter in np.array_split(np.argsort(-log_p), 4):
    mean = np.exp(log_p[quarter]).mean()
    print(f"mean probability {mean:6.1%}, right {right[quarter].mean():6.1%}")

known = Y_test.astype(float)
known[:, 3:] = np.nan
filled = rbm.impute(X_test, known)
print(f"all right with three segments given: {(filled == Y_test).all(axis=1).mean():.1%}")

# %%
# Displays
# --------
# These are images for which the models disagree. Predictions in orange are not digits.

ENDS = [(0, 2, 1, 2), (0, 1, 0, 2), (1, 1, 1, 2), (0, 1, 1, 1), (0, 0, 0, 1), (1, 0, 1, 1)]
ENDS.append((0, 0, 1, 0))  # each segment from (x, y) to (x, y)


def draw(axis, on):
    """Draw a display."""
    color = "C0" if (segments == on).all(axis=1).any() else "C1"
    for (x0, y0, x1, y1), lit in zip(ENDS, on, strict=True):
        axis.plot([x0, x1], [y0, y1], color=color if lit else "0.92", lw=4)
    axis.set(xlim=(-0.6, 1.6), ylim=(-0.3, 2.3), aspect="equal")


answers = {"truth": Y_test, **predictions}
unclear = np.flatnonzero(np.ptp(list(predictions.values()), axis=0).any(axis=1))[:12]
figure, axes = plt.subplots(len(answers) + 1, len(unclear), figsize=(8, 6), layout="constrained")
for axis, image in zip(axes[0], X_test[unclear], strict=True):
    axis.imshow(image.reshape(8, 8), cmap="gray_r")
for line, (name, answer) in zip(axes[1:], answers.items(), strict=True):
    line[0].set_ylabel(name, rotation=0, ha="right")
    for axis, on in zip(line, answer[unclear], strict=True):
        draw(axis, on)
for axis in axes.flat:
    axis.set(xticks=[], yticks=[])
    axis.spines[:].set_visible(False)
plt.show()
