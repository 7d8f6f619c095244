"""
======================
Number of hidden units
======================

:class:`~skrbm.FrankWolfeRBM` adds hidden units one by one until no unit is worth its penalty or the
validation likelihood stops improving. Training of all units then continues with
:class:`~skrbm.RBM`.
"""

# %%
# Growth
# ------
# ``truncate`` returns the model of any size on the path.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from skrbm import RBM, FrankWolfeRBM
from skrbm.inspection import ComponentsDisplay
from skrbm.learning import SGD

X = (load_digits().data > 8).astype(np.float32)
X_train, X_test = train_test_split(X, test_size=0.25, random_state=0)
grown = FrankWolfeRBM(max_components=60, alpha=0.004, random_state=0).fit(X_train)
n, last = grown.n_components_, grown.path_["n_components"][-1]
print(f"{n} units of {last} were chosen: {grown.stop_reason_}")

sizes = sorted({size for size in (1, 2, 4, 7, 10, 15, 20, 30, 40) if size < last} | {n, last})
likelihoods = [grown.truncate(size).score(X_test) for size in sizes]

# %%
# Joint training
# --------------

plain = SGD(alpha=0.0, schedule="linear", centered=False, average=False)
settings = {"n_iter": 40, "learning_rate": 0.05, "batch_size": 50, "optimizer": plain}
refined = RBM(n, init=grown, random_state=0, **settings).fit(X_train)
random = RBM(n, random_state=0, **settings).fit(X_train)
scores = {
    "Frank-Wolfe": grown.score(X_test),
    "PCD from Frank-Wolfe": refined.score(X_test),
    "PCD from a random start": random.score(X_test),
}
for name, score in scores.items():
    print(f"{name:24s} {score:.2f} nats per test image")

# %%
# Likelihood and receptive fields
# -------------------------------

figure = plt.figure(figsize=(7.5, 6.5), layout="constrained")
above, below = figure.subfigures(2, 1, height_ratios=(1.3, 1))
axis = above.subplots()
axis.plot(sizes, likelihoods, "o-", label="Frank-Wolfe")
axis.axvline(n, color="0.6", linestyle="--", label=f"chosen: {n}")
for name, marker in {"PCD from Frank-Wolfe": "s", "PCD from a random start": "^"}.items():
    axis.plot(n, scores[name], marker, label=name)
axis.set(xlabel="hidden units", ylabel="test log-likelihood (nats)")
axis.legend(loc="lower center")
ComponentsDisplay.from_estimator(grown, n_columns=12, figure=below)
plt.show()
