"""
=====================================================
Do the chains mix, and are the samples like the data?
=====================================================

:func:`~skrbm.evaluation.diagnose` runs chains of a machine and compares its samples with data;
:class:`~skrbm.inspection.DiagnosisDisplay` draws the result. Here two machines learn the same data:
one from chains that restart for each batch and make few sweeps, one from persistent chains.
"""

# %%
# Data in two clusters
# --------------------
# Rows of 16 bits are near to a pattern, three of ten, or to its opposite: a bit of twenty differs.

import matplotlib.pyplot as plt
import numpy as np

from skrbm import RBM
from skrbm.evaluation import bracket, diagnose
from skrbm.inspection import DiagnosisDisplay

rng = np.random.default_rng(0)
pattern = rng.random(16) < 0.5


def draw(n_rows):
    opposite = rng.random((n_rows, 1)) < 0.7
    flipped = rng.random((n_rows, 16)) < 0.05
    return (pattern ^ opposite ^ flipped).astype(float)


X_train, X_test = draw(500), draw(500)

# %%
# Chains that restart
# -------------------
# With ``starts="noise"`` the chains of each batch start at draws of independent units and make
# three sweeps. The machine learns to be like the data after a few sweeps, and not in the long run:
# from random starts the error of the moments falls, and then it rises (last panel; the dashed line
# is the error that as many rows of the data have).

restarted = RBM(16, starts="noise", n_steps=3, learning_rate=0.05, n_iter=200, random_state=0)
restarted.fit(X_train)
diagnosis = diagnose(restarted, X_test, n_chains=200, n_steps=2000, random_state=0)
print(diagnosis)
DiagnosisDisplay.from_diagnosis(diagnosis)
plt.show()

# %%
# Persistent chains
# -----------------
# The second machine keeps its chains from batch to batch, and its learning rate decreases to zero.
# Its moments are those of the data. Chains need about a thousand sweeps to go from one cluster
# to the other, as the clusters are far apart.

persistent = RBM(16, n_steps=5, learning_rate=0.2, schedule="linear", n_iter=200, random_state=0)
persistent.fit(X_train)
display = DiagnosisDisplay.from_estimator(persistent, X_test, n_chains=200, random_state=0)
print(display.diagnosis)
plt.show()

# %%
# Where chains mix slowly, compare the estimate of log Z with one from above.

found = bracket(persistent, X_train, random_state=0)
print(found, found.agrees)

# %%
# Samples that look right after a few sweeps do not make a good model. The scores of held-out rows,
# in nats per row:

for name, rbm in {"restarted": restarted, "persistent": persistent}.items():
    print(f"{name:10s} {rbm.score(X_test):7.2f}")
