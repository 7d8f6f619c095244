"""Data that are read in blocks: their sources, and the rows of a fit."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skrbm.arrays import make_rng
from skrbm.inputs import _block_rows as block_rows
from skrbm.inputs import _blocks as blocks_module
from skrbm.inputs import as_blocks, find_blocks, rows_of
from skrbm.inputs._blocks import CheckedBlocks
from skrbm.units import Bernoulli, Gaussian, TruncatedGaussian


def numbered_rows(n=103, n_columns=3):
    """Random rows with their numbers in the first column."""
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


def test_files(tmp_path):
    X = numbered_rows()
    path, single = npy(tmp_path, X, X.astype(np.float32))
    blocks = as_blocks(str(path), 15)
    assert blocks.n_blocks == 7
    assert_array_equal(joined(blocks), X)
    assert_allclose(joined(find_blocks(single)), X, rtol=1e-6)
    order = np.random.default_rng(1).permutation(blocks.n_blocks)
    found = dict(blocks.numbered(order))
    assert list(found) == list(order)
    assert_array_equal(joined(found[i] for i in range(7)), X)


@pytest.mark.parametrize(
    "content",
    [
        np.zeros(3),
        np.asfortranarray(np.zeros((3, 2))),
        np.array([["a", 1]], dtype=object),
        b"",
        b"text",
    ],
    ids=["one dimension", "columns", "objects", "empty", "text"],
)
def test_files_that_cannot_be_read(tmp_path, content):
    (path,) = npy(tmp_path, np.zeros((1, 1)) if isinstance(content, bytes) else content)
    if isinstance(content, bytes):
        path.write_bytes(content)
    with pytest.raises(ValueError, match=r"0\.npy"):
        as_blocks(path)


def test_memory_maps_are_read_in_blocks_if_they_are_large(tmp_path, monkeypatch):
    X = numbered_rows()
    X.tofile(tmp_path / "rows")
    mapped = np.memmap(tmp_path / "rows", X.dtype, "r", shape=X.shape)
    assert find_blocks(mapped) is None
    assert_array_equal(joined(as_blocks(mapped[1:, ::2], 10)), X[1:, ::2])
    monkeypatch.setattr(blocks_module, "_MAPPED_BYTES", X.nbytes)
    assert_array_equal(joined(find_blocks(mapped)), X)
    assert find_blocks(mapped[1:]) is None and find_blocks(np.array(X)) is None
    folder = tmp_path / "joblib_memmapping_folder_1"
    folder.mkdir()
    X.tofile(folder / "rows")
    assert find_blocks(np.memmap(folder / "rows", X.dtype, "r", shape=X.shape)) is None


def test_batches_of_functions_and_iterables():
    X = numbered_rows()

    class Batches:
        def __iter__(self):
            return iter(np.array_split(X, 4))

    in_tuples = lambda: ((part,) for part in np.array_split(X, 4))  # noqa: E731
    for source in (Batches(), Batches().__iter__, np.array_split(X, 4), in_tuples):
        blocks = as_blocks(source)
        assert not blocks.is_read_once and blocks.n_blocks is None
        for _ in range(2):
            assert_array_equal(joined(blocks), X)
    assert as_blocks(iter(np.array_split(X, 4))).is_read_once
    with pytest.raises(ValueError, match="2 arrays"):
        joined(as_blocks(lambda: iter([(X, X[:, :1])])))


# ------------------------------------------------------------------------- rows of a fit


def of_size(n):
    """The number of batches of at most ``n`` rows, as a function of the number of rows."""
    return lambda n_rows: -(-n_rows // n)


def epoch(rows, rng, size=10, positions=None):
    positions = np.arange(len(rows)) if positions is None else positions
    return list(rows.batches(positions, rng, of_size(size)))


@pytest.mark.parametrize("pool_bytes, batch_size", [(1, 7), (700, 1), (700, 50), (2**27, 200)])
def test_an_epoch_has_each_row_once(monkeypatch, batch_size, pool_bytes):
    monkeypatch.setattr(block_rows, "_POOL_BYTES", pool_bytes)
    X = numbered_rows()
    rows, rng, orders = block_rows_of(X), make_rng(0, X), []
    for _ in range(2):
        batches = epoch(rows, rng, batch_size)
        n_batches = -(-len(X) // batch_size)
        assert len(batches) == n_batches
        assert {len(b) for b in batches} <= {len(X) // n_batches, -(-len(X) // n_batches)}
        found = np.concatenate([rows.batch(batch)[0] for batch in batches])
        orders.append(found[:, 0].astype(int))
        assert_array_equal(found, X[orders[-1]])
        assert_array_equal(np.sort(orders[-1]), np.arange(len(X)))
    assert (orders[0] != orders[1]).any()
    if pool_bytes == 2**27:  # blocks of ten rows are taken together
        assert (np.diff(orders[0][:10]) != 1).any()


@pytest.mark.parametrize("fraction", [0.2, 0.9])
def test_validation_rows_are_not_learnt_from(monkeypatch, fraction):
    monkeypatch.setattr(block_rows, "_SAMPLE_ROWS", 40)
    X = numbered_rows()
    rows, rng = block_rows_of(X), make_rng(0, X)
    assert len(rows) == 40 and rows.total == 103
    train, validation = rows.split(fraction, rng)
    assert len(validation) == min(round(fraction * 103), 20)
    assert_array_equal(np.sort([*train, *validation]), np.arange(40))
    learnt = np.concatenate(epoch(rows, rng, positions=train))[:, 0]
    assert_array_equal(np.sort([*rows[validation][:, 0], *learnt]), np.arange(103))
    assert_allclose(rows.counts.sum(), 103)


def test_rows_in_memory_are_a_random_sample(monkeypatch):
    """Of 2000 rows in 20 blocks 200 are drawn: by the hypergeometric distribution, a block has
    10 ± 2.9 of them; a chi-squared of 20 blocks above 50 has a probability below 2e-4."""
    monkeypatch.setattr(block_rows, "_SAMPLE_ROWS", 200)
    rows = block_rows_of(numbered_rows(2000), 100)
    drawn = rows[np.arange(len(rows))][:, 0]
    assert len(np.unique(drawn)) == 200
    counts = np.bincount(drawn.astype(int) // 100, minlength=20)
    assert ((counts - 10) ** 2).sum() / (10 * 0.9 * 0.95) < 50
    # In random order: a correlation with the position above 0.3 has one below 1e-4.
    assert abs(np.corrcoef(drawn, np.arange(200))[0, 1]) < 0.3


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("unit", [Bernoulli(), Gaussian(), TruncatedGaussian()], ids=str)
def test_the_first_pass_summarizes_the_columns(unit, missing):
    generator = np.random.default_rng(3)
    X = generator.random((103, 5)) * (generator.random((103, 5)) < 0.7)
    X = (X > 0.3).astype(float) if unit.is_binary else X
    if missing:
        X[generator.random(X.shape) < 0.2] = np.nan
    expected = rows_of(X, unit, X.dtype, first=True)
    found = block_rows_of(X, unit=unit, first=True)
    assert found.unit == expected.unit and found.has_missing == expected.has_missing == missing
    assert found.total == expected.total and found.columns.range == expected.columns.range
    assert_allclose(found.n_known, expected.n_known, rtol=1e-12)
    assert_allclose(found.means, expected.means, rtol=1e-12)
    assert_allclose(found.moments[1], expected.moments[1], rtol=1e-10)
    for part, other in zip(found.initial_theta, expected.initial_theta, strict=True):
        assert (part is None) == (other is None)
        if part is not None:
            assert_allclose(part, other, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("n_later", [90, 120])
def test_a_source_must_give_as_many_rows_each_time(n_later):
    X, passes = numbered_rows(120), itertools.count()
    rows = block_rows_of(lambda: [X[:50], X[50 : 100 if next(passes) == 0 else n_later]])
    with pytest.raises(ValueError, match=rf"100 rows.* {n_later}"):
        epoch(rows, make_rng(0, X))


def test_validation_needs_the_same_order_of_rows_each_time():
    X, passes = numbered_rows(100), itertools.count(3)
    rows = block_rows_of(lambda: iter(np.split(np.roll(X, next(passes), axis=0), 4)))
    rng = make_rng(0, X)
    assert len(epoch(rows, rng)) == 10
    train, _ = rows.split(0.2, rng)
    with pytest.raises(ValueError, match="same order"):
        epoch(rows, rng, positions=train)


def test_fingerprints_depend_on_all_rows(monkeypatch):
    monkeypatch.setattr(block_rows, "_SAMPLE_ROWS", 5)
    X, found = numbered_rows(100), set()
    for row in range(100):
        other = X.copy()
        other[row, 1] += 1e-6
        found.add(block_rows_of(other, 20).fingerprint)
    found |= {block_rows_of(X, 20).fingerprint for _ in range(2)}
    found.add(block_rows_of(X[:-1], 20).fingerprint)
    assert len(found) == 102
