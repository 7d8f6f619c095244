"""
How many processes pay: a model of a step
=========================================

Several processes learn one machine together: each has a part of the rows of a batch, and all add
up what they found before the parameters change. With more processes the arithmetic takes less time
and the messages take more. This page draws a model of both, whose numbers were measured or are
those of common networks; nothing is fitted here. See :ref:`clusters` for how to do it.
"""

# %%
# The time of a step
# ------------------
# A step of persistent contrastive divergence of 784 x 500 units took 54 µs for each row, by one
# thread of an AMD EPYC in float32 (:ref:`benchmark_ranks`). A sum over N processes by a ring takes
# 2 (N - 1) messages of 1/N of the parameters each. Latency and bandwidth are those of two networks.

import numpy as np

TIME_OF_ROW = 54e-6  # s
BYTES = 4 * (784 * 500 + 784 + 500)  # of the parameters
NETWORKS = {"10 Gbit/s Ethernet": (50e-6, 1.1e9), "200 Gbit/s InfiniBand": (5e-6, 20e9)}


def time_of_step(n_processes, batch_size, latency, bandwidth):
    """Return the time of a step in s, where processes share a batch."""
    message = latency + BYTES / n_processes / bandwidth
    return TIME_OF_ROW * batch_size / n_processes + 2 * (n_processes - 1) * message


# %%
# How many times as fast
# ----------------------
# A batch of 2000 rows is soon too small to be shared. Larger batches keep more processes busy, but
# take fewer steps in an epoch, so that the fit may need more epochs.

import matplotlib.pyplot as plt

n = np.arange(1, 1001)
sizes = (500, 2000, 8000, 32000)
colors = plt.cm.viridis(np.linspace(0, 0.85, len(sizes)))
figure, axes = plt.subplots(1, 2, figsize=(7.5, 4.3), sharey=True, layout="constrained")
for ax, (name, network) in zip(axes, NETWORKS.items(), strict=True):
    ax.loglog(n, n, color="0.6", ls="--", lw=1)
    for size, color in zip(sizes, colors, strict=True):
        speed = time_of_step(1, size, *network) / time_of_step(n, size, *network)
        best = speed.argmax()
        print(f"{name}, batches of {size}: at most {speed[best]:.1f} times, by {n[best]} processes")
        ax.plot(n, speed, color=color, label=f"{size} rows")
        ax.plot(n[best], speed[best], "o", color=color)
    ax.set(xlabel="processes", title=name, xlim=(1, 1000), ylim=(1, 1000))
axes[0].set_ylabel("times as fast as one")
axes[0].legend(title="batches of", frameon=False)
axes[1].text(9, 14, "without messages", rotation=46, color="0.4", ha="center", va="center")
figure.suptitle("Processes that share batches: each curve has a best number")
plt.show()

# %%
# Efficiency where batches grow
# -----------------------------
# Where each process has 2000 rows of its own, the batch grows with their number.

figure, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
for name, network in NETWORKS.items():
    efficiency = time_of_step(1, 2000, *network) / time_of_step(n, 2000 * n, *network)
    ax.semilogx(n, efficiency, label=name)
ax.set(xlabel="processes", ylabel="efficiency", ylim=(0, 1.03), xlim=(1, 1000))
ax.set_title("Efficiency where each process has 2000 rows of a batch")
ax.legend(frameon=False, loc="lower left")
plt.show()
