"""
=========================
Outliers in a mixed table
=========================

:class:`~skrbm.RBMOutlierDetector` finds rows whose values are ordinary one by one but improbable
together. Here a tenth of the rows of a table has one value that comes from another row.
"""

# %%
# A table of customers
# --------------------
# Two kinds of customers differ in all columns.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.ensemble import IsolationForest
from sklearn.metrics import RocCurveDisplay
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from skrbm import RBMOutlierDetector
from skrbm.inspection import FeatureScoresDisplay

rng = np.random.default_rng(0)
n = 800
retired = rng.random(n) < 0.4
people = pd.DataFrame(
    {
        "town": np.where(retired, rng.choice(["Rome", "Oslo"], n), rng.choice(["Lima", "Bonn"], n)),
        "member": rng.random(n) < np.where(retired, 0.9, 0.2),
        "age": np.where(retired, 70, 30) + rng.normal(0, 5, n),
        "income": np.where(retired, 1.5, 3.0) + rng.normal(0, 0.3, n),
    }
)
is_outlier = rng.random(n) < 0.1
for row in np.flatnonzero(is_outlier):
    column = rng.choice(["town", "age", "income"])
    people.loc[row, column] = people[column][rng.choice(np.flatnonzero(retired != retired[row]))]

# %%
# Two detectors
# -------------
# The table needs no encoding, since each column has units of the right kind.

detector = RBMOutlierDetector(contamination=0.1, random_state=0).fit(people)
encoder = make_column_transformer(
    (OneHotEncoder(sparse_output=False), ["town"]), remainder="passthrough"
)
forest = make_pipeline(encoder, IsolationForest(random_state=0)).fit(people)

_, ax = plt.subplots()
for name, model in {"RBMOutlierDetector": detector, "IsolationForest": forest}.items():
    scores = -model.score_samples(people)
    RocCurveDisplay.from_predictions(is_outlier, scores, name=name, ax=ax)

# %%
# Which values do not fit
# -----------------------
# Each value of the three most improbable rows is scored given the other values of its row.

worst = np.argsort(detector.score_samples(people))[:3]
FeatureScoresDisplay.from_estimator(detector, people.iloc[worst])
plt.show()
