"""Signs that learning has diverged, or that chains have not passed between groups of rows."""

import numpy as np

from .._ranks import ranks
from ..arrays import copied, to_numpy

DIVERGED = "learning has diverged."
WRONG_SHARES = (
    "chains may not have passed between groups of rows, so that the groups have wrong weights."
)
_LOWER_RATE = (
    'Lower learning_rate, to a number such as 0.01 if it is "auto", and scale X if its columns '
    "differ in scale."
)
_TEMPER = 'Use starts="tempered" (persistent="tempered" of BernoulliRBM), or lower learning_rate.'
_TEMPER_ALONE = (
    'Several processes cannot learn by tempered chains: fit in one, with starts="tempered" '
    '(persistent="tempered" of BernoulliRBM), or lower learning_rate.'
)
_WORSE, _WORSE_PART = 1.0, 0.05  # nats, or part of them, below independent units that are too many
_FALLEN, _FALLEN_PART = 0.5, 0.25  # nats, and part of what was gained, that are too much to lose
_MARK = 1.25  # ratio of the times of two marks, so that one of the last two is long enough ago
_SWEEPS = 100  # fewest from a mark to the end
_FEWEST, _N_CHAINS, _ELEMENTS = 20, 128, 2**16  # chains that tell, most of them, and their values
_STUCK = 0.75  # correlation of chains with themselves long ago
_SHIFTED, _SURE = 0.75, 5.0  # standard deviations of chains, and of the difference of two means
_DIRECTIONS = 8  # of the rows of data, along which they differ most
_FLAT = 1e-4  # variance along one, or part of the largest, below which rows do not differ
_APART, _SURELY = 0.8, 4.0  # standard deviations of these, and of the difference of two means


def first_told(failure):
    """Return the failure of the first rank that has one, with what to do about it; or None.

    ``failure`` is None or a sentence that ends with what it means.
    """
    told = [found for found in ranks().gather(failure) if found is not None]
    return f"{told[0]} {_remedy_of(told[0])}" if told else None


def _remedy_of(failure):
    if failure.endswith(DIVERGED):
        return _LOWER_RATE
    return _TEMPER if ranks().size == 1 else _TEMPER_ALONE


def told_if_short(name, value, independent):
    """Tell if a (pseudo-)log-likelihood is far below that of independent units, None if not."""
    if not value < independent - max(_WORSE, _WORSE_PART * abs(independent)):  # NaN is not
        return None
    return (
        f"the {name.replace('_', '-')} of training rows is {value:.4g} after the last epoch, and "
        f"that of independent units {independent:.4g}"
    )


def told_if_fallen(name, value, peak, independent):
    """Tell if a (pseudo-)log-likelihood is far below its largest value, None if not.

    Chains that are all in one group of rows, and then all in another, lead learning back and forth.
    """
    if not peak - value > max(_FALLEN, _FALLEN_PART * (peak - independent)):
        return None
    name = name.replace("_", "-")
    return f"the {name} of training rows has fallen from {peak:.4g} to {value:.4g}"


def marked(marks, time, visible):
    """Return marks with the chains of now, where those of the last mark are from long ago.

    Parameters
    ----------
    marks : list of tuples
        Times, and visible values of chains.
    time : float
        Of which sweeps take equal parts.
    visible : array of shape (n_chains, n_visible)
    """
    if marks and time < _MARK * marks[-1][0]:
        return marks
    return [*marks[-1:], (time, copied(_some(visible)))]


def told_if_stuck(marks, time, visible, n_sweeps):
    """Tell if chains hardly move along the direction in which they differ most, or all do.

    So it is where rows are in groups that chains do not pass between: how many are in each group
    stays as it was by chance, and learning makes one of them ever more probable, until all chains
    fall into it.

    Parameters
    ----------
    marks, time, visible : as in :func:`marked`
    n_sweeps : float
        Sweeps in a unit of time.

    Returns
    -------
    told : str or None
        What is wrong, None if nothing is or too little is known.
    """
    marks = [mark for mark in marks if _MARK * mark[0] <= time]
    if not marks:
        return None
    n_sweeps = round((time - marks[-1][0]) * n_sweeps)
    if n_sweeps < _SWEEPS or visible.shape[0] < _FEWEST:
        return None
    chains = [to_numpy(part) for part in (_some(visible), marks[-1][1])]
    correlation, shift = _along_main_direction(*chains)
    if correlation > _STUCK:
        how = f"hardly moved (their correlation with themselves is {correlation:.2f})"
    elif shift > _SHIFTED and shift > _SURE * (2 / len(chains[0])) ** 0.5:
        how = f"moved together (their mean has by {shift:.2g} standard deviations)"
    else:
        return None
    return f"in the last {n_sweeps} sweeps chains have {how}"


def main_directions(rows, weights):
    """Return the directions in which rows of data differ most, and the means along them.

    Along each the rows have a variance of 1.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_visible)
        Floats, which are written over.
    weights : ndarray of shape (n_rows,)

    Returns
    -------
    directions : ndarray of shape (n_visible, n_directions)
    means : ndarray of shape (n_directions,)
    """
    part = weights / weights.sum()
    centre = part @ rows
    rows -= centre.astype(rows.dtype)
    rows *= np.sqrt(part)[:, None].astype(rows.dtype)
    variances, vectors = np.linalg.eigh((rows @ rows.T).astype(np.float64))
    kept = variances > _FLAT * max(1.0, variances[-1])
    directions = rows.T @ (vectors[:, kept] / variances[kept])[:, -_DIRECTIONS:]
    return directions, centre @ directions


def told_if_apart(data, means, errors, n_rows):
    """Tell if the means of the machine are far from those of data.

    Wrong weights of groups of rows show by that, though the gradient by the chains is zero. The
    distance is that in all directions together, less what noise adds to it on average.

    Parameters
    ----------
    data, means, errors : ndarray of shape (n_directions,)
        Means of data and of the machine along main directions of the data, and the standard errors
        of the latter.
    n_rows : float
        How many rows the means of data are of.

    Returns
    -------
    told : str or None
        What is wrong, None if nothing is.
    """
    noise = (errors**2).sum() + errors.size / n_rows
    square = ((means - data) ** 2).sum() - noise
    if not square > max(_APART**2, _SURELY**2 * noise):
        return None
    return (
        f"the machine's means are {square**0.5:.2g} standard deviations away from those of "
        "training rows, along main directions of these"
    )


def _some(visible):
    """Return the values of some chains in some columns."""
    n, n_columns = visible.shape
    return visible[: min(n, _N_CHAINS), :: -(-n_columns // (_ELEMENTS // _N_CHAINS))]


def _along_main_direction(now, then):
    """Return the correlation of two values of each chain, and how far their means are apart.

    Along the direction in which all values differ most, in standard deviations; NaN if none do.
    """
    centred = np.concatenate([now, then]).astype(np.float64)
    centred -= centred.mean(axis=0)
    along = np.linalg.eigh(centred @ centred.T)[1][:, -1]  # up to a factor
    now, then = np.split(along, [len(now)])
    with np.errstate(invalid="ignore", divide="ignore"):
        shift = abs(now.mean() - then.mean()) / along.std()
        return float(np.corrcoef(now, then)[0, 1]), float(shift)
