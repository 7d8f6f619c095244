"""
==============================
Growing a machine unit by unit
==============================

:class:`~skrbm.FrankWolfeRBM` inserts hidden units one by one, and stops when no unit is worth its
penalty or the held-out samples gain nothing more. Here it grows on scikit-learn's digits,
thresholded; the machines on its path give a curve of the likelihood over the size. Training then
continues from the chosen machine with :class:`~skrbm.BernoulliRBM`, and is compared with a machine
of the same size from a random start.
"""

# %%
# Growing a machine
# -----------------
# The digits are 8 x 8 pixels with 17 grey levels; a pixel counts as on above 8. A quarter of the
# rows is the test set for the comparison at the end: the machine holds out samples of its own.

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from skrbm import BernoulliRBM, FrankWolfeRBM

X = (load_digits().data > 8).astype(np.float32)
X_train, X_test = train_test_split(X, test_size=0.25, random_state=0)

grown = FrankWolfeRBM(max_components=60, alpha=0.004, random_state=0)
grown.fit(X_train)
path = grown.path_
print(f"{grown.n_components_} units were chosen; the path ended at {path['n_components'][-1]}:")
print(f"{grown.stop_reason_}, with {path['reason'].count('refused')} insertions refused")

# %%
# Machines of the path
# --------------------
# ``truncate`` gives any machine of the path. Its log-likelihood is computed again here, with log Z
# exact up to some 24 hidden units and by sequential Monte Carlo above. The path has estimates of
# its own, which cost nothing but are noisy.

n, last = grown.n_components_, path["n_components"][-1]
sizes = sorted({size for size in (1, 2, 4, 7, 10, 15, 20, 30, 40) if size < last} | {n, last})
machines = [grown.truncate(n) for n in sizes]
likelihood = [machine.score(X_test) for machine in machines]

# %%
# Training continues
# ------------------
# ``init`` makes whole units of those that count in part; contrastive divergence then trains all
# weights together.

settings = {"n_iter": 40, "learning_rate": 0.05, "batch_size": 50, "schedule": "linear"}
refined = BernoulliRBM(n, init=grown, random_state=0, **settings).fit(X_train)
random = BernoulliRBM(n, random_state=0, **settings).fit(X_train)
scores = {
    "Frank-Wolfe alone": grown.score(X_test),
    "PCD from Frank-Wolfe": refined.score(X_test),
    "PCD from a random start": random.score(X_test),
}
for name, score in scores.items():
    print(f"{name:24s} {score:.2f} nats per test image")

# %%
# Pictures
# --------

import matplotlib.pyplot as plt

from skrbm.inspection import ComponentsDisplay

figure = plt.figure(figsize=(7.5, 6.5), layout="constrained")
figure.suptitle("Likelihood over the number of hidden units, and what the units learned")
above, below = figure.subfigures(2, 1, height_ratios=(1.3, 1))
ax = above.subplots()
ax.plot(sizes, likelihood, "o-", label="Frank-Wolfe")
ax.axvline(n, color="0.6", linestyle="--", label=f"chosen: {n}")
ax.plot(n, scores["PCD from Frank-Wolfe"], "s", label="PCD from Frank-Wolfe")
ax.plot(n, scores["PCD from a random start"], "^", label="PCD from a random start")
ax.set(xlabel="hidden units", ylabel="log-likelihood (nats per test image)")
ax.legend(loc="lower center")
below.suptitle("Receptive fields, the largest weights first", fontsize="medium")
ComponentsDisplay.from_estimator(grown, n_columns=12, figure=below)
plt.show()
