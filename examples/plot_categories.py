"""
==============================
Letters that depend on others
==============================

A machine of aligned sequences finds which sites go together, fills sites that are unknown, and
draws new sequences. The sequences here are made up: sites 0 and 7, and 2 and 5, are pairs of
complementary letters, as in a hairpin of RNA, and the other sites are free.
"""

# %%
# Data
# ----
# :class:`~skrbm.CategoricalRBM` takes the letters as they are.
import matplotlib.pyplot as plt
import numpy as np

from skrbm import CategoricalRBM

generator = np.random.default_rng(0)
PARTNER = {"A": "U", "U": "A", "C": "G", "G": "C"}
X = generator.choice(list("ACGU"), size=(2000, 8))
for i, j in [(0, 7), (2, 5)]:
    X[:, j] = [PARTNER[letter] for letter in X[:, i]]
X_train, X_test = X[:1500], X[1500:]

rbm = CategoricalRBM(12, n_iter=60, random_state=0).fit(X_train)
print(f"log-likelihood of held-out rows: {rbm.score(X_test):.2f} nats")
print(f"of independent letters: {-8 * np.log(4):.2f}; of the pairs: {-6 * np.log(4):.2f}")

# %%
# Which sites go together
# -----------------------
# A hidden unit has weights to all values of all sites, ``components_[j]``. Sites whose weights are
# large in the same hidden units depend on each other: of the products of these weights, the squared
# norms over the values of both sites show the pairs.
W = rbm.components_
coupling = np.einsum("jia,jkb->ikab", W, W)
strength = np.sqrt((coupling**2).sum(axis=(2, 3)))
np.fill_diagonal(strength, 0)

figure, axes = plt.subplots(1, 2, figsize=(7.5, 3.2), layout="constrained")
figure.suptitle("Sites 0 and 7, and 2 and 5, are found to be pairs")
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
# New sequences, and unknown letters
# ----------------------------------
samples = rbm.sample(1000, random_state=0)
for i, j in [(0, 7), (2, 5), (1, 4)]:
    pairs = np.mean([PARTNER[a] == b for a, b in samples[:, [i, j]]])
    print(f"sites {i} and {j} are complementary in {pairs:.0%} of the samples")

holes = X_test[:200].astype(object)
holes[:, 7] = None
filled = rbm.impute(holes, random_state=0)
print(f"unknown letters found: {np.mean(filled[:, 7] == X_test[:200, 7]):.0%}")
