"""
==============
Missing values
==============

:class:`~skrbm.RBM` is trained directly on rows with NaN. Here a third of all pixels is missing at
random, and the result is compared with that of training on imputed rows.
"""

# %%
# Likelihood of complete rows
# ---------------------------

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.model_selection import train_test_split

from skrbm import RBM
from skrbm.inspection import SamplesDisplay

X = (load_digits().data > 7.5).astype("float32")
X_train, X_test = train_test_split(X, test_size=300, random_state=0)
rng = np.random.default_rng(0)
holes_train, holes_test = (
    np.where(rng.random(part.shape) < 1 / 3, np.nan, part) for part in (X_train, X_test)
)

imputers = {
    "most frequent": SimpleImputer(strategy="most_frequent").fit(holes_train),
    "5 nearest rows": KNNImputer().fit(holes_train),
}
rows = {name: imputer.transform(holes_train) > 0.5 for name, imputer in imputers.items()}
rows |= {"NaN": holes_train, "complete": X_train}
models = {name: RBM(64, random_state=0).fit(part) for name, part in rows.items()}
for name, rbm in models.items():
    print(f"trained on rows with {name:15} {rbm.score(X_test):7.2f} nats")

# %%
# Imputation
# ----------

rbm, missing = models["NaN"], np.isnan(holes_test)
means = {name: imputer.transform(holes_test) for name, imputer in imputers.items()}
means["RBM"] = rbm.impute(holes_test, random_state=0)
for name, found in means.items():
    wrong = ((found > 0.5) != (X_test > 0.5))[missing].mean()
    print(f"{name:15} {wrong:.1%} of the missing values are wrong")

# %%
# Samples
# -------
# If half of an image is missing, the mean is blurred, but each sample is one possible completion.
# From left to right: the observed pixels, the mean, and three samples.

half = X_test[:6].copy()
half[:, 32:] = np.nan
SamplesDisplay.from_estimator(rbm, half, n_samples=3, cmap="gray_r", random_state=0)
plt.show()
