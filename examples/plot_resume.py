"""
An interrupted fit that is resumed
==================================

:class:`~skrbm.persistence.Checkpoint` writes a fit to files while it runs, and
:func:`~skrbm.persistence.resume` continues from the newest of them. Here a fit breaks off in its
middle. It is resumed, and ends with the same weights as a fit that nothing has interrupted, to the
last bit.
"""

# %%
# A fit that nothing interrupts
# -----------------------------
# It is there to compare with. The rows are scikit-learn's digits, each pixel on or off.

import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from skrbm import RBM

X = (load_digits().data > 7.5).astype(np.float32)
settings = {"n_components": 64, "n_iter": 30, "random_state": 0}
unbroken = RBM(**settings).fit(X)

# %%
# A fit that breaks off
# ---------------------
# The same fit with two callbacks. The first writes a file after every fifth epoch; the second
# stands for whatever may go wrong, and raises an error after epoch 13. A folder of your own should
# not be a temporary one, as here, but one that outlives the process.

from skrbm.persistence import Checkpoint, resume


class Accident:
    """Callback that raises an error after an epoch."""

    def __init__(self, epoch):
        self.epoch = epoch

    def setup(self, estimator, context):
        """Nothing needs to be prepared."""

    def teardown(self, estimator, context):
        """Nothing needs to be undone."""

    def on_fit_task_begin(self, estimator, context):
        """Nothing happens before an epoch."""

    def on_fit_task_end(self, estimator, context):
        """Raise the error if the epoch has come."""
        if estimator.history_["epoch"][-1] == self.epoch:
            raise RuntimeError(f"an accident after epoch {self.epoch}")


folder = tempfile.TemporaryDirectory()
broken = RBM(**settings).set_callbacks(Checkpoint(folder.name, every=5), Accident(13))
try:
    broken.fit(X)
except RuntimeError as error:
    print(error)
print(*sorted(path.name for path in Path(folder.name).iterdir()))

# %%
# Resuming
# --------
# The files were written when the fit began and after epochs 5 and 10. ``resume`` reads the newest,
# and learns from epoch 11 on. Random numbers, chains and the learning rate that the fit has found
# are in the file too. So the end is the same as without the accident.

from skrbm.persistence import load

saved = load(sorted(Path(folder.name).iterdir())[-1])
resumed = resume(folder.name, X)
folder.cleanup()

for name in ("components_", "intercept_hidden_", "intercept_visible_"):
    assert (getattr(resumed, name) == getattr(unbroken, name)).all()
for name in ("learning_rate", "log_likelihood"):
    np.testing.assert_array_equal(resumed.history_[name], unbroken.history_[name])
print(f"after epoch {saved.n_iter_}: {saved.score(X):.2f} nats for each row")
print(f"after epoch {resumed.n_iter_}: {resumed.score(X):.2f}, as without the accident")

# %%
# Pictures
# --------
# The three epochs that no file had are learnt again, with the same result.

import matplotlib.pyplot as plt

figure = plt.figure(figsize=(7.5, 6), layout="constrained")
figure.suptitle("A fit that broke off ends as the one that did not")
above, below = figure.subfigures(2, 1, height_ratios=(1, 1))
names = {"log_likelihood": "log-likelihood (nats)", "learning_rate": "learning rate"}
for ax, (name, label) in zip(above.subplots(1, 2), names.items(), strict=True):
    curves = [fit.history_[name] for fit in (unbroken, resumed, broken)]
    epochs = np.arange(1, 31)
    ax.plot(epochs, curves[0], color="0.8", lw=7, label="never broken off")
    ax.plot(epochs[10:], curves[1][10:], color="C0", label="resumed")
    ax.plot(epochs[:13], curves[2], "--", color="C3", label="broken off")
    ax.plot(13, curves[2][-1], "X", color="C3", ms=9)
    ax.axvline(10, color="0.5", lw=1, ls=":", label="last file")
    ax.set(xlabel="epoch", ylabel=label)
ax.legend(frameon=False)

machines = {"last file\n(epoch 10)": saved, "resumed\n(epoch 30)": resumed}
machines["never\nbroken off"] = unbroken
largest = np.argsort(-np.linalg.norm(unbroken.components_, axis=1))[:9]
below.suptitle("Weights of nine hidden units", fontsize="medium")
axes = below.subplots(3, 9)
for row, (name, machine) in zip(axes, machines.items(), strict=True):
    row[0].set_ylabel(name, rotation=0, ha="right", va="center")
    for ax, unit in zip(row, largest, strict=True):
        ax.imshow(machine.components_[unit].reshape(8, 8), cmap="RdBu_r", vmin=-3, vmax=3)
        ax.set(xticks=[], yticks=[])
plt.show()
