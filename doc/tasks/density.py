import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from skrbm import RBM

X = (load_digits().data > 7.5).astype("float32")
X_train, X_test = train_test_split(X, random_state=0)
rbm = RBM(64, random_state=0).fit(X_train)

score = rbm.score(X_test)
log_z, error = rbm.log_partition(return_std=True)
p = (X_train.sum(axis=0) + 0.5) / (len(X_train) + 1)  # independent pixels
baseline = (X_test @ np.log(p) + (1 - X_test) @ np.log(1 - p)).mean()
print(f"{score:.1f} nats per image, {baseline:.1f} with independent pixels")
print(f"log Z = {log_z:.2f} with a standard error of {error:.2f}")
