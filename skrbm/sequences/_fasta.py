"""Alignments in FASTA, a2m and a3m files."""

import gzip
import os
import zlib
from typing import NamedTuple

import numpy as np

from .._checks import look_up
from ._alphabet import decode, encode, is_protein, letters_of

_INSERTS = str.maketrans("", "", "abcdefghijklmnopqrstuvwxyz.")


class Alignment(NamedTuple):
    """Aligned sequences.

    Attributes
    ----------
    names : list of str
        The lines that start with ">", without this character.
    codes : ndarray of int8 of shape (n_sequences, n_sites)
        The position of each letter in the alphabet, or -1 for missing letters.
    alphabet : str
        The letters.
    """

    names: list[str]
    codes: np.ndarray
    alphabet: str


def read_fasta(path, alphabet="protein", *, unknown="missing", inserts="drop"):
    """Read an alignment from a FASTA file, which may be compressed by gzip.

    A sequence may span several lines and end with '*'.

    Parameters
    ----------
    path : str, path-like or text file
    alphabet : {"protein", "rna", "dna"} or str, default="protein"
        As in :func:`encode`, in upper case.
    unknown : {"missing", "gap"}, default="missing"
        Whether letters that are not in the alphabet, such as X, B, Z and N, are encoded as -1 or
        as the gap.
    inserts : {"drop", "keep"}, default="drop"
        "drop" skips lower-case letters and '.', which in a2m and a3m files are insertions between
        the columns of the alignment. "keep" reads them as upper-case letters and gaps.

    Returns
    -------
    Alignment

    Raises
    ------
    ValueError
        If the file has no sequences or is damaged, or the sequences differ in length.

    Warns
    -----
    DataRangeWarning
        As in :func:`encode`.
    """
    drops = look_up("inserts", inserts, {"drop": True, "keep": False})
    try:
        if hasattr(path, "read"):
            names, rows = _parse(path)
        else:
            with _opened(path) as file:
                names, rows = _parse(file)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"the file is damaged or truncated: {error}") from error
    if "*" not in letters_of(alphabet):
        rows = [row.removesuffix("*") for row in rows]
    kept = [row.translate(_INSERTS) if drops else row.upper() for row in rows]
    if any(rows) and not any(kept):
        raise ValueError("all letters are insertions; set inserts='keep'")
    return Alignment(names, encode(kept, alphabet, unknown=unknown), letters_of(alphabet))


def _opened(path):
    """Return the text file of a path, which may be compressed."""
    with open(path, "rb") as file:
        is_gzip = file.read(2) == b"\x1f\x8b"
    # Old files may be in Latin-1, which matters in names only.
    return (gzip.open if is_gzip else open)(path, "rt", encoding="utf-8-sig", errors="replace")


def _parse(lines):
    """Return the names and the sequences of a file."""
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
    codes : array-like of int of shape (n_sequences, n_sites)
        Missing letters, -1, are written as X, or as N in "rna" and "dna".
    names : sequence of str, default=None
        Names of the sequences; by default 1, 2, ...
    alphabet : str, default="protein"
        As in :func:`encode`.

    Raises
    ------
    ValueError
        If the numbers of names and sequences differ, or a name has several lines.
    """
    missing = "X" if is_protein(letters_of(alphabet)) else "N"
    rows = decode(codes, alphabet, missing=missing)
    names = range(1, len(rows) + 1) if names is None else names
    if len(names) != len(rows):
        raise ValueError(f"there are {len(rows)} sequences, but {len(names)} names")
    if any(len(str(name).splitlines()) > 1 for name in names):
        raise ValueError("names must be single lines")
    opened = gzip.open if os.fspath(path).endswith(".gz") else open
    with opened(path, "wt", encoding="utf-8") as file:
        file.writelines(f">{name}\n{row}\n" for name, row in zip(names, rows, strict=True))
