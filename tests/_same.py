"""Whether two estimators are the same, down to arrays within arrays of objects."""

import numpy as np
import scipy.sparse as sp
from numpy.testing import assert_array_equal


def assert_same(one, other):
    """Two values are the same; of dicts the items, but for times, which no two fits share."""
    assert type(one) is type(other)
    if isinstance(one, np.ndarray):
        assert one.dtype == other.dtype
        assert_array_equal(one, other)
    elif isinstance(one, list | tuple):
        assert len(one) == len(other)
        for pair in zip(one, other, strict=True):
            assert_same(*pair)
    elif isinstance(one, dict):
        one, other = ({k: v for k, v in x.items() if k != "time"} for x in (one, other))
        assert set(one) == set(other)
        for name in one:
            assert_same(one[name], other[name])
    elif sp.issparse(one):
        assert_same(*((x.shape, x.data, x.indices, x.indptr) for x in (one, other)))
    elif isinstance(one, np.random.Generator):
        assert_same(one.bit_generator.state, other.bit_generator.state)
    elif isinstance(one, np.random.RandomState):
        assert_same(one.get_state(), other.get_state())
    elif isinstance(one, np.random.SeedSequence):
        assert_same(one.state, other.state)
    elif type(one).__module__.startswith("skrbm"):
        assert_same(*map(attributes, (one, other)))
    elif type(one).__module__.startswith("torch"):
        one, other = (x.get_state() if hasattr(x, "get_state") else x for x in (one, other))
        assert one.equal(other) if hasattr(one, "shape") else one == other
    else:
        assert one == other or (one != one and other != other)


def attributes(value):
    """What an object of skrbm is made of, without callbacks."""
    names = getattr(value, "__dataclass_fields__", None) or vars(value)
    return {name: getattr(value, name) for name in names if "_callback" not in name}
