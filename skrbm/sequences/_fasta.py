"""Alignments in FASTA, a2m and a3m files."""

import gzip
import os
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from .._checks import look_up
from ._alphabet import decode, encode, letters_of

_INSERTS = str.maketrans("", "", "abcdefghijklmnopqrstuvwxyz.")
_GZIP = b"\x1f\x8b"
_READ = {"mode": "rt", "encoding": "utf-8-sig", "errors": "replace"}  # old files are latin-1
_WRITE = {"mode": "wt", "encoding": "utf-8"}


class Alignment(NamedTuple):
    """Aligned sequences.

    Attributes
    ----------
    names : list of str
        The lines that start with ">", without it.
    codes : ndarray of int8 of shape (n_sequences, n_sites)
        The position of each letter in the alphabet; -1 is missing.
    alphabet : str
        The letters.
    """

    names: list[str]
    codes: np.ndarray
    alphabet: str


def read_fasta(path, alphabet="protein", *, unknown="missing", inserts="drop"):
    """Read an alignment from a FASTA file, also one compressed by gzip.

    A sequence may have several lines, and end with '*'.

    Parameters
    ----------
    path : str, path-like or text file
    alphabet : {"protein", "rna", "dna"} or str, default="protein"
        As in :func:`letters_of`, in upper case.
    unknown : {"missing", "gap", "error"}, default="missing"
        Whether letters that are not in the alphabet, such as X, B, Z and N, are encoded as -1 or
        as the gap, or an error.
    inserts : {"drop", "keep"}, default="drop"
        "drop" leaves out lower-case letters and '.', which are insertions between the columns of
        the alignment in a2m and a3m files. "keep" reads them as upper-case letters and gaps.

    Returns
    -------
    Alignment

    Raises
    ------
    TypeError
        If the file is open in binary mode.
    ValueError
        If the file has no sequence, or the sequences differ in length.
    """
    look_up("inserts", inserts, {"drop": None, "keep": None})
    letters = letters_of(alphabet)
    if letters != letters.upper():
        raise ValueError(f"alphabet must be in upper case, got {letters!r}")
    names, rows = _records(path)
    if "*" not in letters:
        rows = [row.removesuffix("*") for row in rows]
    kept = [row.translate(_INSERTS) if inserts == "drop" else row.upper() for row in rows]
    if any(rows) and not any(kept):
        raise ValueError("all letters are insertions; set inserts='keep'")
    return Alignment(names, encode(kept, alphabet, unknown=unknown), letters)


def _records(path):
    """Return the names and the sequences of a file."""
    if hasattr(path, "read"):
        if isinstance(path.read(0), bytes):
            raise TypeError("the file must be open in text mode")
        return _parse(path)
    with open(path, "rb") as file:
        is_gzip = file.read(2) == _GZIP
    with reading(path, "a FASTA file"):
        with gzip.open(path, **_READ) if is_gzip else open(path, **_READ) as file:
            return _parse(file)


@contextmanager
def reading(path, kind):
    """Raise ValueError for whatever a damaged file raises, but no errors of the system."""
    try:
        yield
    except Exception as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise ValueError(f"{path} is not {kind}: {error}") from error


def _parse(lines):
    names, parts = [], []
    for line in lines:
        line = line.strip()
        if line.startswith(">"):
            names.append(line[1:].strip())
            parts.append([])
        elif line and not line.startswith(";"):  # a comment
            if not names:
                raise ValueError(f"a FASTA file starts with '>', got {line[:20]!r}")
            parts[-1].append("".join(line.split()))
    if not names:
        raise ValueError("the file has no sequences")
    return names, ["".join(part) for part in parts]


def write_fasta(path, codes, names=None, alphabet="protein"):
    """Write sequences to a FASTA file, compressed by gzip if its name ends in ".gz".

    Parameters
    ----------
    path : str or path-like
    codes : array-like of int of shape (n_sequences, n_sites), or Alignment
        Missing letters, -1, are written as X, or as N in "rna" and "dna".
    names : sequence of str, default=None
        Default: those of the alignment, or 1, 2, ...
    alphabet : str, default="protein"
        As in :func:`letters_of`; an alignment has its own.

    Raises
    ------
    ValueError
        If there are more or fewer names than sequences, or a name has several lines.
    """
    if isinstance(codes, Alignment):
        names = codes.names if names is None else names
        codes, alphabet = codes.codes, codes.alphabet
    is_protein = set("EFILPQZ") & set(letters_of(alphabet))
    rows = decode(codes, alphabet, missing="X" if is_protein else "N")
    names = [str(i + 1) for i in range(len(rows))] if names is None else [*map(str, names)]
    if len(names) != len(rows):
        raise ValueError(f"there are {len(rows)} sequences, but {len(names)} names")
    if any("\n" in name or "\r" in name for name in names):
        raise ValueError("names must be single lines")
    is_gzip = os.fspath(path).endswith(".gz")
    with gzip.open(path, **_WRITE) if is_gzip else open(path, **_WRITE) as file:
        file.writelines(f">{name}\n{row}\n" for name, row in zip(names, rows, strict=True))
