"""
A family of sequences: contacts, motifs and designed members
============================================================

Sequences of a family have something in common: bases that pair, or motifs that only some of its
members have. A machine of categories learns both. Here is a made-up family of RNA, a hairpin whose
two strands pair and whose loop is one of two kinds, so that we know what is to be found.
"""

# %%
# A hairpin
# ---------
# Site i of the first eight pairs with site 19 - i; a pair is AU, GC or, less often, GU. The loop
# between them is GAAA or UUCG. One letter in twenty is replaced by any other, or by a gap.

import io

import matplotlib.pyplot as plt
import numpy as np

from skrbm import CategoricalRBM
from skrbm.sequences import (
    LogoDisplay,
    contact_scores,
    decode,
    design,
    effective_couplings,
    profile,
    ranked_pairs,
    read_fasta,
    sequence_weights,
)

rng = np.random.default_rng(0)
LETTERS, PAIRS, LOOPS = "-ACGU", ["AU", "UA", "GC", "CG", "GU", "UG"], ["GAAA", "UUCG"]


def member():
    """Return a sequence of the family."""
    stem = rng.choice(PAIRS, 8, p=[0.2, 0.2, 0.25, 0.25, 0.05, 0.05])
    left = "".join(pair[0] for pair in stem)
    right = "".join(pair[1] for pair in stem[::-1])
    letters = np.array(list(left + rng.choice(LOOPS) + right))
    noisy = rng.random(20) < 0.05
    letters[noisy] = rng.choice(list(LETTERS), noisy.sum())
    return "".join(letters)


text = "".join(f">member {i}\n{member()}\n" for i in range(2000))
print(text[:80])

# %%
# From a file to a machine
# ------------------------
# A file of sequences becomes codes, a number for each letter. Weights make up for sequences that
# are close to each other, of which real families are full.

family = read_fasta(io.StringIO(text), "rna")
weights = sequence_weights(family.codes, max_distance=0.2)
print(f"{len(family.codes)} sequences count as {weights.sum():.0f}")

n_sites = family.codes.shape[1]
rbm = CategoricalRBM(
    30,
    categories=[range(len(LETTERS))] * n_sites,
    hidden="double_relu",
    random_state=0,
).fit(family.codes, sample_weight=weights)

# %%
# Contacts
# --------
# Letters that a hidden unit changes together are coupled, and strong couplings tell contacts. All
# frequencies of single letters are alike here, so that only pairs of sites can tell.

scores = contact_scores(effective_couplings(rbm, family.codes, weights), gap=0)
found = ranked_pairs(scores, min_separation=4, n_pairs=8)
print("pairs that are found:", *(f"{i}-{j}" for i, j in found))

figure, ax = plt.subplots(figsize=(6, 4.8), layout="constrained")
image = ax.imshow(scores, cmap="Blues", vmin=0)
ax.plot(n_sites - 1 - np.arange(8), np.arange(8), "s", ms=11, mfc="none", color="C3", label="pairs")
ax.set(xlabel="site", ylabel="site", title="Contact scores: the pairs of the stem stand out")
ax.set(xticks=range(0, n_sites, 5), yticks=range(0, n_sites, 5))
ax.legend(loc="upper left", frameon=False)
figure.colorbar(image)

# %%
# What hidden units have learnt
# -----------------------------
# The frequencies first: only the loop has letters that are more frequent than others. The logos of
# the three hidden units with the largest weights show what occurs together: letters above the line
# with each other, and letters below it with each other.

logo = LogoDisplay.from_profile(profile(family.codes, len(LETTERS), weights), alphabet="rna")
logo.axes_[0].set_title("Letters of each site: only the loop has favourites")
largest = np.argsort(-np.linalg.norm(rbm.components_, axis=(1, 2)))[:3]
# sphinx_gallery_thumbnail_number = 3
figure = plt.figure(figsize=(7, 5.5), layout="constrained")
figure.suptitle("Letters that three hidden units favour together")
for part, unit in zip(figure.subfigures(3), largest, strict=True):
    LogoDisplay.from_estimator(rbm, unit, alphabet="rna", figure=part)

# %%
# Designed members
# ----------------
# Samples of the machine are new members of the family. At a temperature below 1 they are more
# probable than natural ones, and have fewer wrong pairs.


def right_pairs(codes):
    """Return the part of the eight pairs that are right."""
    rows = decode(codes, "rna")
    return np.mean([row[i] + row[19 - i] in PAIRS for row in rows for i in range(8)])


figure, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
natural = rbm.score_samples(family.codes)
ax.hist(natural, 50, density=True, alpha=0.5, label="natural")
print(f"natural: {right_pairs(family.codes):.1%} of the pairs are right")
for temperature in (1.0, 0.5):
    codes, log_likelihood = design(rbm, 1000, temperature=temperature, random_state=0)
    ax.hist(log_likelihood, 50, density=True, alpha=0.5, label=f"temperature {temperature}")
    print(f"temperature {temperature}: {right_pairs(codes):.1%} of the pairs are right")
ax.set(xlabel="log-likelihood (nats)", yticks=[], title="Natural and designed sequences")
ax.legend(frameon=False)
plt.show()
