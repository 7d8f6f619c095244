"""
=====================
Assemblies of neurons
=====================

Assemblies of neurons that fire together can be found in recordings by RBMs whose hidden units are
real: a *double-rectified* unit follows how strongly its assembly is active
:cite:p:`VanDerPlas2023`. Here the spikes are generated, so that the assemblies are known.
"""

# %%
# Spikes of 96 cells in eight assemblies
# --------------------------------------

import matplotlib.pyplot as plt
import numpy as np

from skrbm import RBM
from skrbm.learning import SGD

rng = np.random.default_rng(0)
n_groups, n_cells, n_bins = 8, 96, 8000
group = rng.permutation(np.repeat(np.arange(n_groups), n_cells // n_groups))
strength = rng.uniform(0.8, 2.4, n_cells)  # of the link of each cell with its assembly
activity = (rng.random((n_bins, n_groups)) < 0.15) * rng.gamma(3, 0.8, (n_bins, n_groups))
field = strength * activity[:, group] - 3.5
spikes = (rng.random(field.shape) < 1 / (1 + np.exp(-field))).astype(np.float32)
X, X_test, activity_test = spikes[:6000], spikes[6000:], activity[6000:]

# %%
# Two models
# ----------
# The penalty "l1b" favours a few large weights over many small ones. Without it, real-valued units
# would mix the assemblies, since rotations of the weights explain the spikes nearly as well.

models = {
    "double-rectified": RBM(
        n_groups,
        hidden="double_relu",
        optimizer=SGD(alpha=2e-4, penalty="l1b"),
        learning_rate=0.3,
    ),
    "binary": RBM(n_groups),
}
found = {}
for name, rbm in models.items():
    hidden = rbm.set_params(n_iter=60, random_state=0).fit(X).transform(X_test)
    r = np.corrcoef(hidden.T, activity_test.T)[:n_groups, n_groups:]
    unit = np.abs(r).argmax(axis=0)  # the best unit of each assembly
    best = r[unit, np.arange(n_groups)]
    found[name] = hidden, unit, best
    print(f"{name}: {rbm.score(X_test):.2f} nats, correlation {np.abs(best).mean():.2f}")

# %%
# Assemblies and hidden units
# ---------------------------
# Cells are sorted by assembly, and units by the assembly that they follow best. Each
# double-rectified unit has large weights to one assembly only; binary units mix several assemblies,
# and saturate.

by_group = np.argsort(group, kind="stable")
figure, axes = plt.subplots(2, 3, figsize=(9, 5), width_ratios=[1.4, 1, 1], layout="constrained")
for row, (name, rbm) in zip(axes, models.items(), strict=True):
    hidden, unit, best = found[name]
    weights = rbm.components_[unit][:, by_group] * np.sign(best)[:, None]
    limit = np.abs(weights).max()
    row[0].imshow(weights, aspect="auto", cmap="RdBu_r", vmin=-limit, vmax=limit)
    row[0].set(title=f"weights of {name} units", ylabel="assembly", xlabel="cell")
    values = np.sign(best[0]) * hidden[:, unit[0]]
    row[1].plot(activity_test[:, 0], values, ".", ms=3, alpha=0.4, color="0.2")
    row[1].set(
        title=f"assembly 0, r = {abs(best[0]):.2f}", xlabel="activity", ylabel="mean of unit"
    )
    pairs = np.triu_indices(n_cells, 1)
    both = [np.cov(V.T)[pairs] for V in (X_test, rbm.sample(2000, random_state=0))]
    row[2].plot(*both, ".", ms=2, alpha=0.4, color="0.2")
    row[2].axline((0, 0), slope=1, lw=0.8, color="C3")
    r = np.corrcoef(*both)[0, 1]
    row[2].set(title=f"covariances, r = {r:.2f}", xlabel="spikes", ylabel="samples")
plt.show()
