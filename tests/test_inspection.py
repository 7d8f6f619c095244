"""The displays draw what they are given."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

from skrbm import RBM, TAPRBM, BernoulliRBM, ConditionalRBM, RBMClassifier, RBMOutlierDetector
from skrbm.evaluation import diagnose
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
    return BernoulliRBM(n_components=7, n_iter=4, random_state=0).fit(X)


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


def test_some_components(rbm):
    display = ComponentsDisplay.from_estimator(
        rbm, image_shape=(4, 3), n_components=4, n_columns=4, cmap="gray"
    )
    assert display.axes_.shape == (1, 4)
    norms = [np.linalg.norm(image.get_array()) for image in images(display)]
    assert_allclose(norms, np.sort(np.linalg.norm(rbm.components_, axis=1))[::-1][:4])
    assert images(display)[0].get_cmap().name == "gray"


def test_components_that_are_given_keep_their_order():
    rows = np.random.default_rng(0).normal(size=(3, 12))
    display = ComponentsDisplay.from_components(rows.tolist(), image_shape=(4, 3), n_columns=3)
    for image, row in zip(images(display), rows, strict=True):
        assert_array_equal(image.get_array(), row.reshape(4, 3))
    with pytest.raises(ValueError, match="12 features do not fill"):
        ComponentsDisplay.from_components(rows)
    with pytest.raises(ValueError, match="Expected 2D array"):
        ComponentsDisplay.from_components(rows[0])


def test_history(rbm):
    display = HistoryDisplay.from_estimator(rbm, color="red")
    (line,) = display.lines_
    assert_array_equal(line.get_xdata(), [1, 2, 3, 4])
    assert_array_equal(line.get_ydata(), rbm.history_["log_likelihood"])
    assert line.get_color() == "red"
    assert display.ax_.get_xlabel() == "epoch"
    assert display.ax_.get_ylabel() == "log likelihood"
    display.figure_.canvas.draw()


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


@pytest.mark.parametrize(
    "Display",
    [ComponentsDisplay, DiagnosisDisplay, HistoryDisplay, FreeEnergyDisplay, LandscapeDisplay],
)
def test_unfitted(Display):
    with pytest.raises(NotFittedError):
        Display.from_estimator(TAPRBM())


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


@pytest.mark.parametrize(
    "params, name",
    [
        ({"rank_by": "size"}, "rank_by"),
        ({"rank_by": "activation"}, "X"),
        ({"end": "middle"}, "end"),
        ({"n_components": 0}, "n_components"),
        ({"n_columns": 2.5}, "n_columns"),
        ({"image_shape": None}, "image_shape"),
    ],
)
def test_errors_of_components(rbm, params, name):
    with pytest.raises(ValueError, match=name):
        ComponentsDisplay.from_estimator(rbm, **{"image_shape": (3, 4), **params})


@pytest.mark.parametrize(
    "params, name",
    [
        ({}, "converged"),
        ({"early_stopping": True}, "validation_error"),
        ({"objective": "perceptron", "inference": "gibbs"}, "updated"),
        ({"inference": "gibbs"}, "time"),
    ],
)
def test_history_of_a_conditional_machine(params, name):
    generator = np.random.default_rng(0)
    X, Y = generator.normal(size=(30, 2)), generator.integers(0, 2, (30, 3))
    params = {"early_stopping": False, **params}
    crbm = ConditionalRBM(2, n_iter=3, random_state=0, **params).fit(X, Y)
    display = HistoryDisplay.from_estimator(crbm)
    assert_array_equal(display.lines_[0].get_ydata(), crbm.history_[name])
    assert display.ax_.get_ylabel() == name.replace("_", " ")


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
def trained():
    """A machine with a solution for each pattern at least."""
    rbm = machine().fit(pattern_rows())
    assert len(rbm.solutions(pattern_rows())) >= 4
    return rbm


@pytest.fixture(scope="module")
def recorded():
    recorder = SolutionsRecorder(pattern_rows(), every=16, keep_solutions=True)
    return machine().set_callbacks(recorder).fit(pattern_rows()), recorder


def test_records_are_the_solutions_of_each_epoch(recorded):
    _, recorder = recorded
    X = pattern_rows()
    assert [record["epoch"] for record in recorder.records_] == [0, 16, 32, 48]
    for record in recorder.records_[1:]:
        found = machine(n_iter=record["epoch"]).fit(X).solutions(X)
        assert record["n_solutions"] == len(found) == len(record["solutions"])
        assert record["n_unique"] == found.n_unique
        assert (record["n_starts"], record["n_unconverged"]) == (60, found.n_unconverged)
        assert_allclose(record["free_energies"], found.free_energies, rtol=1e-9)
        assert_allclose(record["free_energies_per_unit"], found.free_energies / 18, rtol=1e-9)
        assert record["log_partition"] == pytest.approx(found.log_partition(), rel=1e-9)
    first, last = recorder.records_[0], recorder.records_[-1]
    assert first["n_solutions"] == 1 < last["n_solutions"]
    # Before training there are next to no couplings: log Z is that of independent units.
    rates = X.mean(axis=0)
    assert first["log_partition"] == pytest.approx(6 * np.log(2) - np.log(1 - rates).sum(), abs=0.1)


def test_records_of_chosen_epochs_and_of_the_own_starts():
    recorder = SolutionsRecorder(epochs=[1, 3, 99])
    rbm = machine(n_iter=3).set_callbacks(recorder).fit(pattern_rows())
    assert [record["epoch"] for record in recorder.records_] == [1, 3]
    assert all("solutions" not in record for record in recorder.records_)
    assert recorder.records_[-1]["n_starts"] == len(rbm.starts_)
    assert_allclose(recorder.records_[-1]["free_energies"], rbm.solutions().free_energies)


def test_records_go_on_with_a_warm_start_and_begin_anew_without():
    recorder = SolutionsRecorder(every=2)
    rbm = machine(n_iter=3, warm_start=True).set_callbacks(recorder).fit(pattern_rows())
    rbm.fit(pattern_rows())
    assert [record["epoch"] for record in recorder.records_] == [0, 2, 4, 6]
    rbm.set_params(warm_start=False).fit(pattern_rows())
    assert [record["epoch"] for record in recorder.records_] == [0, 2]


@pytest.mark.parametrize(
    "params", [{"every": 0}, {"epochs": [1, -1]}, {"epochs": "all"}, {"epochs": 3}]
)
def test_errors_of_recorders_and_of_what_lacks_records(params):
    with pytest.raises(ValueError, match=next(iter(params))):
        SolutionsRecorder(**params)
    with pytest.raises(ValueError, match="recorder"):
        LandscapeDisplay.from_recorder(SolutionsRecorder())
    with pytest.raises(TypeError, match="solutions"):
        BernoulliRBM(2).set_callbacks(SolutionsRecorder()).fit(pattern_rows())


# ------------------------------------------------------------- displays of solutions


def test_free_energies_over_the_epochs(recorded):
    _, recorder = recorded
    display = FreeEnergyDisplay.from_recorder(recorder, n_slices=2)
    course, *histograms = display.axes_
    dots, mean = course.lines
    pairs = [(r["epoch"], energy) for r in recorder.records_ for energy in r["free_energies"]]
    assert_array_equal(dots.get_xydata(), pairs)
    assert_array_equal(mean.get_xdata(), [0, 16, 32, 48])
    assert_allclose(mean.get_ydata(), [-r["log_partition"] for r in recorder.records_])
    (counts,) = [ax for ax in display.figure_.axes if ax not in display.axes_]
    sizes = [r["n_solutions"] for r in recorder.records_]
    assert_array_equal(counts.lines[0].get_ydata(), sizes)
    assert len(histograms) == 2
    last = histograms[-1]
    assert last.get_title() == f"epoch 48: {sizes[-1]} solutions"
    areas = [bar.get_width() * bar.get_height() for bar in last.patches]
    assert sum(areas) == pytest.approx(1)
    (density,) = last.lines
    assert 0.8 < np.trapezoid(density.get_ydata(), density.get_xdata()) <= 1
    display.figure_.canvas.draw()


def test_free_energies_of_one_machine(trained):
    X = pattern_rows()
    display = FreeEnergyDisplay.from_estimator(trained, X)
    assert len(display.axes_) == 1
    assert display.axes_[0].get_title() == f"epoch 48: {len(trained.solutions(X))} solutions"
    display.figure_.canvas.draw()
    alone = FreeEnergyDisplay.from_estimator(machine(n_iter=0).fit(X))
    assert alone.axes_[0].get_title() == "epoch 0: 1 solution"
    assert len(alone.axes_[0].patches) == 1 and not alone.axes_[0].lines
    alone.figure_.canvas.draw()
    with pytest.raises(ValueError, match="n_slices must be an integer >= 1, got 0"):
        display.plot(n_slices=0)


class Doubled:
    """An embedding: the first two columns, twice as large, of which the fit is remembered."""

    def __sklearn_clone__(self):
        return self

    def fit_transform(self, X):
        self.fitted_on = X
        return self.transform(X)

    def transform(self, X):
        return 2 * X[:, :2]


class Whole:
    """An embedding without ``transform``, as t-SNE."""

    def __init__(self, n_components=2):
        self.n_components = n_components

    def __sklearn_clone__(self):
        return self

    def fit_transform(self, X):
        self.n_rows = len(X)
        return X[:, : self.n_components]


def offsets(ax, index=0):
    return np.asarray(ax.collections[index].get_offsets())


def test_landscape_of_several_epochs(recorded):
    """All in the embedding that is fitted on the last epoch's means of all units."""
    _, recorder = recorded
    embedding, found = Doubled(), [record["solutions"] for record in recorder.records_]
    display = LandscapeDisplay.from_recorder(recorder, embedding=embedding, n_columns=4)
    assert_array_equal(embedding.fitted_on, np.hstack(found[-1].means))
    assert display.axes_.shape == (4,)
    for ax, record, one in zip(display.axes_, recorder.records_, found, strict=True):
        assert ax.get_title().startswith(f"epoch {record['epoch']}: {len(one)} solution")
        assert_allclose(offsets(ax), 2 * one.visible_means[:, :2])
        assert_array_equal(ax.collections[0].get_array(), one.free_energies)
    display.figure_.canvas.draw()
    two = LandscapeDisplay.from_recorder(recorder, embedding=embedding, n_epochs=2)
    assert [ax.get_title()[:8] for ax in two.axes_] == ["epoch 0:", "epoch 48"]


def test_landscape_among_the_starts(recorded):
    _, recorder = recorded
    X, y, embedding = pattern_rows(), np.arange(60) % 3, Doubled()
    display = LandscapeDisplay.from_recorder(
        recorder, y, fit_on="starts", embedding=embedding, lines=True
    )
    assert_array_equal(embedding.fitted_on, X)
    ax, found = display.axes_[-1], recorder.records_[-1]["solutions"]
    for label in range(3):
        assert_allclose(offsets(ax, label), 2 * X[y == label, :2])
    assert_allclose(offsets(ax, 3), 2 * found.visible_means[:, :2])
    sizes = ax.collections[3].get_sizes()
    assert_array_equal(np.argsort(sizes, kind="stable"), np.argsort(found.counts, kind="stable"))
    ends = np.stack([line.get_xydata()[-1] for line in ax.lines])
    assert_allclose(ends, 2 * found.visible_means[found.labels, :2])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["0", "1", "2"]
    display.figure_.canvas.draw()


def test_landscape_of_starts_that_change():
    """The estimator's own starts differ from epoch to epoch; each picture shows its own."""
    recorder = SolutionsRecorder(every=1, keep_solutions=True)
    machine(n_starts=25, n_iter=2).set_callbacks(recorder).fit(pattern_rows())
    display = LandscapeDisplay.from_recorder(recorder, fit_on="starts", embedding=Doubled())
    for ax, record in zip(display.axes_, recorder.records_, strict=True):
        assert_allclose(offsets(ax), 2 * record["solutions"].starts[:, :2])


@pytest.mark.parametrize("fit_on", ["solutions", "starts"])
def test_landscape_by_isomap_and_by_embeddings_without_transform(trained, fit_on):
    X, whole = pattern_rows(), Whole()
    n_shown = len(trained.solutions(X)) + (60 if fit_on == "starts" else 0)
    for embedding in (None, whole):
        display = LandscapeDisplay.from_estimator(trained, X, fit_on=fit_on, embedding=embedding)
        points = np.concatenate([np.asarray(c.get_offsets()) for c in display.axes_[0].collections])
        assert points.shape == (n_shown, 2) and np.isfinite(points).all()
        display.figure_.canvas.draw()
    assert whole.n_rows == n_shown


@pytest.mark.parametrize(
    "params, message",
    [
        ({"fit_on": "data"}, "fit_on"),
        ({"y": np.zeros(60)}, "y"),
        ({"fit_on": "starts", "y": np.zeros(3)}, "y"),
        ({"embedding": Whole(3)}, "embedding"),
    ],
)
def test_landscapes_that_cannot_be_drawn(trained, params, message):
    with pytest.raises(ValueError, match=message):
        LandscapeDisplay.from_estimator(trained, pattern_rows(), **params)


def test_diagnosis(rbm):
    X = (np.random.default_rng(1).random((60, 12)) < 0.5).astype(float)
    options = {"n_chains": 20, "n_steps": 40, "random_state": 0}
    display = DiagnosisDisplay.from_estimator(rbm, X, **options)
    d = diagnose(rbm, X, **options)
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
    assert display.figure_.get_suptitle() == d.summary
    display.figure_.canvas.draw()


def test_diagnosis_without_data_in_a_given_figure():
    chains = np.random.default_rng(0).random((50, 4, 9))
    figure = plt.figure()
    display = DiagnosisDisplay.from_diagnosis(diagnose(chains=chains), figure=figure)
    (ax,) = display.axes_
    assert display.figure_ is figure and len(ax.lines) == 7  # six observables and the line of zero
    labels = [line.get_label() for line in ax.lines[:6]]
    assert labels == sorted(labels)
    DiagnosisDisplay.from_diagnosis(diagnose(chains=np.ones((9, 3))))
    figure.canvas.draw()


def test_what_has_no_components_is_told_where_they_are():
    X = (np.random.default_rng(0).random((40, 4)) < 0.5).astype(float)
    pipeline = make_pipeline(RBM(2, n_iter=1)).fit(X)
    classifier = RBMClassifier(RBM(2, n_iter=1)).fit(X, X[:, 0])
    for model in (pipeline, classifier):
        with pytest.raises(TypeError, match=r"model\[0\].* model\.rbm_"):
            ComponentsDisplay.from_estimator(model)
        with pytest.raises(TypeError, match=r"model\[0\].* model\.rbm_"):
            diagnose(model, X)
    for own in (pipeline[0], classifier.rbm_):
        ComponentsDisplay.from_estimator(own, image_shape=(2, own.n_features_in_ // 2))
    with pytest.raises(NotFittedError):
        ComponentsDisplay.from_estimator(RBM())


def test_training_and_validation_are_drawn_together():
    history = {"epoch": [1, 2], "log_likelihood": [-3.0, -2.0], "score": [-4.0, -3.5]}
    display = HistoryDisplay(history).plot()
    drawn = [list(line.get_ydata()) for line in display.lines_]
    assert drawn == [[-3.0, -2.0], [-4.0, -3.5]]
    assert [text.get_text() for text in display.ax_.get_legend().texts] == [
        "training",
        "validation",
    ]


def test_samples_are_those_of_the_estimator(rbm):
    display = SamplesDisplay.from_estimator(rbm, n_samples=6, image_shape=(3, 4), random_state=0)
    drawn = np.stack([image.get_array().ravel() for image in images(display)])
    assert_array_equal(drawn, rbm.sample(6, random_state=0))
    with pytest.raises(ValueError, match="image_shape"):
        SamplesDisplay.from_estimator(rbm)


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


def test_the_lowest_scores_of_features_come_first():
    X = (np.random.default_rng(1).random((60, 4)) < 0.5).astype(float)
    detector = RBMOutlierDetector(RBM(2, n_iter=2, random_state=0)).fit(X)
    display = FeatureScoresDisplay.from_estimator(detector, X[:2], n_features=3)
    for axis, scores, row in zip(display.axes_, detector.score_features(X[:2]), X, strict=False):
        assert_allclose([bar.get_width() for bar in axis.patches], np.sort(scores)[:3])
        first = np.argmin(scores)
        assert axis.get_yticklabels()[0].get_text() == f"x{first} = {row[first]:.4g}"
