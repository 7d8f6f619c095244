"""
===================
Categorical columns
===================

:class:`~skrbm.CategoricalRBM` is fitted to columns of letters, among which two pairs of columns
depend on each other. It finds the pairs, imputes missing letters and generates new rows.
"""

import matplotlib.pyplot as plt
import numpy as np

from skrbm import CategoricalRBM

generator = np.random.default_rng(0)
PARTNER = {"A": "U", "U": "A", "C": "G", "G": "C"}
PAIRS = [(0, 7), (2, 5)]
X = generator.choice(list("ACGU"), size=(2000, 8))
for i, j in PAIRS:
    X[:, j] = [PARTNER[letter] for letter in X[:, i]]
X_train, X_test = X[:1500], X[1500:]

rbm = CategoricalRBM(12, n_iter=60, random_state=0).fit(X_train)
print(f"test log-likelihood: {rbm.score(X_test):.2f} nats")
print(f"independent letters: {-8 * np.log(4):.2f}, truth: {-6 * np.log(4):.2f}")

# %%
# Couplings
# ---------
# ``components_[j]`` holds the weights of hidden unit j to all values of all sites. Sites with large
# weights to the same hidden units depend on each other.

W = rbm.components_
coupling = np.einsum("jia,jkb->ikab", W, W)
strength = np.sqrt((coupling**2).sum(axis=(2, 3)))
np.fill_diagonal(strength, 0)

figure, axes = plt.subplots(1, 2, figsize=(7.5, 3.2), layout="constrained")
image = axes[0].imshow(strength, cmap="Blues")
axes[0].set(title="Strength of couplings", xlabel="site", ylabel="site")
figure.colorbar(image, ax=axes[0])
unit = int(np.argmax((W**2).sum(axis=(1, 2))))
limit = np.abs(W[unit]).max()
image = axes[1].imshow(W[unit].T, cmap="RdBu_r", vmin=-limit, vmax=limit)
axes[1].set(title=f"Weights of hidden unit {unit}", xlabel="site")
axes[1].set_yticks(range(4), rbm.categories_[0])
figure.colorbar(image, ax=axes[1])

# %%
# Samples and imputation
# ----------------------

samples = rbm.sample(1000, random_state=0)
for i, j in [*PAIRS, (1, 4)]:
    share = np.mean([PARTNER[a] == b for a, b in samples[:, [i, j]]])
    print(f"sites {i} and {j} are complementary in {share:.0%} of the samples")

holes = X_test[:200].astype(object)
holes[:, 7] = None
filled = rbm.impute(holes, random_state=0)
print(f"imputed letters that are right: {np.mean(filled[:, 7] == X_test[:200, 7]):.0%}")
