"""
======================
Hyper-parameter search
======================

``GridSearchCV`` selects the hyper-parameters of an RBM by the accuracy of a classifier in a
pipeline, or, without labels, by the log-likelihood that ``score`` returns.
"""

# %%
# By accuracy
# -----------

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline

from skrbm import RBM, BernoulliRBM

X, y = load_digits(return_X_y=True)
X = (X / 16).astype("float32")
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

pipeline = make_pipeline(RBM(random_state=0), LogisticRegression(max_iter=1000))
grid = {"rbm__n_components": [32, 128], "logisticregression__C": [1, 10]}
search = GridSearchCV(pipeline, grid, cv=3).fit(X_train, y_train)
print(search.best_params_)
print(f"validation {search.best_score_:.3f}, test {search.score(X_test, y_test):.3f}")

# %%
# By likelihood
# -------------

X_binary = (X_train > 0.5).astype("float32")
grid = {"n_components": [4, 8, 16, 32], "learning_rate": [0.01, 0.03, 0.1]}
search = GridSearchCV(BernoulliRBM(n_iter=20, random_state=0), grid, cv=2).fit(X_binary)
print(search.best_params_)
print(f"log-likelihood: {search.best_score_:.2f} nats in validation")

scores = np.array(search.cv_results_["mean_test_score"]).reshape(3, 4)  # rates by sizes
figure, axis = plt.subplots(figsize=(7, 4.4), layout="constrained")
for rate, curve in zip(grid["learning_rate"], scores, strict=True):
    axis.semilogx(grid["n_components"], curve, "o-", base=2, label=f"learning rate {rate}")
axis.set(xlabel="hidden units", ylabel="validation log-likelihood (nats)")
axis.legend()
plt.show()
