"""The picture of the README: likelihoods of packages, and completed and generated digits.

    SKRBM_DATA=... python examples/benchmarks/overview.py [--seconds 85]

An ``RBM(500)`` with default settings is trained on thresholded MNIST for 85 seconds of processor
time on one thread, as in ``peers.py``, whose results file gives the bars. A bar ends at the lower
of the two estimates of a likelihood, and a line continues to the higher one. Printed are the errors
of the imputed lower halves of 1000 test images, and those of the most frequent values.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from _common import fit_for, heading, mnist
from peers import NAMES, RESULTS
from threadpoolctl import threadpool_limits

from skrbm import RBM

DOC = Path(__file__).resolve().parents[2] / "doc"
PACKAGES = {"RBM": "skrbm", "rbms": "rbms", "scikit-learn": "scikit-learn", "paysage": "paysage"}


def bars(axis, found, title):
    """Draw what each package gains over independent columns."""
    ends = {
        package: sorted(found[package][key] - found["independent"] for key in ("ais", "reverse"))
        for package in PACKAGES
    }
    longest = max(high for _, high in ends.values())
    for place, (package, name) in enumerate(PACKAGES.items()):
        low, high = ends[package]
        axis.barh(place, low, color="#1b5e9e" if name == "skrbm" else "#a6a6a6")
        axis.plot([low, high], [place, place], color="black", linewidth=2)
        x, color = (1, "white") if low > 0.1 * longest else (high, "black")  # inside, or behind it
        axis.text(x, place, f" {low:.0f}", va="center", color=color, weight="bold")
    axis.set_yticks(range(len(PACKAGES)), PACKAGES.values())
    axis.invert_yaxis()
    axis.tick_params(axis="both", length=0)
    axis.set_xticks([])
    axis.spines[["left", "bottom"]].set_visible(False)
    axis.set_title(title, loc="left", fontsize=14)


def draw(rows, path):
    """Draw the bars, and below them a line of images for each name."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"font.size": 14, "axes.spines.top": False, "axes.spines.right": False})
    figure = plt.figure(figsize=(6.4, 7.4), layout="constrained", facecolor="white")
    above, below = figure.subfigures(2, 1, height_ratios=(1, 1.02))
    above.suptitle("Log-likelihood gained in equal time (nats)", fontsize=14, weight="bold")
    results = json.loads(RESULTS.read_text())
    for axis, name in zip(above.subplots(2, 1), ("mnist", "fashion-mnist"), strict=True):
        bars(axis, results[name], NAMES[name])
    below.suptitle("Completed and generated digits", fontsize=14, weight="bold")
    for line, (name, images) in zip(below.subplots(len(rows), 8), rows.items(), strict=True):
        line[0].set_ylabel(name, rotation=0, ha="right", va="center")
        for axis, image in zip(line, images, strict=True):
            pixels = np.ma.masked_invalid(image.reshape(28, 28))
            axis.imshow(pixels, cmap="gray_r", vmin=0, vmax=1)
            axis.set(xticks=[], yticks=[], facecolor="#5b9bd5")
            axis.spines[:].set_visible(False)
    figure.savefig(path, dpi=125)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=85)
    parser.add_argument("--picture", type=Path, default=DOC / "_static" / "overview.png")
    args = parser.parse_args()
    heading(__file__, args)
    (X, _), (X_test, y_test) = mnist("train"), mnist("test", 1000)
    X, X_test = X.astype(np.float32), X_test.astype(np.float32)
    rbm = RBM(500, random_state=0)
    with threadpool_limits(1):
        spent, epochs = fit_for(rbm, X, args.seconds)
        print(f"RBM(500), {len(X)} images: {spent:.0f} s of the processor, {epochs:.1f} epochs")
        lost = X_test.copy()
        lost[:, 392:] = np.nan
        completed = rbm.impute(lost, random_state=0)
        drawn = rbm.sample(8, n_steps=2000, random_state=0)
    wrong = [
        100 * np.mean((guess[..., 392:] > 0.5) != X_test[:, 392:])
        for guess in (completed, X.mean(axis=0)[None])
    ]
    print(f"lower halves: {wrong[0]:.1f} % wrong, by most frequent values {wrong[1]:.1f} %")
    shown = [int(np.argmax(y_test == label)) for label in (0, 2, 3, 4, 5, 6, 8, 9)]
    rows = {"test image": X_test[shown], "observed": lost[shown], "completed": completed[shown]}
    rows["generated"] = rbm.inverse_transform(rbm.transform(drawn))
    draw(rows, args.picture)


if __name__ == "__main__":
    main()
