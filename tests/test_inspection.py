"""The displays draw what they are given."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from sklearn.manifold import Isomap

from skrbm import (
    RBM,
    TAPRBM,
    BernoulliRBM,
    CategoricalRBM,
    RBMClassifier,
    RBMOutlierDetector,
)
from skrbm.evaluation import SolutionTree, diagnose
from skrbm.inference import TAP
from skrbm.inspection import (
    ComponentsDisplay,
    DiagnosisDisplay,
    FeatureScoresDisplay,
    FreeEnergyDisplay,
    HistoryDisplay,
    LandscapeDisplay,
    SamplesDisplay,
    SolutionsRecorder,
    SolutionTreeDisplay,
)
from skrbm.learning import SGD

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def rbm():
    X = (np.random.default_rng(0).random((50, 12)) < 0.5).astype(float)
    return BernoulliRBM(n_components=7, n_iter=4, verbose=1, random_state=0).fit(X)


def images(display):
    return [axis.images[0] for axis in display.axes_.flat if axis.images]


def test_components(rbm):
    display = ComponentsDisplay.from_estimator(rbm, image_shape=(3, 4))
    assert display.axes_.shape == (3, 3)
    assert len(images(display)) == 7
    assert display.figure_ is display.axes_[0, 0].figure
    strongest = np.argsort(-np.linalg.norm(rbm.components_, axis=1))
    for image, j in zip(images(display), strongest, strict=True):
        assert_array_equal(image.get_array(), rbm.components_[j].reshape(3, 4))
    limits = {image.get_clim() for image in images(display)}
    assert len(limits) == 1
    ((low, high),) = limits
    assert low == -high and 0 < high <= np.abs(rbm.components_).max()
    assert not any(axis.axison for axis in display.axes_.flat)
    display.figure_.canvas.draw()


@pytest.mark.parametrize("shape, expected", [(None, (4, 3)), ((2, 6), (2, 6))])
def test_weights_of_sites_are_images_of_sites_and_values(shape, expected):
    """Unless another shape is asked for."""
    X = np.random.default_rng(0).integers(0, 3, (30, 4))
    rbm = CategoricalRBM(5, n_iter=2, random_state=0).fit(X)
    display = ComponentsDisplay.from_estimator(rbm, image_shape=shape)
    strongest = np.argsort(-np.linalg.norm(rbm.components_, axis=(1, 2)))
    for image, j in zip(images(display), strongest, strict=True):
        assert_array_equal(image.get_array(), rbm.components_[j].reshape(expected))


def test_components_that_are_given_keep_their_order():
    rows = np.random.default_rng(0).normal(size=(3, 12))
    display = ComponentsDisplay(rows.tolist(), (4, 3)).plot(n_columns=3)
    for image, row in zip(images(display), rows, strict=True):
        assert_array_equal(image.get_array(), row.reshape(4, 3))
    with pytest.raises(ValueError, match="12 features do not fill"):
        ComponentsDisplay(rows)
    with pytest.raises(ValueError, match="Expected 2D array"):
        ComponentsDisplay(rows[0])


def test_history_of_likelihoods_has_a_band():
    history = {
        "epoch": [1, 2, 3, 4],
        "tap_log_likelihood": [-9.0, -8.0, -7.0, -6.0],
        "log_likelihood": [np.nan, -8.5, -7.5, -7.0],
        "log_likelihood_std": [np.nan, 0.1, 0.2, 0.3],
    }
    display = HistoryDisplay(history).plot()
    assert display.ax_.get_ylabel() == "log likelihood"
    assert_array_equal(display.lines_[0].get_xydata(), [[2, -8.5], [3, -7.5], [4, -7.0]])
    band = display.bands_[0].get_paths()[0].vertices
    for epoch, low, high in [(2, -8.7, -8.3), (3, -7.9, -7.1), (4, -7.6, -6.4)]:
        here = band[band[:, 0] == epoch, 1]
        assert (here.min(), here.max()) == pytest.approx((low, high))
    assert HistoryDisplay(history).plot(quantity="tap_log_likelihood").bands_ == []
    history["log_likelihood"][1:3] = [np.nan, np.nan]
    assert HistoryDisplay(history).plot().ax_.get_ylabel() == "tap log likelihood"


# ---------------------------------------------------------------- ranking of components


def test_components_by_spread(rbm):
    for end, sign in (("highest", -1), ("lowest", 1)):
        display = ComponentsDisplay.from_estimator(
            rbm, image_shape=(3, 4), rank_by="spread", end=end, n_components=3
        )
        spread = [sum(abs(w) ** 0.1 for w in unit) ** 10 for unit in rbm.components_]
        order = sorted(range(7), key=lambda j: sign * spread[j])[:3]
        assert_array_equal(display.components, rbm.components_[order])


def test_components_by_activation(rbm):
    X = np.random.default_rng(1).random((20, 12)).round()
    display = ComponentsDisplay.from_estimator(rbm, X, image_shape=(3, 4), rank_by="activation")
    fields = X @ rbm.components_.T + rbm.intercept_hidden_
    means = (1 / (1 + np.exp(-fields))).mean(axis=0)
    assert_array_equal(display.components, rbm.components_[np.argsort(-means)])


# ---------------------------------------------------------------- recorder of solutions


def pattern_rows(n=60, seed=0):
    """Rows near one of four patterns of 12 bits."""
    generator = np.random.default_rng(seed)
    patterns = np.kron(np.eye(4), np.ones(3))
    return np.abs(patterns[generator.integers(4, size=n)] - (generator.random((n, 12)) < 0.05))


def machine(n_starts=None, **params):
    optimizer = SGD(0.5, alpha=0.001, schedule="constant", centered=False, average=False)
    settings = {"learning_rate": 0.3, "n_iter": 48, "batch_size": 10, "random_state": 0}
    settings |= {"inference": TAP(start="data", n_starts=n_starts), "optimizer": optimizer}
    return TAPRBM(6, **settings | params)


@pytest.fixture(scope="module")
def recorder():
    recorder = SolutionsRecorder(pattern_rows(), every=16)
    machine().set_callbacks(recorder).fit(pattern_rows())
    return recorder


def test_records_are_the_solutions_of_each_epoch(recorder):
    X = pattern_rows()
    assert recorder.epochs_ == [0, 16, 32, 48]
    first, second, _, last = recorder.solutions_
    found = machine(n_iter=16).fit(X).solutions(X)
    assert_allclose(second.free_energies, found.free_energies, rtol=1e-9)
    assert_array_equal(second.labels, found.labels)
    assert len(first) == 1 < len(last)
    # Before training there are next to no couplings: log Z is that of independent units.
    log_z = 6 * np.log(2) - np.log(1 - X.mean(axis=0)).sum()
    assert first.log_partition() == pytest.approx(log_z, abs=0.1)


# ------------------------------------------------------------- displays of solutions


def test_free_energies_over_the_epochs(recorder):
    display = FreeEnergyDisplay.from_recorder(recorder)
    course, *histograms = display.axes_
    dots, mean = course.lines
    energies = [found.free_energies for found in recorder.solutions_]
    pairs = [(e, f) for e, each in zip(recorder.epochs_, energies, strict=True) for f in each]
    assert_array_equal(dots.get_xydata(), pairs)
    assert_allclose(mean.get_ydata(), [each.mean() for each in energies])
    (counts,) = [ax for ax in display.figure_.axes if ax not in display.axes_]
    assert_array_equal(counts.lines[0].get_ydata(), [len(each) for each in energies])
    assert len(histograms) == sum(len(each) > 1 for each in energies)
    areas = [bar.get_width() * bar.get_height() for bar in histograms[-1].patches]
    assert sum(areas) == pytest.approx(1)
    (density,) = histograms[-1].lines
    assert 0.8 < np.trapezoid(density.get_ydata(), density.get_xdata()) <= 1
    display.figure_.canvas.draw()
    alone = FreeEnergyDisplay(recorder.epochs_[:1], recorder.solutions_[:1]).plot()
    assert len(alone.axes_[1].patches) == 1 and not alone.axes_[1].lines


def offsets(ax, index=0):
    return np.asarray(ax.collections[index].get_offsets())


def test_landscape_of_several_epochs(recorder):
    """All in the embedding of the last epoch's means of all units."""
    display = LandscapeDisplay.from_recorder(recorder)
    last = np.hstack(recorder.solutions_[-1].means)
    n_neighbors = min(10, len(last) - 1)
    assert_array_equal(
        offsets(display.axes_[-1]), Isomap(n_neighbors=n_neighbors).fit_transform(last)
    )
    for ax, found in zip(display.axes_, recorder.solutions_, strict=True):
        assert offsets(ax).shape == (len(found), 2)
        assert_array_equal(ax.collections[0].get_array(), found.free_energies)
    display.figure_.canvas.draw()


@pytest.mark.parametrize("y", [None, np.arange(60) % 3])
def test_landscape_among_the_starts(recorder, y):
    display = LandscapeDisplay.from_recorder(recorder, y, fit_on="starts")
    starts, (ax, found) = display.start_points[-1], (display.axes_[-1], recorder.solutions_[-1])
    assert_array_equal(starts, Isomap(n_neighbors=10).fit_transform(pattern_rows()))
    *dots, solutions = (np.asarray(c.get_offsets()) for c in ax.collections)
    expected = [starts] if y is None else [starts[y == label] for label in range(3)]
    for drawn, points in zip(dots, expected, strict=True):
        assert_array_equal(drawn, points)
    assert_array_equal(solutions, display.points[-1])
    sizes = ax.collections[-1].get_sizes()
    assert_array_equal(np.argsort(sizes, kind="stable"), np.argsort(found.counts, kind="stable"))
    display.figure_.canvas.draw()


def test_diagnosis(rbm):
    X = (np.random.default_rng(1).random((60, 12)) < 0.5).astype(float)
    options = {"n_chains": 20, "n_steps": 40, "random_state": 0}
    d = diagnose(rbm, X, **options)
    display = DiagnosisDisplay(d).plot()
    assert len(display.axes_) == 5 and len(display.figure_.axes) == 5
    first, *moments, last = display.axes_
    for line, k in zip(first.lines, range(6), strict=False):
        assert_array_equal(line.get_ydata(), d.autocorrelation[:, k])
        assert d.observables[k] in line.get_label()
    for ax, compared, order in zip(moments, d.moments, ("first", "second", "third"), strict=True):
        equal, points = ax.lines
        assert_array_equal(equal.get_xdata(), equal.get_ydata())
        assert_array_equal(points.get_xdata(), compared.data)
        assert_array_equal(points.get_ydata(), compared.samples)
        assert ax.get_title().startswith(f"{order} moments")
    assert_array_equal(last.lines[0].get_xdata(), d.quality.sweeps)
    assert_array_equal(last.lines[0].get_ydata(), d.quality.error)
    display.figure_.canvas.draw()


def test_training_and_validation_are_drawn_together():
    history = {"epoch": [1, 2], "log_likelihood": [-3.0, -2.0], "score": [-4.0, -3.5]}
    display = HistoryDisplay(history).plot()
    drawn = [list(line.get_ydata()) for line in display.lines_]
    assert drawn == [[-3.0, -2.0], [-4.0, -3.5]]
    assert [text.get_text() for text in display.ax_.get_legend().texts] == [
        "training",
        "validation",
    ]


@pytest.mark.parametrize("make", [np.asarray, csr_array])
def test_the_lowest_scores_of_features_come_first(make):
    X = (np.random.default_rng(1).random((60, 4)) < 0.5).astype(float)
    detector = RBMOutlierDetector(RBM(2, n_iter=2, random_state=0)).fit(make(X))
    display = FeatureScoresDisplay.from_estimator(detector, make(X)[:2], n_features=3)
    for axis, scores, row in zip(display.axes_, detector.score_features(X[:2]), X, strict=False):
        assert_allclose([bar.get_width() for bar in axis.patches], np.sort(scores)[:3])
        first = np.argmin(scores)
        assert axis.get_yticklabels()[0].get_text() == f"x{first} = {row[first]:.4g}"
    with pytest.raises(ValueError, match="X has 60 rows"):
        FeatureScoresDisplay.from_estimator(detector, X)


def test_samples_are_those_of_the_estimator(rbm):
    display = SamplesDisplay.from_estimator(rbm, n_samples=6, image_shape=(3, 4), random_state=0)
    drawn = np.stack([image.get_array().ravel() for image in images(display)])
    assert_array_equal(drawn, rbm.sample(6, random_state=0))
    with pytest.raises(ValueError, match="image_shape"):
        SamplesDisplay.from_estimator(rbm)
    with pytest.raises(TypeError, match="density estimator, such as RBM, got RBMClassifier"):
        SamplesDisplay.from_estimator(RBMClassifier(RBM(2, n_iter=1)).fit(drawn, drawn[:, 0]))


def test_completions_are_drawn_beside_their_images(rbm):
    X = (np.random.default_rng(1).random((2, 12)) < 0.5).astype(float)
    X[:, 6:] = np.nan
    options = {"n_samples": 2, "image_shape": (3, 4), "random_state": 0}
    display = SamplesDisplay.from_estimator(rbm, X, **options)
    assert display.axes_.shape == (2, 4)
    for row, drawn in zip(X, np.array(images(display)).reshape(2, 4), strict=True):
        given, mean, *draws = (image.get_array() for image in drawn)
        assert_array_equal(given.mask.ravel(), np.isnan(row))
        for filled in (mean, *draws):
            assert_array_equal(filled.ravel()[:6], row[:6])
        assert_allclose(mean.ravel(), rbm.impute(row[None])[0], rtol=1e-6)


def test_branches_of_a_tree_are_drawn_over_their_rows():
    labels = np.array([[0, 0, 0, 0, 0], [1, 0, 1, 0, -1], [2, 0, 1, 0, 3]])
    display = SolutionTreeDisplay.from_tree(SolutionTree((), labels), ["b", "a", "b", "a", "a"])
    drawn = [line.get_xydata() for line in display.ax_.lines if len(line.get_xdata())]
    places = [(*end,) for begin, end in drawn if begin[0] == end[0] and begin[1] == end[1] - 1]
    assert places == [(1.5, 0), (0.5, 1), (2.5, 1), (0.5, 2), (2.0, 2), (3.0, 2)]
    with pytest.raises(ValueError, match="y has"):
        SolutionTreeDisplay.from_tree(SolutionTree((), labels), ["a"])
    for epochs in (3, [1, 2]):
        with pytest.raises(ValueError, match="epochs has shape"):
            SolutionTreeDisplay.from_tree(SolutionTree((), labels), epochs=epochs)
