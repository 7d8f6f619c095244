"""Data that are read in blocks: what they are read from, and the rows of a fit made of them."""

import itertools
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from skrbm.arrays import make_rng
from skrbm.exceptions import DataRangeWarning
from skrbm.inputs import Rows, as_blocks, find_blocks, rows_of
from skrbm.inputs import _block_rows as block_rows
from skrbm.inputs import _blocks as blocks_module
from skrbm.inputs._blocks import CheckedBlocks
from skrbm.units import (
    Bernoulli,
    Gaussian,
    TruncatedGaussBernoulli,
    TruncatedGaussian,
)


def numbered_rows(n=103, n_columns=3):
    """Rows of which each tells by its first column which it is."""
    X = np.random.default_rng(0).standard_normal((n, n_columns))
    X[:, 0] = np.arange(n)
    return X


def npy(tmp_path, *parts):
    paths = [tmp_path / f"{i}.npy" for i in range(len(parts))]
    for path, part in zip(paths, parts, strict=True):
        np.save(path, part)
    return paths


def block_rows_of(X, n_rows=10, unit=None, **options):
    source = CheckedBlocks(as_blocks(X, None if callable(X) else n_rows), np.asarray)
    return rows_of(source, unit or Gaussian(), np.dtype(np.float64), **options)


def joined(blocks):
    return np.concatenate(list(blocks))


# ------------------------------------------------------------------------------ sources


@pytest.mark.parametrize("as_path", [str, lambda path: path], ids=["text", "path"])
def test_files_are_read_one_after_another(tmp_path, as_path):
    X = numbered_rows()
    paths = npy(tmp_path, X[:40].astype(np.float32), X[40:41], X[41:])
    blocks = as_blocks([as_path(path) for path in paths], 15)
    assert blocks.n_blocks == 3 + 1 + 5
    assert_allclose(joined(blocks), X, rtol=1e-6)
    assert_array_equal(blocks.block(3), X[40:41])
    assert_array_equal(joined(find_blocks(as_path(paths[2]))), X[41:])


def test_numbers_and_blocks_go_together_in_any_order(tmp_path):
    X = numbered_rows()
    blocks = as_blocks(npy(tmp_path, X[:50], X[50:]), 7)
    order = np.random.default_rng(1).permutation(blocks.n_blocks)
    found = dict(blocks.numbered(order))
    assert list(found) == list(order)
    assert_array_equal(joined(found[i] for i in range(blocks.n_blocks)), X)


@pytest.mark.parametrize("part", [np.s_[:], np.s_[11:60], np.s_[5:5]], ids=str)
def test_a_memory_map_is_read_from_its_file(tmp_path, part):
    X = numbered_rows()
    mapped = np.memmap(tmp_path / "rows", X.dtype, "w+", offset=24, shape=X.shape)
    mapped[:] = X
    blocks = as_blocks(mapped[part], 10)
    assert type(blocks.array) is blocks_module.ArrayFile  # no page of the map stays in memory
    assert_array_equal(np.concatenate([X[:0], *blocks]), X[part])


@pytest.mark.parametrize("mode, part", [("c", np.s_[:]), ("r", np.s_[:, 1:]), ("r", np.s_[::2])])
def test_what_is_not_rows_of_a_file_is_read_through_the_map(tmp_path, mode, part):
    X = numbered_rows()
    X.tofile(tmp_path / "rows")
    mapped = np.memmap(tmp_path / "rows", X.dtype, mode, shape=X.shape)
    if mode == "c":
        mapped[3] = X[3] = -1.0  # which is not in the file
    assert_array_equal(joined(as_blocks(mapped[part], 10)), X[part])


def test_a_memory_map_is_read_in_blocks_if_it_is_large(tmp_path, monkeypatch):
    X = numbered_rows()
    X.tofile(tmp_path / "rows")
    mapped = np.memmap(tmp_path / "rows", X.dtype, "r", shape=X.shape)
    assert find_blocks(mapped) is None
    monkeypatch.setattr(blocks_module, "_MAPPED_BYTES", X.nbytes)
    assert_array_equal(joined(find_blocks(mapped)), X)
    assert find_blocks(mapped[1:]) is None
    assert find_blocks(np.array(X)) is None
    folder = tmp_path / "joblib_memmapping_folder_1"
    folder.mkdir()
    X.tofile(folder / "rows")  # as joblib does it with what is in memory
    assert find_blocks(np.memmap(folder / "rows", X.dtype, "r", shape=X.shape)) is None


class Stored:
    """An array on a disk, as HDF5 and Zarr offer it: slices of rows, whole chunks of them."""

    def __init__(self, X, chunks):
        self.X, self.shape, self.dtype, self.chunks = X, X.shape, X.dtype, chunks

    def __getitem__(self, key):
        assert isinstance(key, slice) and key.start % self.chunks[0] == 0 and key.step is None
        return self.X[key]


def test_datasets_are_read_in_whole_chunks(monkeypatch):
    X = numbered_rows()
    assert_array_equal(joined(find_blocks(Stored(X, (16, 2)))), X)
    monkeypatch.setattr(blocks_module, "_BLOCK_BYTES", 40 * X[0].nbytes)
    assert [len(block) for block in find_blocks(Stored(X, (16, 2)))] == [32, 32, 32, 7]
    assert [len(block) for block in find_blocks(Stored(X, (60, 2)))] == [60, 43]


def test_batches_come_from_functions_and_iterables():
    X = numbered_rows()

    class Batches:
        def __iter__(self):
            return iter(np.array_split(X, 4))

    for source in (Batches(), Batches().__iter__, lambda: np.array_split(X, 4)):
        blocks = as_blocks(source)
        assert not blocks.is_read_once and blocks.n_blocks is None
        for _ in range(2):
            assert_array_equal(joined(blocks), X)
    assert as_blocks(iter(np.array_split(X, 4))).is_read_once


@pytest.mark.parametrize(
    "X",
    [[[0, 1], [1, 0]], (1, 2), [], ["a", "b"], range(3), {"a": 1}, None, 3.0],
    ids=str,
)
def test_everything_else_is_an_array(X):
    assert find_blocks(X) is None
    with pytest.raises(TypeError, match="cannot be read in blocks"):
        as_blocks(X)


@pytest.mark.parametrize(
    "X", ["rows.csv", Path("rows.npz"), ["a.npy", "b.csv"], [Path("a.h5")], ""], ids=str
)
def test_paths_of_other_files_are_refused(X):
    with pytest.raises(ValueError, match=r"only \.npy files .* HDF5"):
        find_blocks(X)


@pytest.mark.parametrize(
    "content, message",
    [
        (np.zeros(3), "2 dimensions"),
        (np.asfortranarray(np.zeros((3, 2))), "column by column"),
        (np.array([["a", 1]], dtype=object), "dtype object"),
    ],
    ids=["one dimension", "columns", "objects"],
)
def test_files_that_cannot_be_read_in_rows_are_named(tmp_path, content, message):
    (path,) = npy(tmp_path, content)
    with pytest.raises(ValueError, match=rf"0\.npy must hold numbers.*{message}"):
        as_blocks(path)


def test_a_file_that_is_cut_off_is_named(tmp_path):
    (path,) = npy(tmp_path, numbered_rows())
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(ValueError, match=r"0\.npy ends before row 103"):
        list(as_blocks(path, 50))


def test_a_file_that_is_none_is_named(tmp_path):
    (path,) = npy(tmp_path, numbered_rows())
    for content in (b"", b"not of NumPy", path.read_bytes()[:40]):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"0\.npy is no \.npy file, or a broken one"):
            as_blocks(path)


def test_files_have_the_same_columns(tmp_path):
    paths = npy(tmp_path, numbered_rows(), numbered_rows()[:, 1:])
    with pytest.raises(ValueError, match=r"1\.npy has 2 columns, and .*0\.npy has 3"):
        as_blocks(paths)


def test_errors_name_the_file(tmp_path):
    second = numbered_rows()
    second[60, 1] = np.inf
    blocks = CheckedBlocks(as_blocks(npy(tmp_path, numbered_rows(), second), 50), check_finite)
    with pytest.raises(ValueError, match=r"block 1 of .*1\.npy: infinity"):
        list(blocks)


def check_finite(block):
    if not np.isfinite(block).all():
        raise ValueError("infinity")
    return block


# ------------------------------------------------------------------------- rows of a fit


def of_size(n):
    """How many batches of at most ``n`` rows there are of a number of rows."""
    return lambda n_rows: -(-n_rows // n)


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("pool_bytes", [1, 700, 2**27])
@pytest.mark.parametrize("batch_size", [1, 7, 50, 200])
def test_each_row_comes_once_in_an_epoch(monkeypatch, batch_size, pool_bytes, shuffle):
    monkeypatch.setattr(block_rows, "_POOL_BYTES", pool_bytes)
    X = numbered_rows()
    rows, rng = block_rows_of(X), make_rng(0, X)
    orders = []
    for _ in range(2):
        batches = list(rows.batches(np.arange(len(rows)), rng, of_size(batch_size), shuffle))
        assert {len(batch) for batch in batches} <= {
            len(X) // len(batches),
            -(-len(X) // len(batches)),
        }
        assert len(batches) == -(-len(X) // batch_size)
        found = np.concatenate([rows.batch(batch)[0] for batch in batches])
        orders.append(found[:, 0].astype(int))
        assert_array_equal(found, X[orders[-1]])
        assert_array_equal(np.sort(orders[-1]), np.arange(len(X)))
    assert (orders[0] == np.arange(len(X))).all() != shuffle
    assert (orders[0] == orders[1]).all() != shuffle


def test_rows_of_several_blocks_are_shuffled_together(monkeypatch):
    X = numbered_rows(400)
    monkeypatch.setattr(block_rows, "_POOL_BYTES", 100 * X[0].nbytes)
    rows = block_rows_of(X, 25)
    batches = rows.batches(np.arange(len(rows)), make_rng(0, X), of_size(100), True)
    blocks = [set(batch[:, 0] // 25) for batch in batches]
    assert [len(found) for found in blocks] == [4] * 4
    # All of one pool lie side by side by chance in fewer than 16! / 4!**4 orders: 1 in 6e7.
    assert any(max(found) - min(found) > 3 for found in blocks)


def test_an_epoch_has_rows_in_memory_twice_but_not_three_times(monkeypatch, tmp_path):
    (path,) = npy(tmp_path, np.zeros((4000, 100)))
    pool_bytes = 1000 * 100 * 8
    monkeypatch.setattr(block_rows, "_POOL_BYTES", pool_bytes)
    monkeypatch.setattr(block_rows, "_SAMPLE_ROWS", 10)
    rows = block_rows_of(path, 50)
    tracemalloc.start()
    for _ in rows.batches(np.arange(len(rows)), make_rng(0, np.zeros(1)), of_size(20), True):
        pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2.3 * pool_bytes


@pytest.mark.parametrize("fraction", [0.2, 0.9])
def test_rows_set_aside_are_not_learnt_from(monkeypatch, fraction):
    monkeypatch.setattr(block_rows, "_SAMPLE_ROWS", 40)
    X = numbered_rows()
    rows, rng = block_rows_of(X), make_rng(0, X)
    assert len(rows) == 40 and rows.total == 103
    train, validation = rows.split(fraction, rng)
    assert len(validation) == min(round(fraction * 103), 20)
    assert_array_equal(np.sort([*train, *validation]), np.arange(40))
    aside = rows[validation][:, 0]
    learnt = np.concatenate(list(rows.batches(train, rng, of_size(10), True)))[:, 0]
    assert_array_equal(np.sort([*aside, *learnt]), np.arange(103))
    assert_allclose(rows.counts.sum(), 103)


def test_rows_in_memory_are_drawn_at_random(monkeypatch):
    """Of 2000 rows in 20 blocks 200 are drawn: by the hypergeometric distribution, a block has
    10 ± 2.9 of them; a chi-squared of 20 blocks above 50 has a probability below 2e-4."""
    monkeypatch.setattr(block_rows, "_SAMPLE_ROWS", 200)
    rows = block_rows_of(numbered_rows(2000), 100)
    drawn = rows[np.arange(len(rows))][:, 0]
    assert len(np.unique(drawn)) == 200
    counts = np.bincount(drawn.astype(int) // 100, minlength=20)
    assert ((counts - 10) ** 2).sum() / (10 * 0.9 * 0.95) < 50
    # And in random order: a correlation with the position above 0.3 has one below 1e-4.
    assert abs(np.corrcoef(drawn, np.arange(200))[0, 1]) < 0.3


def values_of(unit, n=103):
    generator = np.random.default_rng(3)
    X = generator.random((n, 5)) * (generator.random((n, 5)) < 0.7)
    return (X > 0.3).astype(float) if unit.is_binary else X


UNITS = [
    Bernoulli(),
    Gaussian(),
    TruncatedGaussian(),
    TruncatedGaussian(-1.0, 2.0),
    TruncatedGaussBernoulli(),
]


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("unit", UNITS, ids=str)
def test_the_first_pass_finds_what_rows_in_memory_tell(unit, missing):
    X = values_of(unit)
    if missing:
        X[np.random.default_rng(4).random(X.shape) < 0.2] = np.nan
    expected = rows_of(X, unit, X.dtype, first=True)
    found = block_rows_of(X, unit=unit, first=True)
    assert found.unit == expected.unit and found.has_missing == expected.has_missing == missing
    assert found.total == expected.total and found.range == expected.range
    assert_allclose(found.n_known, expected.n_known, rtol=1e-12)
    assert_allclose(found.means, expected.means, rtol=1e-12)
    assert_allclose(found.moments[1], expected.moments[1], rtol=1e-10)
    for part, other in zip(found.initial_theta, expected.initial_theta, strict=True):
        assert (part is None) == (other is None)
        if part is not None:
            assert_allclose(part, other, rtol=1e-8, atol=1e-10)


def test_large_means_do_not_hide_variances():
    X = 1e8 + np.random.default_rng(0).standard_normal((1000, 2))
    assert_allclose(block_rows_of(X).moments[1], X.var(axis=0), rtol=1e-7)


def test_values_are_clipped_or_thresholded_as_in_memory():
    X = np.random.default_rng(5).normal(0.5, 0.6, (103, 4))
    for options in ({}, {"binarize": 0.4}):
        with pytest.warns(DataRangeWarning) if not options else np.errstate():
            expected = Rows(X, Bernoulli(), X.dtype, **options)
        with pytest.warns(DataRangeWarning) if not options else np.errstate():
            found = block_rows_of(X, unit=Bernoulli(), **options)
        assert_allclose(found.means, expected.means, rtol=1e-12)
        assert found.has_fractions == expected.has_fractions == (not options)
        batches = found.batches(np.arange(len(found)), make_rng(0, X), of_size(10), False)
        learnt = np.concatenate([found.batch(batch)[0] for batch in batches])
        assert_array_equal(learnt, X > 0.4 if options else X.clip(0, 1))


@pytest.mark.parametrize("n_later, when", [(90, "fewer"), (120, "more")], ids=["fewer", "more"])
def test_a_source_must_give_as_many_rows_each_time(n_later, when):
    X, passes = numbered_rows(120), itertools.count()
    rows = block_rows_of(lambda: [X[:50], X[50 : 100 if next(passes) == 0 else n_later]])
    rng = make_rng(0, X)
    with pytest.raises(ValueError, match=f"gave 100 rows at first and {n_later} when"):
        list(rows.batches(np.arange(len(rows)), rng, of_size(10), True))


def test_a_source_has_no_missing_values_later():
    X, passes = numbered_rows(100), itertools.count()
    rows = block_rows_of(lambda: [X[:50], np.where(next(passes) == 0, X[50:], np.nan)])
    with pytest.raises(ValueError, match=r"block 1 of X: it has missing values .* had none"):
        list(rows.batches(np.arange(len(rows)), make_rng(0, X), of_size(10), True))


def test_what_tells_blocks_from_others(monkeypatch):
    """Each row and each block, though few rows stay in memory."""
    monkeypatch.setattr(block_rows, "_SAMPLE_ROWS", 5)
    X = numbered_rows(100)
    found = {block_rows_of(X, 20).fingerprint for _ in range(2)}
    assert len(found) == 1
    for row in range(100):
        other = X.copy()
        other[row, 1] += 1e-6
        found.add(block_rows_of(other, 20).fingerprint)
    found.add(block_rows_of(X, 21).fingerprint)
    found.add(block_rows_of(X[:-1], 20).fingerprint)
    assert len(found) == 103


def test_the_rows_of_values_tell_sparse_blocks_from_others(monkeypatch):
    """The same values in the same columns, in other rows, none of which stays in memory."""
    monkeypatch.setattr(block_rows, "_SAMPLE_ROWS", 1)
    found = set()
    for row in range(1, 40):
        X = sp.csr_array((np.ones(2), ([0, row], [0, 1])), shape=(40, 3))
        source = CheckedBlocks(as_blocks(lambda X=X: iter([X])), lambda block: block)
        found.add(block_rows.BlockRows(source, Gaussian(), np.float64).fingerprint)
    assert len(found) == 39


def test_rows_set_aside_must_come_in_the_same_order():
    X, passes = numbered_rows(100), itertools.count(3)
    rows = block_rows_of(lambda: iter(np.split(np.roll(X, next(passes), axis=0), 4)))
    rng = make_rng(0, X)
    assert len(list(rows.batches(np.arange(100), rng, of_size(10), True))) == 10
    train, _ = rows.split(0.2, rng)
    with pytest.raises(ValueError, match="the same in another order, so that those set aside"):
        list(rows.batches(train, rng, of_size(10), True))


def test_blocks_have_the_rows_that_are_asked_for():
    X = numbered_rows(100)
    assert [len(block) for block in as_blocks(X, 40)] == [40, 40, 20]
    for n_rows in (0, -1, 1.5):
        with pytest.raises(ValueError, match="n_rows must be"):
            as_blocks(X, n_rows)
    for source in (lambda: iter([X]), as_blocks(X)):
        with pytest.raises(ValueError, match="has blocks already"):
            as_blocks(source, 10)


def test_lists_of_datasets_are_told_what_to_give(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        parts = [file.create_dataset(name, data=numbered_rows()) for name in "ab"]
        with pytest.raises(ValueError, match="a function that yields their rows"):
            find_blocks(parts)


def test_a_column_without_any_value_is_named():
    X = numbered_rows()
    X[:, 1] = np.nan
    with pytest.raises(ValueError, match=r"columns \[1\]"):
        block_rows_of(X, first=True)


def test_batches_alone_in_a_tuple():
    X = np.arange(24.0).reshape(12, 2)
    for pack in (tuple, list):
        blocks = as_blocks(lambda pack=pack: (pack([part]) for part in np.array_split(X, 3)))
        assert_array_equal(joined(blocks), X)
    with pytest.raises(ValueError, match=r"batches of 2 arrays; .* lambda: \(X for X"):
        joined(as_blocks(lambda: iter([(X, X[:, :1])])))
    rows = [[0.0, 1.0], [1.0, 0.0]]  # of numbers
    assert_array_equal(joined(as_blocks(lambda: iter([rows]))), rows)
