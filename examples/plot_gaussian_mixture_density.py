"""
=============================================
Densities of mixtures of normal distributions
=============================================

Three normal distributions in the plane, and what a machine with Gaussian visible units makes of
five hundred points drawn from them: Fig. 1 of Liao et al. (2022), for the five samplers that
:class:`~skrbm.GaussianBernoulliRBM` can learn with. Every machine learns from chains that are
annealed from noise, and generates in the same way.
"""

# %%
# Data
# ----
# The means lie at radius 3, 120 degrees apart. The first mixture is isotropic, the second is not.

import numpy as np

angles = np.pi / 2 + 2 * np.pi / 3 * np.arange(3)
means = 3 * np.column_stack([np.cos(angles), np.sin(angles)])
deviations = {
    "isotropic": np.full((3, 2), 0.5),
    "anisotropic": np.array([[0.3, 1.0], [1.0, 0.3], [0.6, 0.6]]),
}
generator = np.random.default_rng(0)


def draw(kind, n):
    which = generator.integers(3, size=n)
    return means[which] + deviations[kind][which] * generator.standard_normal((n, 2))


# %%
# Machines
# --------
# No chain crosses from one of them to another. Chains that are annealed from noise, with
# resampling, have the right share of each all the same. Learning begins with small variances and
# hidden units whose planes, where they are on with probability 1/2, go through rows of the data.
# From small weights, or by plain gradient steps in place of Adam, most hidden units would die out.
# Without Metropolis adjustment ("adj.") Langevin steps have another distribution than the machine,
# and what is learned differs a little.

from skrbm import GaussianBernoulliRBM

samplers = {
    "Gibbs": {"inference": "gibbs"},
    "Langevin": {"inference": "langevin"},
    "Langevin, adj.": {"inference": "langevin", "adjust_after": 0},
    "Gibbs-Langevin": {"inference": "gibbs_langevin"},
    "Gibbs-Langevin, adj.": {"inference": "gibbs_langevin", "adjust_after": 0},
}


def machine(X, sampler, n_components=16):
    generator = np.random.default_rng(0)
    variances = 0.1 * X.var(axis=0)
    components = np.sqrt(variances) * generator.standard_normal((n_components, 2))
    rows = X[generator.integers(len(X), size=n_components)]
    intercept_hidden = -(components / variances * rows).sum(axis=1)
    intercept_visible = X.mean(axis=0) - components.sum(axis=0) / 2
    rbm = GaussianBernoulliRBM(
        n_components,
        starts="annealed",
        n_steps=5,
        optimizer="adam",
        learning_rate=0.05,
        batch_size=500,
        n_iter=200,
        init=(components, intercept_hidden, intercept_visible, variances),
        random_state=0,
        **sampler,
    )
    return rbm.fit(X)


# %%
# Pictures
# --------
# Densities in colour, with points that were drawn: the isotropic mixture and the machines of all
# samplers, and last the anisotropic one and the machine of one sampler. Given the hidden units all
# distributions have the same variances, so that the wide ones of the anisotropic mixture are made
# up of several narrow ones: they come out after far more passes than there are here.

import matplotlib.pyplot as plt

axis = np.linspace(-5, 5, 101)
grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)


def show(panel, title, density, V):
    extent = (-5, 5, -5, 5)
    panel.imshow(density.reshape(101, 101), origin="lower", extent=extent, cmap="Blues")
    panel.plot(*V[:200].T, ".", color="C1", markersize=2)
    panel.set(xticks=[], yticks=[], xlim=(-5, 5), ylim=(-5, 5), aspect="equal")
    panel.set_title(title, fontsize="medium")


def show_truth(panel, kind, V):
    squares = (((grid[:, None] - means) / deviations[kind]) ** 2).sum(axis=2)
    density = (np.exp(-0.5 * squares) / deviations[kind].prod(axis=1)).sum(axis=1)
    show(panel, f"{kind}: truth", density, V)


def show_machine(panel, X, name):
    rbm = machine(X, samplers[name])
    energy = rbm.free_energy(grid)
    show(panel, name, np.exp(energy.min() - energy), rbm.sample(500, n_steps=100, random_state=0))


figure, axes = plt.subplots(2, 4, figsize=(8, 4.7), layout="constrained")
figure.suptitle("Densities of mixtures and of machines, with points drawn from them")
panels = iter(axes.flat)
X = draw("isotropic", 500)
show_truth(next(panels), "isotropic", X)
for name in samplers:
    show_machine(next(panels), X, name)
X = draw("anisotropic", 500)
show_truth(next(panels), "anisotropic", X)
show_machine(next(panels), X, "Gibbs-Langevin")
plt.show()
