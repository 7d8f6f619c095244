"""
=======================================
Labels that belong together: a display
=======================================

A seven-segment display is to show a handwritten digit: seven binary outputs, of whose 128
combinations only ten are digits. Predicted one by one, segments may be likely each and yet make no
digit together. Three ways to predict them jointly are compared:
:class:`~sklearn.multioutput.ClassifierChain`, in which each label sees those before it;
:class:`~sklearn.neural_network.MLPClassifier`, whose labels share hidden features of the input; and
:class:`~skrbm.ConditionalRBM`, whose outputs are coupled themselves, through hidden units.
"""

# %%
# Data
# ----
# Scikit-learn's digits with so much noise on the pixels that many cannot be distinguished.

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

DIGITS = "1110111 0010010 1011101 1011011 0111010 1101011 1101111 1010010 1111111 1111011"
segments = np.array([[int(on) for on in digit] for digit in DIGITS.split()])

digits = load_digits()
generator = np.random.default_rng(0)
X = (digits.data / 16 + 0.5 * generator.standard_normal(digits.data.shape)).astype("float32")
Y = segments[digits.target]
X_train, X_test, Y_train, Y_test = train_test_split(X, Y, test_size=600, random_state=0)

# %%
# Contenders
# ----------
# Two machines differ in what they learn from, and so in what they predict. "likelihood" decides
# each segment by its marginal probability, which makes the fewest wrong segments to be expected.
# "margin" looks for the best configuration of segments and hidden units, all at once. Without
# hidden units the machine is logistic regression of each segment. None has been tuned with care.

from sklearn.linear_model import LogisticRegression
from sklearn.multioutput import ClassifierChain
from sklearn.neural_network import MLPClassifier

from skrbm import ConditionalRBM

settings = {"n_iter": 20, "batch_size": 20, "schedule": "linear", "random_state": 0}
contenders = {
    "one by one": ConditionalRBM(0, learning_rate=0.1, **settings),
    "chain": ClassifierChain(LogisticRegression(C=0.3, max_iter=1000), random_state=0),
    "network": MLPClassifier(alpha=1, learning_rate_init=0.01, random_state=0),
    "machine, likelihood": ConditionalRBM(32, learning_rate=0.5, alpha=1e-3, **settings),
    "machine, margin": ConditionalRBM(
        32, objective="margin", learning_rate=0.3, alpha=3e-3, **settings
    ),
}
print("                    all right   segments wrong   is a digit")
predictions = {}
for name, contender in contenders.items():
    P = predictions[name] = contender.fit(X_train, Y_train).predict(X_test).astype(int)
    wrong = P != Y_test
    valid = (P[:, None] == segments).all(axis=2).any(axis=1)
    right = (~wrong).all(axis=1).mean()
    print(f"{name:20s} {right:8.1%} {wrong.mean():16.1%} {valid.mean():12.1%}")

# %%
# More than a prediction
# ----------------------
# A machine trained for the likelihood has probabilities of whole configurations, and that of its
# own prediction says how sure it is. Where it claims more it is right more often, though it claims
# too much at the top and too little at the bottom. If some segments are known, the others follow
# from them and the image together.

machine = contenders["machine, likelihood"]
sure = machine.score_samples(X_test)
right = (predictions["machine, likelihood"] == Y_test).all(axis=1)
for quarter in np.array_split(np.argsort(-sure), 4):
    mean = np.exp(sure[quarter]).mean()
    print(f"mean probability {mean:6.1%}, predicted rightly {right[quarter].mean():6.1%}")

known = Y_test.astype(float)
known[:, 3:] = np.nan
filled = machine.impute(X_test, known)
print(f"all right with three segments given: {(filled == Y_test).all(axis=1).mean():.1%}")

# %%
# The same machine can also decide all segments at once, by the most probable of the 128
# configurations. Nearly all of these are digits. But it was trained with the marginals of belief
# propagation, and these, by which it decides otherwise, are right more often here. It can be the
# other way round, so that it is worth a cross-validation.

joint = ConditionalRBM(32, decision="joint", init=machine, n_iter=0).fit(X_train, Y_train)
P = joint.predict(X_test)
valid = (P[:, None] == segments).all(axis=2).any(axis=1)
print(f"jointly: {(P == Y_test).all(axis=1).mean():.1%} all right, {valid.mean():.1%} digits")

# %%
# Pictures
# --------
# The displays of images for which not all agree. Orange ones show no digit.

import matplotlib.pyplot as plt

ENDS = [(0, 2, 1, 2), (0, 1, 0, 2), (1, 1, 1, 2), (0, 1, 1, 1), (0, 0, 0, 1), (1, 0, 1, 1)]
ENDS.append((0, 0, 1, 0))  # each segment from (x, y) to (x, y)


def draw(axis, on):
    colour = "C0" if (segments == on).all(axis=1).any() else "C1"
    for (x0, y0, x1, y1), lit in zip(ENDS, on, strict=True):
        axis.plot([x0, x1], [y0, y1], color=colour if lit else "0.92", lw=4)
    axis.set(xlim=(-0.6, 1.6), ylim=(-0.3, 2.3), aspect="equal")


answers = {"truth": Y_test, **predictions}
unclear = np.flatnonzero(np.ptp(list(predictions.values()), axis=0).any(axis=1))[:12]
figure, axes = plt.subplots(len(answers) + 1, len(unclear), figsize=(8, 6), layout="constrained")
figure.suptitle("Noisy digits and the displays that are predicted from them")
axes[0, 0].set_ylabel("image", rotation=0, ha="right")
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
