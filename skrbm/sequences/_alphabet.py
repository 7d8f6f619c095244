"""Letters and their codes."""

import re

import numpy as np
import scipy.sparse as sp

from .._checks import check_count, look_up
from ..inputs import one_hot as _columns

ALPHABETS = {
    "protein": "-ACDEFGHIKLMNPQRSTVWY",
    "rna": "-ACGU",
    "dna": "-ACGT",
}
MISSING = -1
_OTHER = re.compile(r"[^\x00-\x7f]")  # what no alphabet has
_SAME = {"rna": ("T", "U"), "dna": ("U", "T")}  # the letter that stands for another


def letters_of(alphabet):
    """Return the letters of an alphabet, in the order of their codes.

    Parameters
    ----------
    alphabet : str
        "protein" (the gap and 20 amino acids), "rna" or "dna" (the gap and four bases), all in
        alphabetical order, or "DNA" and so on; or the letters themselves, such as
        "ACDEFGHIKLMNPQRSTVWY" for proteins without gaps.

    Returns
    -------
    str

    Raises
    ------
    ValueError
        If a letter occurs twice, or there are fewer than two.
    """
    if isinstance(alphabet, str) and alphabet.lower() in ALPHABETS:
        return ALPHABETS[alphabet.lower()]
    if isinstance(alphabet, str) and len(alphabet) >= 2 and alphabet.isascii():
        if len(set(alphabet)) == len(alphabet) and not (set(alphabet) & set(".> \t\r\n")):
            return alphabet
    raise ValueError(
        f"alphabet must be one of {sorted(ALPHABETS)} or a string of at least two different ASCII "
        f"letters, without '.', '>' and spaces, got {alphabet!r}"
    )


def encode(sequences, alphabet="protein", *, unknown="missing"):
    """Return the codes of aligned sequences.

    Parameters
    ----------
    sequences : iterable of str
        All of one length. '.' is a gap, and so is '-'. In the alphabets "rna" and "dna" T and U
        stand for each other.
    alphabet : str, default="protein"
        As in :func:`letters_of`.
    unknown : {"missing", "gap", "error"}, default="missing"
        What letters are that the alphabet does not have, such as X, B, Z and N: -1, the code of the
        gap, or an error.

    Returns
    -------
    ndarray of int8 of shape (n_sequences, n_sites)
        The place of each letter in the alphabet; -1 is missing.

    Raises
    ------
    ValueError
        If the sequences differ in length, have unknown letters that are to be an error, or have
        small letters that the alphabet has as capitals: those may be insertions, as of
        :func:`read_fasta`.
    """
    table, sequences = _table(alphabet, unknown), list(sequences)
    if not all(isinstance(row, str) for row in sequences):
        raise ValueError("sequences must be strings")
    rows = [_OTHER.sub("\0", row).encode() for row in sequences]  # a byte for each letter
    lengths = np.array([len(row) for row in rows])
    if not lengths.any():
        raise ValueError("there must be at least one sequence with at least one letter, got none")
    if (lengths != lengths[0]).any():
        odd = int(np.argmax(lengths != lengths[0]))
        raise ValueError(
            f"aligned sequences have one length: the first has {lengths[0]} sites, number {odd} "
            f"(from 0) has {lengths[odd]}; align them, or see the option inserts of read_fasta"
        )
    letters = np.frombuffer(b"".join(rows), dtype=np.uint8).reshape(len(rows), -1)
    _check_capitals(letters, letters_of(alphabet))
    codes = table[letters]
    if unknown == "error" and (codes < 0).any():
        i, j = np.argwhere(codes < 0)[0]
        raise ValueError(
            f"the alphabet {letters_of(alphabet)!r} has no letter {sequences[i][j]!r} (sequence "
            f"{i}, site {j}, from 0); give unknown='missing' or 'gap', or another alphabet"
        )
    return codes


def _check_capitals(letters, alphabet):
    """Raise ValueError if bytes have small letters of which the alphabet has the capitals alone."""
    small = [ord(letter.lower()) for letter in alphabet if letter.lower() not in alphabet]
    wrong = np.isin(letters, small)
    if wrong.any():
        i, j = np.argwhere(wrong)[0]
        raise ValueError(
            f"sequence {i} has the small letter {chr(letters[i, j])!r} (site {j}, from 0), and the "
            f"alphabet {alphabet!r} has capitals. If small letters are part of the alignment, give "
            "row.upper(); in a2m and a3m files they are insertions, which read_fasta leaves out"
        )


def _table(alphabet, unknown):
    """Return the code of each byte."""
    letters = letters_of(alphabet)
    gap = letters.find("-")
    other = look_up("unknown", unknown, {"missing": MISSING, "gap": gap, "error": MISSING})
    if unknown == "gap" and gap < 0:
        raise ValueError(f"unknown='gap' needs a gap '-' in the alphabet, got {letters!r}")
    table = np.full(256, other, dtype=np.int8)
    table[np.frombuffer(letters.encode(), dtype=np.uint8)] = np.arange(len(letters))
    table[ord(".")] = gap
    if alphabet.lower() in _SAME:
        letter, meant = map(ord, _SAME[alphabet.lower()])
        table[letter] = table[meant]
    return table


def decode(codes, alphabet="protein", *, missing="X"):
    """Return the sequences that have these codes.

    Parameters
    ----------
    codes : array-like of int of shape (n_sequences, n_sites)
    alphabet : str, default="protein"
        As in :func:`letters_of`.
    missing : str, default="X"
        The letter for -1.

    Returns
    -------
    list of str
    """
    letters = letters_of(alphabet)
    if len(missing) != 1 or not missing.isascii():
        raise ValueError(f"missing must be one ASCII letter, got {missing!r}")
    codes = check_codes(codes, len(letters))
    table = np.frombuffer((letters + missing).encode("ascii"), dtype="S1")  # -1 is the last one
    return [row.tobytes().decode() for row in table[codes]]


def check_codes(codes, n_letters=None, name="codes"):
    """Return codes as an array of int, after a check of their shape and values.

    Parameters
    ----------
    codes : array-like of shape (n_sequences, n_sites)
        Of integers, or of floats that are integers; NaN is missing.
    n_letters : int, default=None
        Number of letters; None allows for any code from -1 on.
    name : str, default="codes"
        What an error calls them.

    Returns
    -------
    ndarray of shape (n_sequences, n_sites), of integers

    Raises
    ------
    ValueError
        If they are no codes.
    """
    try:
        codes = np.asarray(codes)
    except ValueError as error:
        raise ValueError(
            f"{name} must be rows of one length, and numbers; of an Alignment give its codes"
        ) from error
    if codes.ndim == 1 and codes.size and isinstance(codes[0], str):
        raise ValueError(f"{name} must be integers; encode letters by skrbm.sequences.encode")
    if codes.ndim != 2 or 0 in codes.shape:
        raise ValueError(
            f"{name} must have the shape (n_sequences, n_sites), both at least 1, got {codes.shape}"
        )
    if codes.dtype.kind == "f":
        whole = np.where(np.isnan(codes), MISSING, codes)
        if not np.array_equal(whole, np.trunc(whole)) or np.isinf(whole).any():
            raise ValueError(f"{name} must be integers; encode letters by skrbm.sequences.encode")
        codes = whole.astype(np.int64)
    if codes.dtype.kind not in "iu":
        raise ValueError(
            f"{name} must be integers, got {codes.dtype}; encode letters by skrbm.sequences.encode"
        )
    low, high = codes.min(), codes.max()
    if low < MISSING or (n_letters is not None and high >= n_letters):
        most = "" if n_letters is None else f" to {n_letters - 1}"
        raise ValueError(
            f"{name} must be from 0{most}, or -1 where missing, but are from {low} to {high}; the "
            "alphabet must be that of the codes"
        )
    return codes


def one_hot(codes, n_letters):
    """Return codes as columns, of which exactly one of each site is 1.

    They are what :class:`skrbm.RBM` with ``visible=Categorical((n_letters,) * n_sites)`` takes.

    Parameters
    ----------
    codes : array-like of int of shape (n_sequences, n_sites)
    n_letters : int

    Returns
    -------
    csr_array of shape (n_sequences, n_sites * n_letters)
        Of bytes; if letters are missing, of float32 with NaN in all columns of such a site.
    """
    check_count("n_letters", n_letters, 2)
    codes = check_codes(codes, n_letters)
    return _columns(codes.astype(np.int64), (n_letters,) * codes.shape[1])


def known_rows(codes, n_letters, n_sites, name="codes"):
    """Return codes, checked, and their columns, sparse and in float64.

    Raises ValueError if a letter is missing, or the machine has another number of sites.
    """
    codes = check_codes(codes, n_letters, name)
    if codes.shape[1] != n_sites:
        raise ValueError(f"the machine has {n_sites} sites, but {name} have {codes.shape[1]}")
    if (codes < 0).any():
        raise ValueError(
            f"{name} have missing letters, -1; read with unknown='gap', leave such sequences out, "
            "or impute them"
        )
    return codes, one_hot(codes, n_letters).astype(np.float64)


def codes_of(X, n_letters):
    """Return the codes of one-hot rows; a site whose columns are NaN is missing.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_sequences, n_sites * n_letters)
        Such as the result of ``sample``; of other values the largest of each site counts.
    n_letters : int

    Returns
    -------
    ndarray of int8 of shape (n_sequences, n_sites)
    """
    check_count("n_letters", n_letters, 2)
    X = X.toarray() if sp.issparse(X) else np.asarray(X)
    if X.ndim != 2 or X.shape[1] % n_letters or 0 in X.shape:
        raise ValueError(f"X must have {n_letters} columns for each site, got the shape {X.shape}")
    by_site = X.reshape(X.shape[0], -1, n_letters)
    codes = by_site.argmax(axis=2).astype(np.int8 if n_letters <= 127 else np.int16)
    return np.where(np.isnan(by_site).any(axis=2), codes.dtype.type(MISSING), codes)
