"""Alignments in FASTA files, and in a2m and a3m files."""

import gzip
import os
from typing import NamedTuple

import numpy as np

from .._checks import look_up
from ._alphabet import decode, encode, letters_of

_INSERTS = str.maketrans("", "", "abcdefghijklmnopqrstuvwxyz.")
_GZIP = b"\x1f\x8b"
_READ = {
    "mode": "rt",
    "encoding": "utf-8-sig",
    "errors": "replace",
}  # names of old files are latin-1
_WRITE = {"mode": "wt", "encoding": "utf-8"}


class Alignment(NamedTuple):
    """Aligned sequences.

    Attributes
    ----------
    names : list of str
        What follows ">" in the lines of the names.
    codes : ndarray of int8 of shape (n_sequences, n_sites)
        The place of each letter in the alphabet; -1 is missing.
    alphabet : str
        The letters.
    """

    names: list[str]
    codes: np.ndarray
    alphabet: str


def read_fasta(path, alphabet="protein", *, unknown="missing", inserts="drop"):
    """Read an alignment from a FASTA file, also one compressed by gzip.

    A sequence may go over several lines, and end with '*'. Names need not differ, and sequences may
    be equal.

    Parameters
    ----------
    path : str, path or file
        A file that is open must be open for text.
    alphabet : {"protein", "rna", "dna"} or str, default="protein"
        As in :func:`letters_of`.
    unknown : {"missing", "gap", "error"}, default="missing"
        What letters are that the alphabet does not have, such as X, B, Z and N: the code -1, the
        code of the gap, or an error.
    inserts : {"drop", "keep"}, default="drop"
        "drop" leaves out small letters and '.', which are insertions between the columns of the
        alignment in a2m and a3m files. "keep" takes small letters as capitals, and '.' as a gap.

    Returns
    -------
    Alignment

    Raises
    ------
    TypeError
        If the file is open for bytes.
    ValueError
        If the file has no sequence, or the sequences have not the same length.
    """
    look_up("inserts", inserts, {"drop": None, "keep": None})
    letters = letters_of(alphabet)  # before a long file is read
    if letters != letters.upper():
        raise ValueError(
            f"read_fasta reads capitals, so that alphabet must have them, got {letters!r}"
        )
    names, rows = _records(path)
    if "*" not in letters:
        rows = [row.removesuffix("*") for row in rows]
    is_empty = not any(rows)
    if inserts == "drop":
        rows = [row.translate(_INSERTS) for row in rows]
    else:
        rows = [row.upper() for row in rows]
    if not is_empty and not any(rows):
        raise ValueError(
            "all letters are small ones or '.', which are insertions in a2m and a3m files; give "
            "inserts='keep' if they are the alignment"
        )
    return Alignment(names, encode(rows, alphabet, unknown=unknown), letters)


def _records(path):
    """Return the names and the sequences of a file."""
    if hasattr(path, "read"):
        if isinstance(path.read(0), bytes):
            raise TypeError("the file is open for bytes; open it for text, or give its path")
        return _parsed(path)
    with open(path, "rb") as file:
        is_gzip = file.read(2) == _GZIP
    with gzip.open(path, **_READ) if is_gzip else open(path, **_READ) as file:
        return _parsed(file)


def _parsed(lines):
    names, parts = [], []
    for line in lines:
        line = line.strip()
        if line.startswith(">"):
            names.append(line[1:].strip())
            parts.append([])
        elif line and not line.startswith(";"):  # a comment
            if not names:
                raise ValueError(
                    f"a FASTA file begins with '>' and a name, but this one with {line[:20]!r}"
                )
            parts[-1].append("".join(line.split()))
    if not names:
        raise ValueError("the file has no sequences")
    return names, ["".join(part) for part in parts]


def write_fasta(path, codes, names=None, alphabet="protein"):
    """Write sequences to a FASTA file, compressed by gzip if its name ends in ".gz".

    Parameters
    ----------
    path : str or path
    codes : array-like of int of shape (n_sequences, n_sites), or Alignment
        -1, what is missing, is written as X, of "rna" and "dna" as N.
    names : sequence of str, default=None
        Default: those of the alignment, or 1, 2, ...
    alphabet : str, default="protein"
        As in :func:`letters_of`; an alignment has its own.

    Raises
    ------
    ValueError
        If the names are not as many as the sequences, or one goes over several lines.
    """
    if isinstance(codes, Alignment):
        names = codes.names if names is None else names
        codes, alphabet = codes.codes, codes.alphabet
    missing = "X" if set("EFILPQZ") & set(letters_of(alphabet)) else "N"
    rows = decode(codes, alphabet, missing=missing)
    names = [str(i + 1) for i in range(len(rows))] if names is None else [*map(str, names)]
    if len(names) != len(rows):
        raise ValueError(f"there are {len(rows)} sequences, but {len(names)} names")
    if any("\n" in name or "\r" in name for name in names):
        raise ValueError("a name in a FASTA file is one line")
    is_gzip = os.fspath(path).endswith(".gz")
    with gzip.open(path, **_WRITE) if is_gzip else open(path, **_WRITE) as file:
        file.writelines(f">{name}\n{row}\n" for name, row in zip(names, rows, strict=True))
