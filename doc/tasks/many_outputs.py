import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.multioutput import MultiOutputClassifier

from skrbm import ConditionalRBM

X, y = load_digits(return_X_y=True)
# the segments of a display that are lit for each digit
segments = "1110111 0010010 1011101 1011011 0111010 1101011 1101111 1010010 1111111 1111011"
Y = np.array([list(map(int, segments.split()[digit])) for digit in y])
X_train, X_test, Y_train, Y_test = train_test_split(X / 16, Y, random_state=0)

crbm = ConditionalRBM(32, n_iter=20, batch_size=20, random_state=0).fit(X_train, Y_train)
one_by_one = MultiOutputClassifier(LogisticRegression(max_iter=1000)).fit(X_train, Y_train)

score = (crbm.predict(X_test) == Y_test).all(axis=1).mean()
baseline = (one_by_one.predict(X_test) == Y_test).all(axis=1).mean()
print(f"all seven segments right {score:.3f}, with separate classifiers {baseline:.3f}")
