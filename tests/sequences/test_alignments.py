"""Files of alignments, weights of sequences and statistics of sites, against plain loops."""

import gzip
import io
import re
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skrbm.sequences import (
    connected_correlations,
    decode,
    encode,
    pair_correlation,
    profile,
    read_fasta,
    sequence_clusters,
    sequence_weights,
    write_fasta,
)

PROTEIN = "-ACDEFGHIKLMNPQRSTVWY"
PACKED = gzip.compress(
    b"".join(b">%d\n%d\n" % (n, n * n) for n in range(100, 200)),
    mtime=0,  # workers collect tests of the same names
)


def some_codes(n=40, n_sites=6, n_letters=3, missing=0.0, seed=0):
    rng = np.random.default_rng(seed)
    codes = rng.integers(n_letters, size=(n, n_sites))
    return np.where(rng.random(codes.shape) < missing, -1, codes)


# Letters.


@pytest.mark.parametrize(
    "name, letters",
    [("protein", PROTEIN), ("Protein", PROTEIN), ("rna", "-ACGU"), ("DNA", "-ACGT"), ("HP", "HP")],
)
def test_codes_and_letters_are_inverse(name, letters):
    rows = [letters, letters[::-1]]
    codes = encode(rows, name)
    assert codes.dtype == np.int8 and decode(codes, name) == rows
    assert_array_equal(codes[0], np.arange(len(letters)))


def test_unknown_letters():
    assert_array_equal(encode(["ACDXBé"]), [[1, 2, 3, -1, -1, -1]])
    assert_array_equal(encode(["ACDXB?"], unknown="gap"), [[1, 2, 3, 0, 0, 0]])
    assert decode(encode(["AX"])) == ["AX"] and decode(encode(["AX"]), missing="?") == ["A?"]


@pytest.mark.parametrize(
    "alphabet, sequence, lost",
    [
        ("dna", PROTEIN[1:], r"80%.* E, F, I, L, P,"),  # 10 of the 16 are ambiguity codes
        ("protein", "ACGU" * 9, "25%.* U"),
        ("dna", "-" * 900 + "A" * 94 + "E" * 6, "6%.* E"),
        ("dna", "A" * 96 + "E" * 4, None),
        ("rna", "A" + "NRYn" * 9, None),
        ("protein", "A" + "XBZJ?" * 9, None),
        ("ACDEFGHIKLMNPQRSTVWY", "A" + "-." * 9 + "X" * 9, None),
    ],
)
def test_many_letters_of_another_alphabet_warn(alphabet, sequence, lost):
    with warnings.catch_warnings(record=True, action="always") as caught:
        encode([sequence], alphabet)
    assert [re.match(lost, str(w.message)) is not None for w in caught] == [True] * bool(lost)


def test_lower_case_letters_are_an_error():
    with pytest.raises(ValueError, match="lower-case"):
        encode(["AC-U", "-Ac."], "rna")
    assert_array_equal(encode(["ac-u"], "acgu-"), [[0, 1, 4, 3]])
    assert_array_equal(encode(["An"], "rna"), [[1, -1]])  # as N, any base


def test_thymine_and_uracil_stand_for_each_other():
    assert_array_equal(encode(["ACGT"], "rna"), encode(["ACGU"], "rna"))
    assert_array_equal(encode(["ACGT"], "DNA"), encode(["ACGU"], "dna"))
    assert encode(["AU"], "protein")[0, 1] == -1
    assert_array_equal(encode(["A.-"], "dna"), [[1, 0, 0]])


def test_a_misspelled_alphabet_is_an_error():
    """Its letters differ, and would be an alphabet of their own."""
    with pytest.raises(ValueError, match="did you mean 'protein'"):
        encode(["ACD"], "protien")


@pytest.mark.parametrize("rows", [[], [""], ["AC", 3], ["AC", "ACD"]], ids=str)
def test_invalid_sequences(rows):
    with pytest.raises(ValueError, match="sequences"):
        encode(rows)


# Files.


def test_files_of_several_lines_for_each_sequence(tmp_path):
    path = tmp_path / "file.fasta"
    path.write_text("; a comment\n>first one\nAC\nDE\n\n>second\r\nA C-X \n>third\nAC\nDE\n*\n")
    found = read_fasta(path)
    assert found.names == ["first one", "second", "third"] and found.alphabet == PROTEIN
    assert_array_equal(found.codes, [[1, 2, 3, 4], [1, 2, 0, -1], [1, 2, 3, 4]])
    assert_array_equal(read_fasta(path, unknown="gap").codes[1], [1, 2, 0, 0])
    with open(path) as file:
        assert_array_equal(read_fasta(file).codes, found.codes)
    assert_array_equal(read_fasta(io.StringIO(">a\nA*"), "A*").codes, [[0, 1]])


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_files_in_latin_1(tmp_path, pack):
    path = tmp_path / "old"
    path.write_bytes(pack(b"\xef\xbb\xbf>prot\xe9ine\r\nA C\tD\r\n>b\r\nAC\xe9\r\n"))
    found = read_fasta(path)
    assert found.names == ["prot\ufffdine", "b"]
    assert decode(found.codes) == ["ACD", "ACX"]


def test_insertions():
    assert decode(read_fasta(io.StringIO(">a\nACgg.DE\n>b\nA-DE\n")).codes) == ["ACDE", "A-DE"]
    found = read_fasta(io.StringIO(">a\nac.u\n"), "rna", inserts="keep")
    assert_array_equal(found.codes, [[1, 2, 0, 4]])
    with pytest.raises(ValueError, match="inserts='keep'"):
        read_fasta(io.StringIO(">a\nac.u\n"), "rna")


@pytest.mark.parametrize(
    "text, options, match",
    [
        *[(PACKED[:n], {}, "damaged") for n in (2, 9, 40, len(PACKED) - 1)],
        (PACKED[:30] + bytes(20) + PACKED[50:], {}, "damaged"),
        (PACKED[:-8] + bytes(4) + PACKED[-4:], {}, "damaged"),  # a wrong checksum
        ("", {}, "no sequences"),
        ("ACGT\n", {}, "starts with '>'"),
        (">a\n", {}, "sequence"),
        (">a\n>b\nAC\n", {}, "same length"),
        (">a\nAC", {"inserts": "no"}, "inserts"),
    ],
)
def test_invalid_fasta_files(tmp_path, text, options, match):
    path = tmp_path / "file"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ValueError, match=match):
        read_fasta(path, **options)


@pytest.mark.parametrize("name", ["a.fasta", "a.fasta.gz"])
def test_written_files_are_read(tmp_path, name):
    codes = some_codes(n_letters=5, missing=0.1)
    write_fasta(tmp_path / name, codes, [f"name {i}" for i in range(40)], "rna")
    found = read_fasta(tmp_path / name, "rna")
    assert_array_equal(found.codes, codes)
    assert found.names[7] == "name 7"
    assert (tmp_path / name).read_bytes().startswith(b"\x1f\x8b") == name.endswith("gz")
    write_fasta(tmp_path / "b.fasta", [[0, -1]], alphabet="rna")
    assert (tmp_path / "b.fasta").read_text() == ">1\n-N\n"
    for names in (["a"], ["a\n>b"] * 40):
        with pytest.raises(ValueError, match="names"):
            write_fasta(tmp_path / "a", codes, names, "rna")


# Weights.


def weights_by_loop(codes, max_distance):
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
    assert_allclose(sequence_weights(codes, max_distance), weights_by_loop(codes, max_distance))


def test_weights_of_long_sequences():
    """More than 255 differences do not fit into a byte."""
    codes = np.zeros((3, 600), dtype=int)
    codes[1], codes[2, :110] = 1, 1
    for same in (codes, codes + 200, codes * 2**32 + 1):
        assert_allclose(sequence_weights(same, 0.2), [0.5, 1, 0.5])


@pytest.mark.parametrize("max_distance", [0.0, 0.34, 0.6])
def test_clusters_are_chains_of_neighbours(max_distance, monkeypatch):
    monkeypatch.setattr("skrbm.sequences._weights._BLOCK", 120)
    codes = some_codes(60, 5)
    reach = (codes[:, None] != codes).sum(axis=2) <= int(max_distance * 5 + 1e-9)
    for _ in range(6):  # neighbours of neighbours, up to chains of 2**6
        reach = reach @ reach
    found = sequence_clusters(codes, max_distance)
    assert_array_equal(found[:, None] == found, reach)
    assert_array_equal(np.unique(found), np.arange(found.max() + 1))


# Statistics.


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_frequencies(missing):
    codes, q = some_codes(missing=missing), 3
    w = np.random.default_rng(1).random(40)
    own, connected = profile(codes, q, w), connected_correlations(codes, q, w)
    for i in range(6):
        x, known = codes[:, i], codes[:, i] >= 0
        for k in range(q):
            assert np.isclose(own[i, k], w[x == k].sum() / w[known].sum())
        for j in set(range(6)) - {i}:
            both = known & (codes[:, j] >= 0)
            for k, l in np.ndindex(q, q):
                f = w[(x == k) & (codes[:, j] == l)].sum() / w[both].sum()
                assert np.isclose(connected[i, k, j, l], f - own[i, k] * own[j, l])
        assert_allclose(connected[i, :, i], np.diag(own[i]) - np.outer(own[i], own[i]))


def test_a_site_without_letters_is_uniform():
    codes = some_codes()
    codes[:, 2] = -1
    own = profile(codes, 3)
    assert_allclose(own[2], 1 / 3)
    expected = 1 / 9 - np.outer(own[2], own[4])
    assert_allclose(connected_correlations(codes, 3)[2, :, 4], expected)


def test_correlation_of_pairs():
    codes, other = some_codes(), some_codes(seed=1)
    x, y = (connected_correlations(part, 3) for part in (codes, other))
    index = [(i, a, j, b) for i, a, j, b in np.ndindex(x.shape) if i < j]
    expected = np.corrcoef([x[k] for k in index], [y[k] for k in index])[0, 1]
    assert np.isclose(pair_correlation(codes, other, 3), expected)
    weights = np.arange(40) % 2
    halved = pair_correlation(codes, other, 3, sample_weight=weights)
    assert np.isclose(halved, pair_correlation(codes[1::2], other, 3))
    assert np.isclose(halved, pair_correlation(other, codes, 3, other_weight=weights))
    with warnings.catch_warnings(action="error"):
        assert np.isnan(pair_correlation(codes, codes[:1], 3))
        assert np.isnan(pair_correlation(codes[:, :1], codes[:, :1], 3))
    with pytest.raises(ValueError, match="6 sites, but others 5"):
        pair_correlation(codes, codes[:, 1:], 3)
