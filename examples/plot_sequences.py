"""
===================
Family of sequences
===================

Contacts, motifs and sequence design for an artificial RNA family: a hairpin whose strands pair and
whose loop is one of two kinds.
"""

# %%
# A hairpin
# ---------
# Each site i of the first eight pairs with site 19 - i; a pair is AU, GC or, less often, GU. The
# loop is GAAA or UUCG. One letter in twenty is replaced by any other letter, or by a gap.

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
family = read_fasta(io.StringIO(text), "rna")
weights = sequence_weights(family.codes, max_distance=0.2)
n_sites = family.codes.shape[1]
rbm = CategoricalRBM(
    30, categories=[range(len(LETTERS))] * n_sites, hidden="double_relu", random_state=0
).fit(family.codes, sample_weight=weights)

# %%
# Contacts
# --------

scores = contact_scores(effective_couplings(rbm, family.codes, weights), gap=0)
found = ranked_pairs(scores, min_separation=4, n_pairs=8)
print("predicted pairs:", *(f"{i}-{j}" for i, j in found))

figure, axis = plt.subplots(figsize=(6, 4.8), layout="constrained")
image = axis.imshow(scores, cmap="Blues", vmin=0)
pairs = np.arange(8)
axis.plot(n_sites - 1 - pairs, pairs, "s", ms=11, mfc="none", color="C3", label="pairs")
axis.set(xlabel="site", ylabel="site", title="Contact scores")
axis.legend(loc="upper left", frameon=False)
figure.colorbar(image)

# %%
# Motifs
# ------
# The frequencies of letters, and logos of the three hidden units with the largest weights: letters
# on the same side of the line occur together.

LogoDisplay.from_profile(profile(family.codes, len(LETTERS), weights), alphabet="rna")
largest = np.argsort(-np.linalg.norm(rbm.components_, axis=(1, 2)))[:3]
# sphinx_gallery_thumbnail_number = 3
figure = plt.figure(figsize=(7, 5.5), layout="constrained")
for part, unit in zip(figure.subfigures(3), largest, strict=True):
    LogoDisplay.from_estimator(rbm, unit, alphabet="rna", figure=part)

# %%
# Design
# ------
# At a temperature below 1, designed sequences are more probable than natural ones, and have fewer
# wrong pairs.


def right_pairs(codes):
    """Return the fraction of the eight pairs that are right."""
    rows = decode(codes, "rna")
    return np.mean([row[i] + row[19 - i] in PAIRS for row in rows for i in range(8)])


figure, axis = plt.subplots(figsize=(7, 3.6), layout="constrained")
found = {"natural": (family.codes, rbm.score_samples(family.codes))}
for temperature in (1.0, 0.5):
    designed = design(rbm, 1000, temperature=temperature, random_state=0)
    found[f"temperature {temperature}"] = designed
for name, (codes, log_likelihoods) in found.items():
    print(f"{name}: {right_pairs(codes):.1%} of the pairs are right")
    axis.hist(log_likelihoods, 50, density=True, alpha=0.5, label=name)
axis.set(xlabel="log-likelihood (nats)", yticks=[])
axis.legend(frameon=False)
plt.show()
