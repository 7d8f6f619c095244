import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neighbors import NearestNeighbors

from skrbm import RBM

X = (load_digits().data > 7.5).astype("float32")
X_train, X_test = train_test_split(X, random_state=0)
rbm = RBM(64, random_state=0).fit(X_train)

new = rbm.sample(200, n_steps=1000, random_state=0)
independent = np.random.default_rng(0).random(new.shape) < X_train.mean(axis=0)

nearest = NearestNeighbors(n_neighbors=1, metric="hamming").fit(X_test)
score = 1 - nearest.kneighbors(new)[0].mean()
baseline = 1 - nearest.kneighbors(independent)[0].mean()
print(f"pixels equal to the nearest image {score:.3f}, if independent {baseline:.3f}")
