"""
======================
Number of hidden units
======================

:class:`~skrbm.FrankWolfeRBM` adds hidden units one by one, and trains all of them after each
insertion, until the validation likelihood stops improving.
"""

# %%
# Growth
# ------
# ``truncate`` returns the model of any size on the path. With fewer chains than the default of
# 1000, fewer units are found.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from skrbm import RBM, FrankWolfeRBM
from skrbm.inference import Gibbs
from skrbm.inspection import ComponentsDisplay

X = (load_digits().data > 8).astype(np.float32)
X_train, X_test = train_test_split(X, test_size=0.25, random_state=0)
chains = Gibbs(n_steps=10, n_chains=300)
grown = FrankWolfeRBM(inference=chains, random_state=0).fit(X_train)
n, last = grown.n_components_, grown.path_["n_components"][-1]
print(f"{n} units of {last} were chosen: {grown.stop_reason_}")

sizes = sorted({size for size in (1, 2, 4, 7, 10, 15, 20, 30, 40) if size < last} | {n, last})
likelihoods = [grown.truncate(size).score(X_test) for size in sizes]

# %%
# Random starts
# -------------

random = [RBM(size, n_iter=30, random_state=0).fit(X_train).score(X_test) for size in sizes]
print(f"grown {grown.score(X_test):.2f}, from a random start {random[sizes.index(n)]:.2f} nats")

# %%
# Likelihood and receptive fields
# -------------------------------

figure = plt.figure(figsize=(7.5, 6.5), layout="constrained")
above, below = figure.subfigures(2, 1, height_ratios=(1.3, 1))
axis = above.subplots()
axis.plot(sizes, likelihoods, "o-", label="FrankWolfeRBM")
axis.plot(sizes, random, "^-", label="RBM from a random start")
axis.axvline(n, color="0.6", linestyle="--", label=f"chosen: {n}")
axis.set(xlabel="hidden units", ylabel="test log-likelihood (nats)")
axis.legend(loc="lower right")
ComponentsDisplay.from_estimator(grown, n_columns=12, figure=below)
plt.show()
