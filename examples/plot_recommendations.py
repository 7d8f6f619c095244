"""
===============
Recommendations
===============

:class:`~skrbm.RatingRBM` predicts the ratings of items from the few ratings of a user.
"""

# %%
# Ratings
# -------
# Users like genres more or less, and rate one film in ten. Films with many ratings are on the left.

import matplotlib.pyplot as plt
import numpy as np

from skrbm import RatingRBM

rng = np.random.default_rng(0)
genres = ["comedy", "crime", "horror", "romance", "science fiction"]
n_users, n_films = 1000, 200
genre = rng.integers(len(genres), size=n_films)
tastes = rng.normal(size=(n_users, len(genres)))
means = 3.3 + 0.5 * rng.normal(size=n_films) + 0.4 * rng.normal(size=(n_users, 1))
ratings = means + 0.8 * tastes[:, genre] + 0.6 * rng.normal(size=means.shape)
ratings = np.clip(np.rint(ratings), 1, 5)
seen = rng.random(ratings.shape) < np.linspace(0.19, 0.01, n_films)
X = np.where(seen, ratings, np.nan)
print(f"{seen.mean():.0%} of the ratings are known, {seen.sum(axis=1).mean():.0f} of each user")

# %%
# Errors of unknown ratings
# -------------------------
# Each unknown rating is predicted from the known ratings of the user, and, for comparison, from the
# effects of users and items alone.

rbm = RatingRBM(random_state=0).fit(X)
effects = RatingRBM(1, n_iter=0, random_state=0).fit(X).impute(X)
expected = rbm.impute(X)
count = seen.sum(axis=1)
groups = np.digitize(count, [13, 17, 21, 25])
names = ["up to 12", "13 to 16", "17 to 20", "21 to 24", "25 and more"]
figure, axis = plt.subplots(figsize=(6, 3), layout="constrained")
for found, name, marker in ((effects, "effects alone", "o"), (expected, "RatingRBM", "s")):
    squares = (found - ratings) ** 2
    print(f"{name}: root mean squared error {np.sqrt(squares[~seen].mean()):.3f}")
    errors = [np.sqrt(squares[groups == k][~seen[groups == k]].mean()) for k in range(5)]
    axis.plot(names, errors, marker=marker, label=name)
axis.set(xlabel="ratings of the user", ylabel="root mean squared error", ylim=(0, None))
axis.legend()
plt.show()

# %%
# A new user
# ----------
# Someone likes five films of one genre, and dislikes five of another.

likes, dislikes = (np.flatnonzero(genre == k)[:5] for k in (2, 3))
new = np.full((1, n_films), np.nan)
new[0, likes], new[0, dislikes] = 5, 1
scores = np.where(np.isnan(new), rbm.impute(new), -np.inf)[0]
best = np.argsort(-scores)[:10]
print(f"likes {genres[2]}, dislikes {genres[3]}; ten recommendations:")
print(*np.array(genres)[genre[best]], sep=", ")
