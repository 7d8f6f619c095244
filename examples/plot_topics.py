"""
===================
Topics of documents
===================

A replicated softmax, :class:`~skrbm.ReplicatedSoftmaxRBM`, learns the topics of the docstrings of
scikit-learn from their word counts.
"""

# %%
# Documents and topics
# --------------------
# A tenth of the docstrings is the test set. With only twelve hidden units, likelihoods are exact.

import ast
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import sklearn
from scipy.special import softmax
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import train_test_split

from skrbm import ReplicatedSoftmaxRBM

texts = set()
for path in Path(sklearn.__file__).parent.rglob("*.py"):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf8"))):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            texts.add(ast.get_docstring(node) or "")
counter = CountVectorizer(
    max_features=600, stop_words="english", token_pattern=r"\b[a-z]{4,}\b", max_df=0.3
)
X = counter.fit_transform(sorted(text for text in texts if len(text) > 300))
words = counter.get_feature_names_out()
X_train, X_test = train_test_split(X, test_size=0.1, random_state=0)
print(f"{X.shape[0]} documents, {X.sum() / X.shape[0]:.0f} words each on average")

rbm = ReplicatedSoftmaxRBM(n_components=12, sparsity=1.0, n_iter=20, random_state=0)
rbm.fit(X_train)
frequencies = (X_train.sum(axis=0) + 1) / (X_train.sum() + X.shape[1])
alone = np.exp(-(X_test @ np.log(np.asarray(frequencies).ravel())).sum() / X_test.sum())
print(f"test perplexity: {rbm.perplexity(X_test):.0f}, by word frequencies {alone:.0f}")

# %%
# Words of the topics
# -------------------
# The bars show how much an active hidden unit adds to the probabilities of words if no other unit
# is active. ``sparsity`` keeps most units off in a document, so that each unit is a topic.

activity = rbm.transform(X_train)
off = softmax(rbm.intercept_visible_)
added = softmax(rbm.intercept_visible_ + rbm.components_, axis=1) - off
figure, axes = plt.subplots(4, 3, figsize=(7.5, 8), layout="constrained")
for unit, axis in zip(np.argsort(activity.mean(axis=0))[::-1], axes.ravel(), strict=True):
    best = np.argsort(added[unit])[-6:]  # those of rbm.top_words(words, 6)
    axis.barh(words[best], added[unit][best])
    axis.set_title(f"active in {activity[:, unit].mean():.0%} of texts", fontsize=10)
plt.show()

# %%
# Completing a document
# ---------------------
# Expected frequencies of words in a document that contains the given words, relative to those in
# all documents.

frequent = np.asarray(X_train.sum(axis=0)).ravel() > 100
given = ["gradient descent", "forest of trees", "squared error"]
hidden = rbm.transform(counter.transform(given))
gains = rbm.inverse_transform(hidden) / rbm.inverse_transform(activity).mean(axis=0)

# sphinx_gallery_thumbnail_number = 2
figure, axes = plt.subplots(1, 3, figsize=(7.5, 3.4), layout="constrained")
for text, gain, axis in zip(given, np.where(frequent, gains, 0), axes, strict=True):
    best = np.argsort(gain)[-5:]
    axis.barh(words[best], gain[best])
    axis.set(title=text, xlabel="relative frequency")
plt.show()
