"""Letters and their codes."""

import re
import warnings

import numpy as np
import scipy.sparse as sp

from .._checks import check_count, look_up
from ..exceptions import DataRangeWarning
from ..inputs import one_hot as _one_hot

ALPHABETS = {
    "protein": "-ACDEFGHIKLMNPQRSTVWY",
    "rna": "-ACGU",
    "dna": "-ACGT",
}
MISSING = -1
_MANY = 0.5  # share of unknown letters above which the alphabet is wrong
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_SYNONYMS = {"rna": ("T", "U"), "dna": ("U", "T")}  # a letter, and the one that it stands for


def letters_of(alphabet):
    """Return the letters of an alphabet, in the order of their codes.

    Parameters
    ----------
    alphabet : str
        "protein" (the gap and 20 amino acids), "rna" or "dna" (the gap and four bases), in
        alphabetical order and in any case; or the letters themselves, such as
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
        f"alphabet must be one of {sorted(ALPHABETS)} or at least two different ASCII letters, "
        f"got {alphabet!r}"
    )


def encode(sequences, alphabet="protein", *, unknown="missing"):
    """Return the codes of aligned sequences.

    Parameters
    ----------
    sequences : iterable of str
        Of the same length. '.' and '-' are gaps. In "rna" and "dna" T and U stand for each other.
    alphabet : str, default="protein"
        As in :func:`letters_of`.
    unknown : {"missing", "gap", "error"}, default="missing"
        Whether letters that are not in the alphabet, such as X, B, Z and N, are encoded as -1 or
        as the gap, or an error.

    Returns
    -------
    ndarray of int8 of shape (n_sequences, n_sites)
        The position of each letter in the alphabet; -1 is missing.

    Raises
    ------
    ValueError
        If the sequences differ in length, have unknown letters with ``unknown="error"``, or have
        lower-case letters of an upper-case alphabet, which may be insertions (see
        :func:`read_fasta`).

    Warns
    -----
    DataRangeWarning
        If more than half of the letters are unknown.
    """
    letters, table, sequences = letters_of(alphabet), _table(alphabet, unknown), list(sequences)
    if not all(isinstance(row, str) for row in sequences):
        raise ValueError("sequences must be strings")
    rows = [_NOT_ASCII.sub("\0", row).encode() for row in sequences]  # a byte for each letter
    lengths = np.array([len(row) for row in rows])
    if not lengths.any():
        raise ValueError("sequences must have at least one sequence with at least one letter")
    if (lengths != lengths[0]).any():
        i = int(np.argmax(lengths != lengths[0]))
        raise ValueError(
            f"sequences must have the same length, but sequence 0 has {lengths[0]} sites and "
            f"sequence {i} has {lengths[i]}"
        )
    found = np.frombuffer(b"".join(rows), dtype=np.uint8).reshape(len(rows), -1)
    lower = np.isin(found, [ord(c.lower()) for c in letters if c.lower() not in letters])
    codes = table[found]
    is_unknown = _table(alphabet, "missing")[found] < 0
    if unknown != "error" and is_unknown.mean() > _MANY:
        warnings.warn(
            f"{is_unknown.mean():.0%} of the letters are not in the alphabet {letters!r}",
            DataRangeWarning,
            stacklevel=2,
        )
    wrong = lower | (codes < 0) if unknown == "error" else lower
    if wrong.any():
        i, j = np.argwhere(wrong)[0]
        raise ValueError(
            f"alphabet {letters!r} has no letter {sequences[i][j]!r} (sequence {i}, site {j})"
            + ("; lower-case letters may be insertions, see read_fasta" if lower[i, j] else "")
        )
    return codes


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
    if alphabet.lower() in _SYNONYMS:
        letter, meant = map(ord, _SYNONYMS[alphabet.lower()])
        table[letter] = table[meant]
    return table


def decode(codes, alphabet="protein", *, missing="X"):
    """Return the sequences of codes.

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
    """Return codes as a checked array of integers of shape (n_sequences, n_sites).

    Parameters
    ----------
    codes : array-like of shape (n_sequences, n_sites)
        Of integers, or of floats with integer values; NaN is missing.
    n_letters : int, default=None
        Number of letters; None allows for any code from -1 on.
    name : str, default="codes"
        In errors.
    """
    try:
        codes = np.asarray(codes)
        if codes.dtype.kind == "f":
            whole = np.where(np.isnan(codes), MISSING, codes)
            codes = whole.astype(np.int64) if (whole % 1 == 0).all() else codes
    except ValueError as error:
        raise ValueError(f"{name} must be an array of integers: {error}") from error
    if codes.dtype.kind not in "iu" or codes.ndim != 2 or 0 in codes.shape:
        raise ValueError(
            f"{name} must be integers of shape (n_sequences, n_sites), got shape {codes.shape} and "
            f"dtype {codes.dtype}; see encode"
        )
    low, high = codes.min(), codes.max()
    if low < MISSING or (n_letters is not None and high >= n_letters):
        raise ValueError(
            f"{name} are from {low} to {high}, but must be -1 (missing) or from 0 to "
            f"{'' if n_letters is None else n_letters - 1}"
        )
    return codes


def one_hot(codes, n_letters):
    """Return codes as one-hot columns.

    :class:`skrbm.RBM` takes them with ``visible=Categorical((n_letters,) * n_sites)``.

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
    return _one_hot(codes.astype(np.int64), (n_letters,) * codes.shape[1])


def known_rows(codes, n_letters, n_sites, name="codes"):
    """Return checked codes without missing letters, and their one-hot columns in float64."""
    codes = check_codes(codes, n_letters, name)
    if codes.shape[1] != n_sites:
        raise ValueError(f"{name} have {codes.shape[1]} sites, but the machine has {n_sites}")
    if (codes < 0).any():
        raise ValueError(f"{name} must have no missing letters (-1)")
    return codes, one_hot(codes, n_letters).astype(np.float64)


def codes_of(X, n_letters):
    """Return the codes of one-hot rows; a site with NaN is missing.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_sequences, n_sites * n_letters)
        Such as samples; of probabilities the largest of each site counts.
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
