"""
===================
Topics of documents
===================

Every function of scikit-learn has a docstring: many short documents that are on any computer where
this package is. A replicated softmax, :class:`~skrbm.ReplicatedSoftmaxRBM`, learns
their topics from counts of words.
"""

# %%
# Documents
# ---------
# The docstrings of scikit-learn without their commonest words. A tenth is held out.

import ast
from pathlib import Path

import numpy as np
import sklearn
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import train_test_split


def docstrings(package):
    """Return the docstrings of the functions and classes of a package."""
    texts = set()
    for path in Path(package.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf8"))):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                texts.add(ast.get_docstring(node) or "")
    return sorted(text for text in texts if len(text) > 300)


texts = docstrings(sklearn)
counter = CountVectorizer(
    max_features=600, stop_words="english", token_pattern=r"\b[a-z]{4,}\b", max_df=0.3
)
X = counter.fit_transform(texts)
words = counter.get_feature_names_out()
X_train, X_test = train_test_split(X, test_size=0.1, random_state=0)
print(f"{X.shape[0]} documents, {X.sum() / X.shape[0]:.0f} words each on average")

# %%
# Topics
# ------
# The counts stay sparse. Twelve hidden units are few enough for exact likelihoods. The perplexity
# is that of a choice among so many words; without topics it would be that of their frequencies.

from skrbm import ReplicatedSoftmaxRBM

rbm = ReplicatedSoftmaxRBM(n_components=12, n_iter=20, random_state=0).fit(X_train)
frequencies = (X_train.sum(axis=0) + 1) / (X_train.sum() + X.shape[1])
alone = np.exp(-(X_test @ np.log(np.asarray(frequencies).ravel())).sum() / X_test.sum())
print(f"perplexity of held-out words: {rbm.perplexity(X_test):.0f}, without topics {alone:.0f}")

# %%
# What a hidden unit says
# -----------------------
# A hidden unit that is on multiplies the odds of each word by the exponential of its weight. Shown
# are the words that it favours most, with the commonest units first.

import matplotlib.pyplot as plt

activity = rbm.transform(X_train)
units = np.argsort(activity.mean(axis=0))[::-1]
figure, axes = plt.subplots(4, 3, figsize=(7.5, 8), sharex=True, layout="constrained")
frequent = np.asarray(X_train.sum(axis=0)).ravel() > 100
for unit, axis in zip(units, axes.ravel(), strict=True):
    weights = np.where(frequent, rbm.components_[unit], -np.inf)
    best = np.argsort(weights)[::-1][:6][::-1]
    axis.barh(words[best], weights[best], color=plt.cm.viridis(activity[:, unit].mean()))
    axis.set_title(f"on in {activity[:, unit].mean():.0%} of texts", fontsize=10)
figure.suptitle("Words that hidden units favour (weight)")
plt.show()

# %%
# Completing a document
# ---------------------
# Given some words, the hidden units tell which others to expect. Bars show how many times as
# frequent a word is expected to be as in all documents.

given = ["gradient descent", "forest of trees", "squared error"]
hidden = rbm.transform(counter.transform(given))
gains = rbm.inverse_transform(hidden) / rbm.inverse_transform(activity).mean(axis=0)

# sphinx_gallery_thumbnail_number = 2
figure, axes = plt.subplots(1, 3, figsize=(7.5, 4.4), layout="constrained")
for text, gain, axis in zip(given, np.where(frequent, gains, 0), axes, strict=True):
    best = np.argsort(gain)[::-1][:5]
    axis.barh(words[best], gain[best], color="#9ecae1")
    for place, word in enumerate(words[best]):
        axis.text(0, place, " " + word, fontsize=16, va="center")
    axis.set(yticks=[], xlabel="times as frequent")
    axis.invert_yaxis()
    axis.set_title(text, fontsize=16)
figure.suptitle("Words of a document, and words to expect with them", fontsize=16)
plt.show()
