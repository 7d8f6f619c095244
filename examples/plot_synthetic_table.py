"""
=================
A synthetic table
=================

A table of customers with columns of five kinds, and a machine that has learnt it. New rows that the
machine draws have the same distributions of single columns and the same dependences between
columns, but are nobody's. :class:`~skrbm.TabularRBM` takes the DataFrame as it is.
"""

# %%
# Customers
# ---------
# Four groups of customers, which the table does not tell. A tenth of all values is missing.

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
# Learning and drawing
# --------------------
# Kinds of columns follow from dtypes, except that visits are to be counts without a bound.

rbm = TabularRBM(n_components=20, kinds={"visits": "count"}, n_iter=30, random_state=0)
synthetic = rbm.fit(holes).sample(n, n_steps=100, random_state=0)
print(", ".join(f"{name}: {kind}" for name, kind in rbm.kinds_.items()))
print(synthetic.head().round(1).to_string())

# %%
# Two tables
# ----------
# Age and spending, with the channel in colours, of customers and of rows that were drawn; then the
# numbers of visits and of stars.

colours = {"web": "C0", "shop": "C1", "phone": "C2"}
figure, axes = plt.subplots(2, 2, figsize=(7.5, 6.5), layout="constrained")
figure.suptitle("A table and its synthetic counterpart")
for ax, rows, title in zip(axes[0], (customers, synthetic), ("customers", "drawn"), strict=True):
    for name, colour in colours.items():
        some = rows[rows["channel"] == name]
        ax.scatter(some["age"], some["log spending"], s=4, color=colour, alpha=0.5, label=name)
    ax.set(title=title, xlabel="age", ylabel="log spending", xlim=(5, 85), ylim=(0.5, 7))
axes[0, 0].legend(markerscale=3)
for ax, name in zip(axes[1], ("visits", "stars"), strict=True):
    for rows, label, shift in ((customers, "customers", -0.2), (synthetic, "drawn", 0.2)):
        values, counts = np.unique(rows[name].astype(int), return_counts=True)
        ax.bar(values + shift, counts / n, width=0.4, label=label)
    ax.set(xlabel=name, ylabel="part of the rows")
    ax.legend()
plt.show()

# %%
# A row with holes
# ----------------
# ``impute`` fills in means, and the likeliest categories. Draws given what is known tell how sure
# that is.

row = holes.loc[[holes.isna().sum(axis=1).idxmax()]]
print(row.to_string())
print(rbm.impute(row, random_state=0).round(1).to_string())
draws = rbm.sample(given=pd.concat([row] * 200), random_state=0)
print(draws.select_dtypes("number").std().astype(float).round(2).to_string())
