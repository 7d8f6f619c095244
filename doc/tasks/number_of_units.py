from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from skrbm import FrankWolfeRBM

X = (load_digits().data > 7.5).astype("float32")
X_train, X_test = train_test_split(X, random_state=0)
grown = FrankWolfeRBM(max_components=50, random_state=0).fit(X_train)
print(f"{grown.n_components_} hidden units; reason to stop: {grown.stop_reason_}")

score, baseline = grown.score(X_test), grown.truncate(5).score(X_test)
print(f"{score:.1f} nats per image, {baseline:.1f} with the first five")
