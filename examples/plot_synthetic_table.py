"""
===============
Synthetic table
===============

:class:`~skrbm.TabularRBM` is fitted to a DataFrame with columns of five kinds and missing values,
and generates new rows.
"""

# %%
# Data
# ----
# The rows come from four groups of customers; the group is not a column of the table.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skrbm import TabularRBM

rng = np.random.default_rng(0)
n = 2000
group = rng.choice(4, n, p=[0.4, 0.3, 0.2, 0.1])
shares = np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8], [0.4, 0.3, 0.3]])
channel = np.array([rng.choice(3, p=shares[k]) for k in group])
visits = rng.poisson(np.array([2, 6, 12, 4])[group])
customers = pd.DataFrame(
    {
        "age": np.array([25, 45, 62, 36])[group] + rng.normal(0, 5, n),
        "log spending": np.array([2.0, 4.0, 3.2, 5.5])[group] + rng.normal(0, 0.35, n),
        "visits": visits,
        "stars": rng.binomial(5, np.array([0.5, 0.7, 0.9, 0.3])[group]),
        "member": rng.random(n) < np.array([0.1, 0.6, 0.9, 0.4])[group],
        "channel": np.array(["web", "shop", "phone"])[channel],
    }
)
holes = customers.astype({"visits": "Int64", "stars": "Int64", "member": "boolean"})
holes = holes.mask(rng.random(holes.shape) < 0.1)

# %%
# Synthetic rows
# --------------
# The kinds of columns follow from their dtypes, except that visits are declared as unbounded
# counts.

rbm = TabularRBM(n_components=20, kinds={"visits": "count"}, n_iter=30, random_state=0)
synthetic = rbm.fit(holes).sample(n, n_steps=100, random_state=0)
print(", ".join(f"{name}: {kind}" for name, kind in rbm.kinds_.items()))
print(synthetic.head().round(1).to_string())

figure, axes = plt.subplots(2, 2, figsize=(7.5, 6.5), layout="constrained")
tables = {"customers": customers, "synthetic": synthetic}
for axis, (title, rows) in zip(axes[0], tables.items(), strict=True):
    for name in ("web", "shop", "phone"):
        some = rows[rows["channel"] == name]
        axis.scatter(some["age"], some["log spending"], s=4, alpha=0.5, label=name)
    axis.set(title=title, xlabel="age", ylabel="log spending", xlim=(5, 85), ylim=(0.5, 7))
axes[0, 0].legend(markerscale=3)
for axis, name in zip(axes[1], ("visits", "stars"), strict=True):
    for offset, (label, rows) in zip((-0.2, 0.2), tables.items(), strict=True):
        values, counts = np.unique(rows[name].astype(int), return_counts=True)
        axis.bar(values + offset, counts / n, width=0.4, label=label)
    axis.set(xlabel=name, ylabel="fraction of rows")
    axis.legend()
plt.show()

# %%
# Imputation
# ----------
# ``impute`` fills in means and the most probable categories. Draws show the uncertainty.

row = holes.loc[[holes.isna().sum(axis=1).idxmax()]]
print(row.to_string())
print(rbm.impute(row, random_state=0).round(1).to_string())
draws = rbm.sample(given=pd.concat([row] * 200), random_state=0)
print(draws.select_dtypes("number").std().astype(float).round(2).to_string())
