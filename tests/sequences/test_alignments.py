"""Files of alignments, weights of sequences and statistics of sites, against plain loops."""

import gzip
import io
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skrbm.sequences import (
    Alignment,
    codes_of,
    connected_correlations,
    decode,
    encode,
    letters_of,
    one_hot,
    pair_correlation,
    pair_statistics,
    profile,
    read_fasta,
    sequence_clusters,
    sequence_weights,
    write_fasta,
)

PROTEIN = "-ACDEFGHIKLMNPQRSTVWY"


def some_codes(n=40, n_sites=6, n_letters=3, missing=0.0, seed=0):
    rng = np.random.default_rng(seed)
    codes = rng.integers(n_letters, size=(n, n_sites))
    return np.where(rng.random(codes.shape) < missing, -1, codes)


def written(tmp_path, text, name="file.fasta"):
    path = tmp_path / name
    path.write_text(text)
    return path


# Letters.


def test_alphabets_have_the_gap_first():
    assert letters_of("protein") == PROTEIN
    assert letters_of("rna") == "-ACGU" and letters_of("dna") == "-ACGT"
    assert letters_of("HP") == "HP"


@pytest.mark.parametrize("wrong", ["A", "", "AA", "A.", "A>", "A C", "Aé", None, 3, ["A", "C"]])
def test_no_alphabet(wrong):
    with pytest.raises(ValueError, match="alphabet must be one of"):
        letters_of(wrong)


def test_codes_and_letters_are_each_others_inverse():
    rows = ["AC-Y", "WW-A", "DEFG"]
    codes = encode(rows)
    assert codes.dtype == np.int8
    assert_array_equal(codes[0], [1, 2, 0, 20])
    assert decode(codes) == rows
    assert_array_equal(codes, [[PROTEIN.index(letter) for letter in row] for row in rows])


def test_unknown_letters():
    assert_array_equal(encode(["AXBé"]), [[1, -1, -1, -1]])
    assert_array_equal(encode(["AXB?"], unknown="gap"), [[1, 0, 0, 0]])
    assert decode(encode(["AX"])) == ["AX"] and decode(encode(["AX"]), missing="?") == ["A?"]
    with pytest.raises(ValueError, match=r"no letter 'X' \(sequence 1, site 0"):
        encode(["AC", "XC"], unknown="error")
    with pytest.raises(ValueError, match="needs a gap"):
        encode(["AC"], "AC", unknown="gap")
    with pytest.raises(ValueError, match="unknown must be one of"):
        encode(["AC"], unknown="drop")


def test_letters_that_are_no_ascii_are_named():
    with pytest.raises(ValueError, match=r"no letter 'É' \(sequence 1, site 2"):
        encode(["ACD", "ACÉ"], unknown="error")
    assert_array_equal(encode(["A?é中"], "A?-"), [[0, 1, -1, -1]])


@pytest.mark.parametrize("unknown", ["missing", "gap", "error"])
def test_small_letters_are_not_lost(unknown):
    with pytest.raises(ValueError, match=r"sequence 1 has the small letter 'c' \(site 2"):
        encode(["AC-U", "-Ac."], "rna", unknown=unknown)
    assert_array_equal(encode(["ac-u"], "acgu-"), [[0, 1, 4, 3]])
    assert_array_equal(encode(["An"], "rna"), [[1, -1]])  # as N, which is any base


def test_names_of_alphabets_may_have_capitals():
    assert letters_of("DNA") == letters_of("dna") and letters_of("Protein") == PROTEIN
    assert_array_equal(encode(["AU"], "DNA"), encode(["AT"], "dna"))


def test_thymine_and_uracil_stand_for_each_other():
    assert_array_equal(encode(["ACGT"], "rna"), encode(["ACGU"], "rna"))
    assert_array_equal(encode(["ACGT"], "dna"), encode(["ACGU"], "dna"))
    assert encode(["U"], "protein")[0, 0] == -1
    assert_array_equal(encode(["A.-"], "dna"), [[1, 0, 0]])


@pytest.mark.parametrize("rows", [[], [""]])
def test_no_sequences(rows):
    with pytest.raises(ValueError, match="at least one sequence"):
        encode(rows)


def test_what_is_no_letter():
    with pytest.raises(ValueError, match="must be strings"):
        encode(["AC", 3])
    with pytest.raises(ValueError, match="one ASCII letter"):
        decode([[0, 1]], missing="XX")


def test_sequences_of_different_lengths():
    with pytest.raises(ValueError, match=r"the first has 2 sites, number 1 \(from 0\) has 3"):
        encode(["AC", "ACD"])


@pytest.mark.parametrize(
    "codes, message",
    [
        ([0, 1], "shape"),
        (np.zeros((0, 3), int), "shape"),
        ([[0, 3]], "from 0 to 2"),
        ([[0, -2]], "from 0 to 2"),
        ([[0.5, 1]], "must be integers"),
        ([[np.inf, 1]], "must be integers"),
        ([["A", "C"]], "encode letters"),
        (["ACG", "ACC"], "encode letters"),
        ([[0, 1], [0]], "rows of one length"),
        (Alignment(["a"], np.zeros((1, 3), np.int8), "AC"), "of an Alignment give its codes"),
    ],
)
def test_no_codes(codes, message):
    with pytest.raises(ValueError, match=message):
        profile(codes, 3)


def test_one_hot_rows():
    codes = some_codes()
    X = one_hot(codes, 3)
    assert_array_equal(X.toarray().reshape(40, 6, 3), codes[:, :, None] == np.arange(3))
    assert_array_equal(codes_of(X, 3), codes)
    assert_array_equal(codes_of(X.toarray(), 3), codes)
    rows = X.toarray().astype(float)
    rows[2, 3:6] = np.nan
    assert_array_equal(codes_of(rows, 3)[2], [codes[2, 0], -1, *codes[2, 2:]])
    assert_array_equal(one_hot([[0, -1]], 3).toarray(), [[1, 0, 0, *[np.nan] * 3]])
    with pytest.raises(ValueError, match="3 columns for each site"):
        codes_of(np.zeros((2, 4)), 3)


# Files.


def test_a_file_of_several_lines_for_each_sequence(tmp_path):
    path = written(tmp_path, "; a comment\n>first one\nAC\nDE\n\n>second\r\nA C-X \n")
    found = read_fasta(path)
    assert found.names == ["first one", "second"] and found.alphabet == PROTEIN
    assert_array_equal(found.codes, [[1, 2, 3, 4], [1, 2, 0, -1]])
    assert_array_equal(read_fasta(path, unknown="gap").codes[1], [1, 2, 0, 0])
    with open(path) as file:
        assert_array_equal(read_fasta(file).codes, found.codes)
    assert read_fasta(io.StringIO(">a\nAC\n>a\nAC")).names == ["a", "a"]


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_files_of_old_programs(tmp_path, pack):
    path = tmp_path / "old.fasta"
    path.write_bytes(pack(b"\xef\xbb\xbf>prot\xe9ine\r\nA C\tD\r\n>b\r\nAC\xe9\r\n"))
    found = read_fasta(path)
    assert found.names == ["prot\ufffdine", "b"]
    assert decode(found.codes) == ["ACD", "ACX"]


def test_sequences_may_end_with_a_stop(tmp_path):
    path = written(tmp_path, ">a\nAC*\n>b\nA-\n*\n>c\nAW\n")
    assert_array_equal(read_fasta(path).codes, encode(["AC", "A-", "AW"], "protein"))
    assert_array_equal(read_fasta(written(tmp_path, ">a\nA*"), "A*").codes, [[0, 1]])


def test_a_file_that_is_open_for_bytes(tmp_path):
    path = written(tmp_path, ">a\nAC")
    with open(path, "rb") as file, pytest.raises(TypeError, match="open it for text"):
        read_fasta(file)
    with open(path) as file:
        assert read_fasta(file).names == ["a"]


def test_small_letters_are_no_alphabet_of_a_file(tmp_path):
    path = written(tmp_path, ">a\nacgt\n")
    with pytest.raises(ValueError, match="read_fasta reads capitals"):
        read_fasta(path, "acgt", inserts="keep")


def test_insertions(tmp_path):
    path = written(tmp_path, ">a\nACgg.DE\n>b\nA-DE\n")
    assert decode(read_fasta(path).codes) == ["ACDE", "A-DE"]
    with pytest.raises(ValueError, match="see the option inserts"):
        read_fasta(path, inserts="keep")
    path = written(tmp_path, ">a\nac.u\n")
    assert_array_equal(read_fasta(path, "rna", inserts="keep").codes, [[1, 2, 0, 4]])
    with pytest.raises(ValueError, match="inserts='keep'"):
        read_fasta(path, "rna")
    with pytest.raises(ValueError, match="inserts must be one of"):
        read_fasta(path, "rna", inserts="no")


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "no sequences"),
        ("ACGT\n", "begins with '>'"),
        (">a\n", "at least one sequence with"),
        (">a\n>b\nAC\n", "the first has 0 sites, number 1"),
    ],
)
def test_no_fasta_file(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        read_fasta(written(tmp_path, text))


@pytest.mark.parametrize("name", ["a.fasta", "a.fasta.gz"])
def test_what_is_written_is_read(tmp_path, name):
    codes = some_codes(n_letters=5, missing=0.1)
    write_fasta(tmp_path / name, codes, [f"name {i}" for i in range(40)], "rna")
    found = read_fasta(tmp_path / name, "rna")
    assert_array_equal(found.codes, codes)
    assert found.names[7] == "name 7"
    write_fasta(tmp_path / "b.fasta", found)
    assert read_fasta(tmp_path / "b.fasta", "rna").names == found.names
    assert (tmp_path / name).read_bytes().startswith(b"\x1f\x8b") == name.endswith("gz")
    assert "N" in (tmp_path / "b.fasta").read_text()


def test_a_compressed_file_needs_no_suffix(tmp_path):
    (tmp_path / "a").write_bytes(gzip.compress(b">a\nACD\n"))
    assert_array_equal(read_fasta(tmp_path / "a").codes, [[1, 2, 3]])


def test_names_that_cannot_be_written(tmp_path):
    with pytest.raises(ValueError, match="2 sequences, but 1 names"):
        write_fasta(tmp_path / "a", [[1], [2]], ["a"])
    with pytest.raises(ValueError, match="one line"):
        write_fasta(tmp_path / "a", [[1]], ["a\n>b"])


# Weights.


def counted(codes, max_distance):
    """Neighbours by a loop over pairs."""
    counts = np.zeros(len(codes))
    for i, x in enumerate(codes):
        for j, y in enumerate(codes):
            both = (x >= 0) & (y >= 0)
            near = both.any() and np.mean(x[both] != y[both]) <= max_distance + 1e-12
            counts[i] += near or i == j
    return 1 / counts


@pytest.mark.parametrize("missing", [0.0, 0.2, 0.8])
@pytest.mark.parametrize("max_distance", [0.0, 0.2, 0.34, 0.9])
def test_weights(missing, max_distance, monkeypatch):
    monkeypatch.setattr("skrbm.sequences._weights._BLOCK", 250)  # several blocks, a short last one
    codes = some_codes(n=61, n_sites=5, missing=missing)
    codes[3] = codes[2]
    assert_allclose(sequence_weights(codes, max_distance), counted(codes, max_distance))


def test_weights_and_clusters_of_an_alignment():
    family = read_fasta(io.StringIO(">a\nACG-U\n>b\nACGAU\n>c\nUUUUU\n"), "rna")
    assert_array_equal(sequence_weights(family), [0.5, 0.5, 1])
    assert_array_equal(sequence_clusters(family), sequence_clusters(family.codes))
    for function in (sequence_weights, sequence_clusters):
        with pytest.raises(ValueError, match="encode letters"):
            function(["ACG", "ACC"])


def test_weights_of_long_sequences():
    """More than 255 differences do not fit into a byte."""
    codes = np.zeros((3, 600), dtype=int)
    codes[1], codes[2, :110] = 1, 1
    assert_allclose(sequence_weights(codes, 0.2), [0.5, 1, 0.5])
    assert_allclose(sequence_weights(codes + 200, 0.2), [0.5, 1, 0.5])
    assert_allclose(sequence_weights(codes * 2**32 + 1, 0.2), [0.5, 1, 0.5])


def test_clusters_are_chains_of_neighbours():
    codes = np.zeros((6, 5), dtype=int)
    codes[1, 0], codes[2, :2], codes[3:5] = 1, 1, 2  # 0 - 1 - 2, and 3 - 4; 5 is like 0
    found = sequence_clusters(codes, 0.2)
    assert found[0] == found[1] == found[2] == found[5] != found[3] == found[4]
    assert_array_equal(np.unique(found), [0, 1])
    assert len(np.unique(sequence_clusters(codes, 0.0))) == 4
    assert_array_equal(sequence_clusters(codes[:1]), [0])


@pytest.mark.parametrize("max_distance", [0.0, 0.34, 0.6])
def test_clusters_of_blocks(max_distance, monkeypatch):
    """Blocks of few rows are joined to the same clusters as all pairs at once."""
    monkeypatch.setattr("skrbm.sequences._weights._BLOCK", 120)
    codes = some_codes(60, 5)
    reach = (codes[:, None] != codes).sum(axis=2) <= int(max_distance * 5 + 1e-9)
    for _ in range(6):  # neighbours of neighbours, up to chains of 2**6
        reach = reach @ reach
    found = sequence_clusters(codes, max_distance)
    assert_array_equal(found[:, None] == found, reach)
    assert_array_equal(np.unique(found), np.arange(found.max() + 1))


def test_a_distance_of_exactly_the_limit_counts():
    codes = np.zeros((2, 5), dtype=int)
    codes[1, 0] = 1
    assert_allclose(sequence_weights(codes, 0.2), 0.5)
    assert_allclose(sequence_weights(codes, 0.19), 1.0)
    assert_allclose(sequence_weights(codes[:1]), 1.0)


@pytest.mark.parametrize("wrong", [-0.1, 1.0, np.nan, "0.2"])
def test_no_distance(wrong):
    with pytest.raises(ValueError, match="max_distance must be"):
        sequence_weights([[0, 1]], wrong)


# Statistics.


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("pseudo_count", [0.0, 0.4])
def test_frequencies(missing, pseudo_count, monkeypatch):
    monkeypatch.setattr("skrbm.sequences._statistics._BLOCK_ROWS", 16)
    codes, q, a = some_codes(missing=missing), 3, pseudo_count
    w = np.random.default_rng(1).random(40)
    own = profile(codes, q, w, pseudo_count=a)
    pairs = pair_statistics(codes, q, w, pseudo_count=a)
    for i in range(6):
        x, known = codes[:, i], codes[:, i] >= 0
        for k in range(q):
            f = w[x == k].sum() / w[known].sum()
            assert np.isclose(own[i, k], (1 - a) * f + a / q)
        for j in set(range(6)) - {i}:
            both = known & (codes[:, j] >= 0)
            for k, l in np.ndindex(q, q):
                f = w[(x == k) & (codes[:, j] == l)].sum() / w[both].sum()
                assert np.isclose(pairs[i, k, j, l], (1 - a) * f + a / q**2)
        assert_allclose(pairs[i, :, i], np.diag(own[i]))
    assert_allclose(pairs, pairs.transpose(2, 3, 0, 1))
    connected = connected_correlations(codes, q, w, pseudo_count=a)
    assert_allclose(connected, pairs - np.einsum("ia,jb->iajb", own, own))


def test_a_weight_counts_as_copies():
    codes = some_codes()
    times = np.arange(40) % 3
    assert_allclose(pair_statistics(codes, 3, times), pair_statistics(codes.repeat(times, 0), 3))


def test_a_site_that_nobody_knows_is_uniform():
    codes = some_codes()
    codes[:, 2] = -1
    assert_allclose(profile(codes, 3)[2], 1 / 3)
    assert_allclose(pair_statistics(codes, 3)[2, :, 4], 1 / 9)


def test_correlation_of_pairs():
    codes, other = some_codes(), some_codes(seed=1)
    assert np.isclose(pair_correlation(codes, codes, 3), 1)
    x, y = (connected_correlations(part, 3) for part in (codes, other))
    index = [(i, a, j, b) for i, a, j, b in np.ndindex(x.shape) if i < j]
    expected = np.corrcoef([x[k] for k in index], [y[k] for k in index])[0, 1]
    assert np.isclose(pair_correlation(codes, other, 3), expected)
    weights = np.arange(40) % 2
    halved = pair_correlation(codes, other, 3, sample_weight=weights)
    assert np.isclose(halved, pair_correlation(codes[1::2], other, 3))
    assert np.isclose(halved, pair_correlation(other, codes, 3, other_weight=weights))
    assert np.isnan(pair_correlation(codes, codes[:1], 3))
    with warnings.catch_warnings(action="error"):
        assert np.isnan(pair_correlation(codes[:, :1], codes[:, :1], 3))
    with pytest.raises(ValueError, match="6 sites, but others 5"):
        pair_correlation(codes, codes[:, 1:], 3)


@pytest.mark.parametrize("weights", [np.zeros(40), -np.ones(40), np.ones(39)])
def test_no_weights(weights):
    with pytest.raises(ValueError):
        profile(some_codes(), 3, weights)
