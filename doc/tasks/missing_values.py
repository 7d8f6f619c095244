import numpy as np
from sklearn.datasets import load_digits
from sklearn.impute import SimpleImputer

from skrbm import RBM

X = (load_digits().data > 7.5).astype("float32")
missing = np.random.default_rng(0).random(X.shape) < 0.3
holes = np.where(missing, np.nan, X)

rbm = RBM(64, random_state=0).fit(holes)
completed = rbm.impute(holes, random_state=0)
most_frequent = SimpleImputer(strategy="most_frequent").fit_transform(holes)

score = np.mean((completed > 0.5)[missing] == X[missing])
baseline = np.mean(most_frequent[missing] == X[missing])
print(f"correct values {score:.3f}, with the most frequent value of each column {baseline:.3f}")
