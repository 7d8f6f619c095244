"""Readers of the files of rbms and adabmDCA, and machines of Potts models."""

import re
from pathlib import Path

import numpy as np

from ..estimators import BernoulliRBM, CategoricalRBM
from ._alphabet import letters_of
from ._couplings import check_couplings, zero_sum
from ._fasta import reading

_PARAMETERS = "weight_matrix", "hbias", "vbias"
_UPDATE = re.compile(r"update_(\d+)")
_SMALL = 1e-10  # eigenvalues, relative to the largest, that are rounding


def read_rbms(path, update=None, **params):
    """Read a machine from an HDF5 file of ``rbms`` 0.5; needs h5py.

    Parameters
    ----------
    path : str or path
    update : int, default=None
        Number of updates of the saved machine; default: the largest.
    **params : dict
        Parameters of the estimator, such as ``random_state``.

    Returns
    -------
    CategoricalRBM or BernoulliRBM
        Fitted; of a ``PBRBM`` or a ``BBRBM``.

    Raises
    ------
    ImportError
        If h5py is not installed.
    ValueError
        If the file has no such machine, or one of another kind.
    """
    try:
        import h5py
    except ImportError as error:
        raise ImportError(
            "read_rbms needs the optional package h5py: pip install 'skrbm[sequences]'"
        ) from error

    with reading(path, "a file of rbms"), h5py.File(path, "r") as file:
        saved = sorted(int(m[1]) for m in map(_UPDATE.fullmatch, file) if m)
        if not saved or (update is not None and update not in saved):
            raise ValueError(f"there is no update {update}, but {saved}")
        group = file[f"update_{saved[-1] if update is None else update}"]
        group = group.get("params", group)  # older files have no such group
        kind = file["model_type"].asstr()[()] if "model_type" in file else None
        if kind not in (None, "PBRBM", "BBRBM") or any(name not in group for name in _PARAMETERS):
            raise ValueError(
                f"it must hold a PBRBM or BBRBM with {sorted(_PARAMETERS)}, got {kind} with "
                f"{sorted(group)}"
            )
        W, hidden, visible = (np.asarray(group[name][()]) for name in _PARAMETERS)
    if W.ndim == 3:
        return CategoricalRBM.from_parameters(W.transpose(2, 0, 1), hidden, visible, **params)
    return BernoulliRBM.from_parameters(W.T, hidden, visible, **params)


def read_adabmdca(path, alphabet="protein", **params):
    """Read a Potts model from a parameter file of adabmDCA, as a machine (:func:`potts_machine`).

    Parameters
    ----------
    path : str or path
        Of lines "J i j a b value" and "h i a value", where a and b are letters or codes. Missing
        couplings are 0.
    alphabet : str, default="protein"
        That of the file, as in :func:`letters_of`.
    **params : dict
        Parameters of the estimator, such as ``random_state``.

    Returns
    -------
    CategoricalRBM
        Fitted; its X are codes.

    Raises
    ------
    ValueError
        If a line is invalid, or couplings are of sites without fields.
    """
    letters = letters_of(alphabet)
    code = {letter: i for i, letter in enumerate(letters)}
    code |= {str(i): i for i in range(len(letters)) if str(i) not in code}
    entries = {"h": [], "J": []}
    for number, line in enumerate(Path(path).read_text(errors="replace").splitlines(), 1):
        if parts := line.split():
            try:
                entries[parts[0]].append(_entry(parts, code))
            except (KeyError, ValueError, IndexError):
                raise ValueError(
                    f"line {number} of {path} must be 'J i j a b value' or 'h i a value' with "
                    f"letters of {letters!r}, got {line[:60]!r}"
                ) from None
    if not entries["h"]:
        raise ValueError(f"{path} has no line 'h i a value'")
    return potts_machine(*_potts(entries, len(letters)), **params)


def _entry(parts, code):
    if parts[0] == "h":
        site, letter, value = parts[1:]
        return int(site), code[letter], float(value)
    i, j, a, b, value = parts[1:]
    return int(i), int(j), code[a], code[b], float(value)


def _potts(entries, n_letters):
    """Return arrays of couplings and fields."""
    *index, values = zip(*entries["h"], strict=True)
    n_sites = max(index[0]) + 1
    sites = {*index[0], *(site for entry in entries["J"] for site in entry[:2])}
    if not sites <= set(range(n_sites)):
        raise ValueError(
            f"sites must be those with fields, 0 to {n_sites - 1}, got {sorted(sites)}"
        )
    fields, couplings = np.zeros((n_sites, n_letters)), np.zeros((n_sites, n_letters) * 2)
    fields[tuple(map(list, index))] = values
    if entries["J"]:
        i, j, a, b, values = map(list, zip(*entries["J"], strict=True))
        couplings[i, a, j, b] = values
        couplings[j, b, i, a] = values
    return couplings, fields


def potts_machine(couplings, fields, **params):
    """Return the machine with Gaussian hidden units that has the distribution of a Potts model.

    log p(v) = sum_i h_i(v_i) + sum_{i<j} J_ij(v_i, v_j) + constant. In zero-sum gauge a multiple of
    the identity, which changes the constant, makes J positive semidefinite; then J = W'W with at
    most n_sites (n_letters - 1) hidden units of variance 1. Chains mix slowly if the multiple is
    large.

    Parameters
    ----------
    couplings : array-like of shape (n_sites, n_letters, n_sites, n_letters)
        J, symmetric; entries with i = j are ignored.
    fields : array-like of shape (n_sites, n_letters)
        h.
    **params : dict
        Parameters of the estimator, such as ``random_state``.

    Returns
    -------
    CategoricalRBM
        Fitted, with categories 0 to n_letters - 1.
    """
    J, fields = check_couplings(couplings).copy(), np.asarray(fields, dtype=np.float64)
    n_sites, n_letters = J.shape[:2]
    if fields.shape != (n_sites, n_letters):
        raise ValueError(f"fields must have the shape {(n_sites, n_letters)}, got {fields.shape}")
    if not np.isfinite(fields).all() or not np.allclose(J, J.transpose(2, 3, 0, 1)):
        raise ValueError("fields must be finite, and couplings symmetric")
    sites, n = np.arange(n_sites), n_sites * n_letters
    J[sites, :, sites, :] = 0
    fields = fields + J.mean(axis=3).sum(axis=2)  # what the gauge takes from the couplings
    matrix = zero_sum(J).reshape(n, n)
    free = np.kron(np.eye(n_sites), np.eye(n_letters) - 1 / n_letters)
    lowest = min(0.0, np.linalg.eigvalsh(matrix)[0])
    values, vectors = np.linalg.eigh(matrix - lowest * free)
    kept = values > _SMALL * max(values[-1], 1.0)
    kept[-1] = True  # a machine has at least one hidden unit
    W = (np.sqrt(values[kept].clip(0)) * vectors[:, kept]).T
    shape = len(W), n_sites, n_letters
    return CategoricalRBM.from_parameters(
        W.reshape(shape), intercept_visible=fields, hidden="gaussian", **params
    )
