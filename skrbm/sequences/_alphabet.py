"""Letters and their codes."""

import warnings

import numpy as np
from sklearn.utils.validation import check_array

from .._checks import hint, look_up
from ..exceptions import DataRangeWarning

_ALPHABETS = {"protein": "-ACDEFGHIKLMNPQRSTVWY", "rna": "-ACGU", "dna": "-ACGT"}
_SYNONYMS = {"rna": ("T", "U"), "dna": ("U", "T")}  # a letter, and the one that it stands for
_AMBIGUOUS = {True: "BJXZ?", False: "BDHKMNRSVWXY?"}  # of proteins or not, as of IUPAC
_MANY = 0.05  # share of other letters above which the alphabet is probably wrong


def letters_of(alphabet):
    """Return the letters of an alphabet, given by name or by its letters, in order of the codes."""
    if isinstance(alphabet, str) and alphabet.lower() in _ALPHABETS:
        return _ALPHABETS[alphabet.lower()]
    is_text = isinstance(alphabet, str) and alphabet.isascii() and len(alphabet) > 1
    near = hint(alphabet.lower(), _ALPHABETS) if is_text else ""
    is_typo = near and not alphabet.isupper()
    if (
        not is_text
        or is_typo
        or len(set(alphabet)) < len(alphabet)
        or set(alphabet) & set(".> \t\r\n")
    ):
        raise ValueError(
            f"alphabet must be one of {sorted(_ALPHABETS)} or at least two different ASCII "
            f"letters, got {alphabet!r}{near}"
        )
    return alphabet


def is_protein(letters):
    """Whether letters are not those of nucleotides alone."""
    return bool(set("EFILPQZ") & set(letters))


def encode(sequences, alphabet="protein", *, unknown="missing"):
    """Return the codes of aligned sequences.

    Parameters
    ----------
    sequences : iterable of str
        Sequences of the same length. '.' and '-' are gaps. In "rna" and "dna", T and U are
        equivalent.
    alphabet : str, default="protein"
        "protein" (the gap and 20 amino acids), "rna" or "dna" (the gap and four bases), in
        alphabetical order; or the letters themselves, such as "ACDEFGHIKLMNPQRSTVWY" for proteins
        without gaps.
    unknown : {"missing", "gap"}, default="missing"
        Whether letters that are not in the alphabet, such as X, B, Z and N, are encoded as -1 or
        as the gap.

    Returns
    -------
    ndarray of int8 of shape (n_sequences, n_sites)
        The position of each letter in the alphabet, or -1 for missing letters.

    Raises
    ------
    ValueError
        If the sequences differ in length, or have lower-case letters of an upper-case alphabet,
        which may be insertions (see :func:`read_fasta`).

    Warns
    -----
    DataRangeWarning
        If more than 5 % of the letters are not in the alphabet, and are neither gaps nor usual
        ambiguity codes such as X.
    """
    letters, sequences = letters_of(alphabet), list(sequences)
    gap = letters.find("-")
    code_of_unknown = look_up("unknown", unknown, {"missing": -1, "gap": gap})
    if not all(isinstance(row, str) for row in sequences) or not any(sequences):
        raise ValueError("sequences must be strings, at least one of which is not empty")
    lengths = [len(row) for row in sequences]
    if min(lengths) < max(lengths):
        raise ValueError(
            f"sequences must have the same length, got lengths from {min(lengths)} to "
            f"{max(lengths)}"
        )
    found = np.frombuffer("".join(sequences).encode("ascii", "replace"), dtype=np.uint8)
    lower = np.isin(found, [ord(c.lower()) for c in letters if c.lower() not in letters])
    if lower.any():
        raise ValueError(
            f"sequences have lower-case letters, such as {chr(found[lower][0])!r}, which may be "
            "insertions; see read_fasta"
        )
    table = np.full(256, -1, dtype=np.int8)
    table[np.frombuffer(letters.encode(), dtype=np.uint8)] = np.arange(len(letters))
    table[ord(".")] = gap
    if alphabet.lower() in _SYNONYMS:
        letter, meant = map(ord, _SYNONYMS[alphabet.lower()])
        table[letter] = table[meant]
    codes = table[found].reshape(len(sequences), -1)
    _warn_of_others(np.bincount(found, minlength=256), table, letters)
    codes[codes < 0] = code_of_unknown
    return codes


def _warn_of_others(counts, table, letters):
    """Warn of many letters that have no code, by the counts and the codes of 256 letters."""
    counts[[ord("-"), ord(".")]] = 0
    usual = _AMBIGUOUS[is_protein(letters)]
    missing = np.where(table < 0, counts, 0)
    others = missing.copy()
    others[[ord(c) for c in usual + usual.lower()]] = 0
    if others.sum() > _MANY * counts.sum():
        common = [chr(i) for i in np.argsort(-others, kind="stable")[:5] if others[i]]
        warnings.warn(
            f"{missing.sum() / counts.sum():.0%} of the letters, such as {', '.join(common)}, are "
            f"not in the alphabet {letters!r}",
            DataRangeWarning,
            stacklevel=3,
        )


def decode(codes, alphabet="protein", *, missing="X"):
    """Convert codes to sequences.

    Parameters
    ----------
    codes : array-like of int of shape (n_sequences, n_sites)
    alphabet : str, default="protein"
        As in :func:`encode`.
    missing : str, default="X"
        The letter used for -1.

    Returns
    -------
    list of str
    """
    letters = letters_of(alphabet)
    if len(missing) != 1 or not missing.isascii():
        raise ValueError(f"missing must be one ASCII letter, got {missing!r}")
    table = np.frombuffer((letters + missing).encode("ascii"), dtype="S1")  # -1 is the last one
    return [row.tobytes().decode() for row in table[check_codes(codes, len(letters))]]


def check_codes(codes, n_letters=np.inf, name="codes"):
    """Return codes as an array of integers of shape (n_sequences, n_sites); NaN becomes -1."""
    codes = check_array(codes, dtype="numeric", ensure_all_finite="allow-nan", input_name=name)
    if codes.dtype.kind == "f":
        codes = np.where(np.isnan(codes), -1, codes)
    low, high = codes.min(), codes.max()
    if (codes % 1).any() or low < -1 or high >= n_letters:
        limit = "" if n_letters == np.inf else f" to {n_letters - 1}"
        raise ValueError(
            f"{name} must be integers, -1 (missing) or from 0{limit}, got values from {low} to "
            f"{high}; see skrbm.sequences.encode"
        )
    return codes if codes.dtype.kind in "iu" else codes.astype(np.int64)
