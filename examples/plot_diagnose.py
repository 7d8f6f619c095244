"""
====================
Diagnostics of a fit
====================

:func:`~skrbm.evaluation.diagnose` checks whether chains mix and whether samples resemble the data,
for a model trained with short chains from noise and for one trained with persistent chains.
"""

# %%
# Data in two clusters
# --------------------

import matplotlib.pyplot as plt
import numpy as np

from skrbm import RBM
from skrbm.evaluation import diagnose
from skrbm.inference import Gibbs
from skrbm.inspection import DiagnosisDisplay
from skrbm.learning import SGD

rng = np.random.default_rng(0)
pattern = rng.random(16) < 0.5


def draw(n_rows):
    """Return rows near a pattern (30 %) or its opposite, with 5 % of the bits flipped."""
    opposite = rng.random((n_rows, 1)) < 0.7
    flipped = rng.random((n_rows, 16)) < 0.05
    return (pattern ^ opposite ^ flipped).astype(float)


X_train, X_test = draw(500), draw(500)

# %%
# Short chains from noise
# -----------------------
# The model learns to resemble the data after three sweeps, but not in equilibrium: for chains from
# random starts the error of the moments first decreases and then increases (last panel; the dashed
# line is the error of as many rows of data).

chains = Gibbs(n_steps=3, start="noise")
short = RBM(16, inference=chains, learning_rate=0.05, n_iter=200, random_state=0)
short.fit(X_train)
diagnosis = diagnose(short, X_test, n_chains=200, n_steps=2000, random_state=0)
DiagnosisDisplay(diagnosis).plot()
plt.show()

# %%
# Persistent chains
# -----------------
# The moments agree with those of the data. Chains need about a thousand sweeps to move from one
# cluster to the other.

persistent = RBM(
    16,
    inference=Gibbs(n_steps=5),
    optimizer=SGD(schedule="linear"),
    learning_rate=0.2,
    n_iter=200,
    random_state=0,
)
persistent.fit(X_train)
diagnosis = diagnose(persistent, X_test, n_chains=200, random_state=0)
DiagnosisDisplay(diagnosis).plot()
plt.show()

# %%
# Samples that look right after a few sweeps do not make a good model:

for name, rbm in {"short": short, "persistent": persistent}.items():
    print(f"{name:10s} {rbm.score(X_test):7.2f} nats")
