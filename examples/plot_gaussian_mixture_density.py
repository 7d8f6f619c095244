"""
======================
Densities of mixtures
======================

This example shows mixtures of three normal distributions in the plane, and the densities that
:class:`~skrbm.GaussianBernoulliRBM` learns from 500 points with five samplers, as in Fig. 1 of
:cite:t:`Liao2022`. Chains are annealed from noise with resampling, so that separate components keep
their probabilities.
"""

# %%
# Data and models
# ---------------
# Training starts at small variances, and with hidden units whose thresholds pass through rows of
# the data; with small weights or plain gradient steps, most hidden units would vanish.

import matplotlib.pyplot as plt
import numpy as np

from skrbm import GaussianBernoulliRBM
from skrbm.inference import Gibbs, GibbsLangevin, Langevin

angles = np.pi / 2 + 2 * np.pi / 3 * np.arange(3)
means = 3 * np.column_stack([np.cos(angles), np.sin(angles)])
deviations = {
    "isotropic": np.full((3, 2), 0.5),
    "anisotropic": np.array([[0.3, 1.0], [1.0, 0.3], [0.6, 0.6]]),
}
chains = {"n_steps": 5, "start": "annealed", "burn_in": 0}
samplers = {
    "Gibbs": Gibbs(**chains),
    "Langevin": Langevin(adjust_after=None, **chains),
    "Langevin, adjusted": Langevin(adjust_after=0, **chains),
    "Gibbs-Langevin": GibbsLangevin(adjust_after=None, **chains),
    "Gibbs-Langevin, adj.": GibbsLangevin(adjust_after=0, **chains),
}
generator = np.random.default_rng(0)


def draw(kind, n):
    """Return samples of a mixture."""
    which = generator.integers(3, size=n)
    return means[which] + deviations[kind][which] * generator.standard_normal((n, 2))


def fitted(X, sampler, n_components=16):
    """Return an RBM fitted to X."""
    generator = np.random.default_rng(0)
    variances = 0.1 * X.var(axis=0)
    components = np.sqrt(variances) * generator.standard_normal((n_components, 2))
    rows = X[generator.integers(len(X), size=n_components)]
    intercept_hidden = -(components / variances * rows).sum(axis=1)
    intercept_visible = X.mean(axis=0) - components.sum(axis=0) / 2
    parts = components, intercept_hidden, intercept_visible, variances
    return GaussianBernoulliRBM(
        n_components,
        inference=sampler,
        optimizer="adam",
        learning_rate=0.05,
        batch_size=500,
        n_iter=200,
        init=GaussianBernoulliRBM.from_parameters(*parts),
        random_state=0,
    ).fit(X)


# %%
# Densities
# ---------
# First the isotropic mixture and the models of all samplers, then the anisotropic mixture. Since
# all components of an RBM have the same variances, wide ones are composed of narrow ones, which
# takes many more epochs to learn than here.

axis = np.linspace(-5, 5, 101)
grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)


def show(axis, title, log_density, V):
    """Draw a density and samples."""
    density = np.exp(log_density - log_density.max()).reshape(101, 101)
    axis.imshow(density, origin="lower", extent=(-5, 5, -5, 5), cmap="Blues")
    axis.plot(*V[:200].T, ".", color="C1", markersize=2)
    axis.set(xticks=[], yticks=[], xlim=(-5, 5), ylim=(-5, 5), aspect="equal")
    axis.set_title(title, fontsize="medium")


figure, axes = plt.subplots(2, 4, figsize=(8, 4.7), layout="constrained")
panels = iter(axes.flat)
for kind, names in {"isotropic": list(samplers), "anisotropic": ["Gibbs-Langevin"]}.items():
    X, deviation = draw(kind, 500), deviations[kind]
    squares = (((grid[:, None] - means) / deviation) ** 2).sum(axis=2)
    show(next(panels), kind, np.log((np.exp(-squares / 2) / deviation.prod(axis=1)).sum(axis=1)), X)
    for name in names:
        rbm = fitted(X, samplers[name])
        V = rbm.sample(500, n_steps=100, random_state=0)
        show(next(panels), name, -rbm.free_energy(grid), V)
plt.show()
