import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from skrbm import TAPRBM

X = (load_digits().data > 7.5).astype("float32")
X_train, X_test = train_test_split(X, random_state=0)
flipped = np.random.default_rng(0).random(X_test.shape) < 0.1
noisy = np.where(flipped, 1 - X_test, X_test)

rbm = TAPRBM(64, n_iter=30, random_state=0).fit(X_train)
restored = rbm.denoise(noisy, flip_probability=0.1, random_state=0)

score = np.mean((restored > 0.5) == X_test)
baseline = np.mean(noisy == X_test)
print(f"correct pixels {score:.3f}, before denoising {baseline:.3f}")
