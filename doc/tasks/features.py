from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from skrbm import RBM

X, y = load_digits(return_X_y=True)
classifier = LogisticRegression(C=10, max_iter=2000)
on_features = make_pipeline(MinMaxScaler(clip=True), RBM(100, random_state=0), classifier)
on_pixels = make_pipeline(MinMaxScaler(clip=True), classifier)

score = cross_val_score(on_features, X, y).mean()
baseline = cross_val_score(on_pixels, X, y).mean()
print(f"accuracy on learned features {score:.3f}, on pixels {baseline:.3f}")
