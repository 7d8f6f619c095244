"""Fits of several ranks are fits of one process on all of their rows.

Ranks are processes here that pipes connect, so that no library is needed.
"""

import os
import signal
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from _processes import on_ranks
from _same import assert_same, attributes
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from skrbm import (
    RBM,
    TAPRBM,
    CategoricalRBM,
    ConditionalRBM,
    DeepTAPMachine,
    FrankWolfeRBM,
    GaussianBernoulliRBM,
    RBMClassifier,
    TabularRBM,
)
from skrbm.inference import TAP, Gibbs
from skrbm.inputs import Rows, ends_of_ranks
from skrbm.learning import SGD, EarlyStopping
from skrbm.learning._together import row_of_ranks
from skrbm.persistence import Checkpoint, load, resume
from skrbm.units import (
    Bernoulli,
    Binomial,
    Categorical,
    Gaussian,
    TruncatedGaussBernoulli,
    TruncatedGaussian,
)

WEIGHTS = 0.5 * np.random.default_rng(1).standard_normal((3, 5))
INIT = WEIGHTS, np.zeros(3), np.zeros(5)


def data(n=90, seed=0):
    """Return binary rows whose first columns agree, but for some noise."""
    X = (np.random.default_rng(seed).random((n, 5)) < 0.4).astype(float)
    X[: n // 2, 1] = X[: n // 2, 0]
    return np.random.default_rng(seed + 1).permutation(X)


def parts(X, rank):
    """Return the rows of one of two ranks, of which the first has a third."""
    cut = len(X) // 3
    return X[cut:] if rank else X[:cut]


def arrays_of(estimator):
    machine = estimator.machine_
    return [*machine.weights, *(part for t in machine.thetas for part in t if part is not None)]


@pytest.mark.parametrize(
    "estimator",
    [
        RBM(3, n_iter=4),
        RBM(3, n_iter=4, early_stopping=EarlyStopping(validation_fraction=0.3)),
        RBM(3, visible="gaussian", n_iter=4, optimizer="adam"),
        RBM(
            3,
            n_iter=4,
            optimizer=SGD(
                momentum=0.5, alpha=0.0, schedule="constant", centered=False, average=False
            ),
            inference=Gibbs(start="data"),
            learning_rate=0.1,
            batch_size=10,
        ),
        TAPRBM(3, n_iter=2, inference=TAP(max_iter=2, start="chains")),
        DeepTAPMachine((3, 2), n_iter=2, n_iter_pretrain=1, optimizer="adam", learning_rate=0.01),
        GaussianBernoulliRBM(3, n_iter=2),
    ],
    ids=["pcd", "stopping", "gaussian", "cd", "tap", "deep", "langevin"],
)
def test_ranks_have_the_same_parameters_and_history(estimator):
    X = data()
    one, other = on_ranks(lambda rank: clone(estimator).fit(parts(X, rank)))
    for a, b in zip(arrays_of(one), arrays_of(other), strict=True):
        assert_array_equal(a, b)
    for name, values in one.history_.items():
        assert_array_equal(values, other.history_[name])
    assert not np.array_equal(one.starts_[:5], other.starts_[:5])  # chains and starts of their own


def test_ranks_go_on_from_their_checkpoints(tmp_path):
    """Also if one of them was killed before it had written its last file, or cannot read one."""
    X, rbm = data(), RBM(3, n_iter=5, random_state=0)

    def fitted(rank):
        callback = Checkpoint(tmp_path, keep=9)
        return clone(rbm).set_callbacks(callback).fit(parts(X, rank))

    def resumed(rank):
        return resume(tmp_path, parts(X, rank), callbacks=[Checkpoint(tmp_path)])

    whole = on_ranks(fitted)
    assert sorted(os.listdir(tmp_path)) == ["rank-0", "rank-1"]
    for rank, n_lost in ((0, 3), (1, 2)):
        *_, newest = files = sorted((tmp_path / f"rank-{rank}").iterdir())[:-n_lost]
        for path in set((tmp_path / f"rank-{rank}").iterdir()) - set(files):
            path.unlink()
    os.truncate(tmp_path / "rank-1" / newest.name, 100)
    os.truncate(tmp_path / "rank-1" / files[-2].name, 100)
    for one, other in zip(whole, on_ranks(resumed), strict=True):
        assert_same(attributes(one), attributes(other))
    first, second = (os.listdir(tmp_path / f"rank-{rank}") for rank in (0, 1))
    assert sorted(first) == sorted(second)


def test_as_many_ranks_go_on_as_had_begun(tmp_path):
    X, rbm = data(), RBM(3, n_iter=2, random_state=0)
    alone, together = tmp_path / "alone", tmp_path / "together"
    clone(rbm).set_callbacks(Checkpoint(alone)).fit(X)
    on_ranks(lambda rank: clone(rbm).set_callbacks(Checkpoint(together)).fit(parts(X, rank)))
    found = on_ranks(lambda rank: resume(together, X), size=3)
    found += on_ranks(lambda rank: resume(alone, parts(X, rank)))
    for folder in (together, together / "rank-0"):
        with pytest.raises(ValueError) as error:
            resume(folder, parts(X, 0))
        found.append(error.value)
    assert all("process" in str(error) for error in found)


def test_checkpoints_of_ranks_are_of_one_epoch(tmp_path, monkeypatch):
    """Whatever their clocks, and if a rank could not write one of its files."""

    def fitted(rank):
        clock = iter(range(10**6))
        monkeypatch.setattr("time.monotonic", lambda: (1 + 50 * rank) * next(clock))
        fails = iter([rank == 1, *[False] * 20])

        class Late(Checkpoint):
            def _write(self, estimator):
                if estimator is not None and next(fails):
                    Path(self.folder, "rank-1").rename(tmp_path / "gone")
                    super()._write(estimator)
                    (tmp_path / "gone").rename(Path(self.folder, "rank-1"))
                else:
                    super()._write(estimator)

        callback = Late(tmp_path, minutes=0.05, keep=99)  # 3 ticks of the first clock
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the file that is not written
            RBM(3, n_iter=12, random_state=0).set_callbacks(callback).fit(parts(data(), rank))
        return {path.name: load(path).n_iter_ for path in (tmp_path / f"rank-{rank}").iterdir()}

    first, second = on_ranks(fitted)
    assert len(first) == len(second) + 1 > 3
    assert second.items() <= first.items()


AT_DATA = {"inference": TAP(start="data"), "batch_size": 1000, "init": INIT, "n_iter": 6}
USUAL = SGD(momentum=0.5, alpha=0.005, schedule="linear")
PLAIN = {"centered": False, "average": False}


@pytest.mark.parametrize("options", [PLAIN, {"alpha": 0.0}])
def test_two_ranks_take_the_steps_that_one_process_takes(options):
    # Solutions that start at all rows of a batch of all rows: nothing is random.
    X, weights = data(60), 1 + np.arange(60) % 3
    rbm = TAPRBM(3, optimizer=replace(USUAL, **options), learning_rate=0.3, **AT_DATA)
    one = clone(rbm).fit(X, sample_weight=weights)

    def fitted(rank):
        return clone(rbm).fit(parts(X, rank), sample_weight=parts(weights, rank))

    for found in on_ranks(fitted):
        for a, b in zip(arrays_of(found), arrays_of(one), strict=True):
            assert_allclose(a, b, rtol=1e-9, atol=1e-12)
        assert_allclose(found.visible_means_, one.visible_means_, rtol=1e-12)
        assert_allclose(found.history_["learning_rate"], one.history_["learning_rate"])


def test_gradients_of_real_weights_are_weighted_by_ranks():
    # Rows of a rank are drawn with a mean weight of 1; what they stand for counts between ranks.
    X = np.repeat([[1.0, 0.0], [0.0, 1.0]], 40, axis=0)
    weights = np.repeat([2.51, 0.51], 40)
    init = np.zeros((1, 2)), np.zeros(1), np.zeros(2)
    options = {"init": init, "n_iter": 1, "learning_rate": 0.1}
    rbm = TAPRBM(1, optimizer=SGD(alpha=0.0, **PLAIN), **AT_DATA | options)

    def fitted(rank):
        half = slice(40 * rank, 40 * (rank + 1))
        return clone(rbm).fit(X[half], sample_weight=weights[half]).intercept_visible_

    # Data have means of 2.51 and 0.51 over 3.02, and independent units at first of 1 / 2.
    for found in on_ranks(fitted):
        assert_allclose(found, 0.1 * (np.array([2.51, 0.51]) / 3.02 - 0.5), rtol=1e-6)


def test_measurements_of_ranks_are_means_by_their_rows():
    """Errors of parts of the rows are independent."""
    machine = RBM(2, n_iter=1, random_state=0).fit(data()).machine_

    def measured(rank):
        return row_of_ranks(
            machine, {"score": 1.0 * rank}, (1.0 * rank, 0.3 + rank), 1.0 + 2 * rank
        )

    for row, (value, noise) in on_ranks(measured):
        assert row == {"score": 0.75} and value == 0.75
        assert noise == pytest.approx(np.hypot(0.25 * 0.3, 0.75 * 1.3))


@pytest.mark.parametrize("estimator", [RBM(3, n_iter=1), TabularRBM(3, n_iter=1)])
def test_one_rank_alone_may_have_weights(estimator):
    def fitted(rank, ones=None):
        X = parts(data(), rank)
        weights = np.full(len(X), 0.5) if rank else ones
        return clone(estimator).set_params(random_state=0).fit(X, sample_weight=weights)

    ones = np.ones(len(parts(data(), 0)))
    for one, other in zip(on_ranks(fitted), on_ranks(lambda r: fitted(r, ones)), strict=True):
        for pair in zip(arrays_of(one), arrays_of(other), strict=True):
            assert_array_equal(*pair)


def test_ranks_are_weighted_by_their_rows_of_a_batch():
    """Of the first batch the first rank has 3 of 6 rows, and 2 of 5 of the second."""
    options = {"n_iter": 1, "batch_size": 6, "init": (np.zeros((1, 1)), np.zeros(1), np.zeros(1))}
    ascent = SGD(alpha=0.0, schedule="constant", average=False)  # weights stay 0, by constant rows
    rbm = TAPRBM(1, optimizer=ascent, learning_rate=2.0, **AT_DATA | options)
    expected = 0.0
    for part in (3 / 6, 2 / 5):
        expected += 2.0 * (part - 1 / (1 + np.exp(-expected)))
    for found in on_ranks(lambda rank: clone(rbm).fit(np.full((5 + rank, 1), 1.0 - rank))):
        assert_allclose(found.intercept_visible_, expected, rtol=1e-6)


@pytest.mark.parametrize(
    "unit", [Bernoulli(), Gaussian(), TruncatedGaussian(), TruncatedGaussBernoulli()], ids=str
)
@pytest.mark.parametrize("missing", [False, True])
def test_statistics_of_columns_are_those_of_all_rows(unit, missing):
    X = np.random.default_rng(0).uniform(0.1, 1, (30, 4)) * data(30)[:, :4]
    X[20:, 2] *= 0.5
    if missing:
        X[[1, 2, 25], [0, 1, 1]] = np.nan
    weights = 1.0 + np.arange(30) % 3

    def found(rows):
        return rows.unit, [*rows.initial_theta, rows.means, *rows.moments, rows.n_known]

    def of(X, weights):
        return found(Rows(X, unit.fitted(ends_of_ranks(X)), X.dtype, weights=weights))

    fitted, all_rows = of(X, weights)
    for other, values in on_ranks(lambda rank: of(parts(X, rank), parts(weights, rank))):
        assert other == fitted
        for a, b in zip(values, all_rows, strict=True):
            assert (a is None and b is None) or np.allclose(a, b, rtol=1e-12, atol=0)


@pytest.mark.parametrize(
    ("estimator", "cut", "error"),
    [
        (RBM(3, batch_size=10), 85, "rank 1 has 5 rows, fewer than the 9 batches"),
        (RBM(3, inference=Gibbs(start="tempered")), 45, "tempered chains"),
        (
            TAPRBM(3, inference=TAP(max_iter=2, start="tempered")),
            45,
            "tempered chains",
        ),
        (ConditionalRBM(3), 45, "several ranks"),
        (FrankWolfeRBM(), 45, "several ranks"),
    ],
    ids=["few rows", "tempered", "tempered solutions", "conditional", "growing"],
)
def test_what_ranks_cannot_learn_is_refused_on_all(estimator, cut, error):
    X = data()
    for found in on_ranks(lambda rank: estimator.fit(*2 * [X[cut:] if rank else X[:cut]])):
        assert isinstance(found, ValueError) and error in str(found)


def test_categories_are_those_of_the_rows_of_all_ranks():
    def fitted(rank):
        X = values[cut:] if rank else values[:cut]
        rbm = CategoricalRBM(3, n_iter=2, random_state=0).fit(X)
        return (
            [site.tolist() for site in rbm.categories_],
            rbm.components_,
            rbm.score_samples(values),
        )

    codes = np.sort(np.random.default_rng(0).integers(0, 5, (60, 3)), axis=0)
    values, cut = np.array(list("vwxyz"), dtype=object)[codes], 30  # sorted: ranks see other values
    values[50, 1] = None
    one, other = on_ranks(fitted)
    assert one[0] == other[0] == [list("vwxyz")] * 3
    assert_array_equal(one[1], other[1])
    assert_array_equal(one[2], other[2])


def test_columns_of_tables_are_described_by_the_rows_of_all_ranks():
    def fitted(rank):
        table = np.column_stack([np.arange(60) % 5 + 4 * rank, np.arange(60) % 2 + rank])
        rbm = TabularRBM(3, kinds={1: "categorical"}, n_iter=2, random_state=0)
        return rbm.fit(table.astype(object)).machine_, rbm.sample(500)

    for machine, sample in on_ranks(fitted):
        rating, category = machine.units[0].units
        assert (rating, category) == (Binomial(8), Categorical((3,)))
        assert set(sample[:, 1]) == {0, 1, 2}  # each of them in a third of the rows
        assert sample[:, 0].min() < 4 < sample[:, 0].max()


@pytest.mark.parametrize("estimator", [RBM(3, n_iter=2, learning_rate=0.01), None])
def test_classes_are_those_of_the_rows_of_all_ranks(estimator):
    """The default units are those for the values of all ranks too."""

    def fitted(rank):
        X, y = data(), np.array([["b", "wxyz"], ["w", "b"]][rank])[np.arange(90) % 2]
        X[:, 0] += rank * (estimator is None)  # the largest value stands on one rank only
        classifier = RBMClassifier(estimator, random_state=0).fit(X, y)
        return classifier.classes_.tolist(), classifier.predict_proba(data()[:5]), classifier

    one, other = on_ranks(fitted)
    assert one[0] == other[0] == ["b", "w", "wxyz"]
    assert one[1].shape == (5, 3)
    assert_array_equal(one[1], other[1])
    unit = Bernoulli() if estimator else Gaussian()
    assert one[2].machine_.units[0].units[0] == other[2].machine_.units[0].units[0] == unit


def test_an_interruption_of_one_rank_ends_all_after_the_same_epoch():
    def fitted(rank):
        def schedule(progress):
            if rank == 1 and progress == 0.5:
                signal.raise_signal(signal.SIGINT)
            return 1.0

        rbm = RBM(3, n_iter=8, optimizer=SGD(schedule=schedule))
        try:
            rbm.fit(parts(data(), rank))
        except KeyboardInterrupt:
            return rbm.n_iter_, rbm.components_

    (n, one), (other_n, other) = on_ranks(fitted)
    assert n == other_n == 4
    assert_array_equal(one, other)
