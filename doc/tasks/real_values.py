from scipy.stats import norm
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from skrbm import RBM

X = load_breast_cancer().data
X_train, X_test = train_test_split(X, random_state=0)
rbm = RBM(64, visible="gaussian", n_iter=200, random_state=0).fit(X_train)

score = rbm.score(X_test)
columns = norm(X_train.mean(axis=0), X_train.std(axis=0))
baseline = columns.logpdf(X_test).sum(axis=1).mean()
print(f"{score:.1f} nats per row, {baseline:.1f} with independent normal columns")
