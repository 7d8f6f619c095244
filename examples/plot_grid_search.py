"""
==========================================
Searching hyper-parameters of a machine
==========================================

Machines are ordinary scikit-learn estimators. ``GridSearchCV`` finds their hyper-parameters in two
ways: by the accuracy of a classifier behind them in a pipeline, and, without any labels, by the
log-likelihood that ``score`` returns.
"""

# %%
# By the accuracy of a classifier
# -------------------------------

from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline

from skrbm import BernoulliRBM

X, y = load_digits(return_X_y=True)
X = (X / 16).astype("float32")
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

pipeline = make_pipeline(
    BernoulliRBM(n_iter=10, random_state=0), LogisticRegression(C=10, max_iter=1000)
)
grid = {
    "bernoullirbm__n_components": [32, 128],
    "bernoullirbm__learning_rate": [0.02, 0.1],
}
search = GridSearchCV(pipeline, grid, cv=3).fit(X_train, y_train)
print(search.best_params_)
print(
    f"accuracy: {search.best_score_:.3f} in validation, {search.score(X_test, y_test):.3f} in test"
)

# %%
# By likelihood, without labels
# -----------------------------
# ``score`` is the mean log-likelihood in nats. The partition function in it is summed exactly where
# a layer has at most 20 units, or some more, and elsewhere estimated by sequential Monte Carlo.
# Two folds and few sizes keep this example short.

X_binary = (X_train > 0.5).astype("float32")
grid = {"n_components": [4, 8, 16, 32], "learning_rate": [0.01, 0.03, 0.1]}
search = GridSearchCV(BernoulliRBM(n_iter=20, random_state=0), grid, cv=2).fit(X_binary)
print(search.best_params_)
print(f"log-likelihood: {search.best_score_:.2f} nats in validation")

# %%

import matplotlib.pyplot as plt
import numpy as np

scores = np.array(search.cv_results_["mean_test_score"]).reshape(3, 4)  # rates by sizes
figure, ax = plt.subplots(figsize=(7, 4.4), layout="constrained")
for rate, curve in zip(grid["learning_rate"], scores, strict=True):
    ax.plot(grid["n_components"], curve, marker="o", label=f"learning rate {rate}")
ax.set(
    xscale="log",
    xticks=grid["n_components"],
    xticklabels=grid["n_components"],
    xlabel="hidden units",
    ylabel="validation log-likelihood (nats)",
    title="Validation log-likelihood by size and learning rate",
)
ax.minorticks_off()
ax.legend()
plt.show()
