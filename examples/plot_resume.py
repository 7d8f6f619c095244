"""
============================
Resuming from a checkpoint
============================

:class:`~skrbm.persistence.Checkpoint` saves the state of a fit while it runs, and
:func:`~skrbm.persistence.resume` continues from it. The resumed fit is identical to one without
interruption.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from skrbm import RBM
from skrbm.persistence import Checkpoint, load, resume

X = (load_digits().data > 7.5).astype(np.float32)
rbm = RBM(n_components=64, n_iter=30, random_state=0)
with tempfile.TemporaryDirectory() as folder:
    rbm.set_callbacks(Checkpoint(folder, every=10, keep=10)).fit(X)
    files = sorted(Path(folder).iterdir())
    print(*(file.name for file in files))
    saved, resumed = load(files[1]), resume(files[1], X)

assert (resumed.components_ == rbm.components_).all()
print(f"after epoch {saved.n_iter_}: {saved.score(X):.2f} nats per row")
print(f"after epoch {resumed.n_iter_}: {resumed.score(X):.2f}, as without interruption")

# %%
# Training curves, and weights of nine hidden units:

figure = plt.figure(figsize=(7.5, 6), layout="constrained")
above, below = figure.subfigures(2, 1)
names = {"log_likelihood": "log-likelihood (nats)", "learning_rate": "step length"}
for axis, (name, label) in zip(above.subplots(1, 2), names.items(), strict=True):
    epochs = np.arange(1, 31)
    axis.plot(epochs, rbm.history_[name], color="0.8", lw=7, label="uninterrupted")
    axis.plot(epochs[10:], resumed.history_[name][10:], color="C0", label="resumed")
    axis.axvline(10, color="0.5", lw=1, ls=":", label="checkpoint")
    axis.set(xlabel="epoch", ylabel=label)
axis.legend(frameon=False)

models = {"epoch 10": saved, "resumed": resumed, "uninterrupted": rbm}
largest = np.argsort(-np.linalg.norm(rbm.components_, axis=1))[:9]
for row, (name, model) in zip(below.subplots(3, 9), models.items(), strict=True):
    row[0].set_ylabel(name, rotation=0, ha="right", va="center")
    for axis, unit in zip(row, largest, strict=True):
        axis.imshow(model.components_[unit].reshape(8, 8), cmap="RdBu_r", vmin=-3, vmax=3)
        axis.set(xticks=[], yticks=[])
plt.show()
