"""Estimators of HDF5 and Zarr datasets; skipped where the optional h5py or zarr is missing."""

import numpy as np
import pytest
from _estimators import RBMS, binary_data, small
from numpy.testing import assert_allclose

h5py = pytest.importorskip("h5py", reason="h5py is optional, and reads these data")
zarr = pytest.importorskip("zarr", reason="zarr is optional, and reads these data")


def hdf5(X, folder, chunks):
    return h5py.File(folder / "rows.h5", "w").create_dataset("rows", data=X, chunks=chunks)


def zarr_array(X, folder, chunks):
    array = zarr.open(
        str(folder / "rows.zarr"), mode="w", shape=X.shape, dtype=X.dtype, chunks=chunks
    )
    array[:] = X
    return array


@pytest.mark.parametrize(
    "stored, chunks",
    [(hdf5, None), (hdf5, (16, 3)), (zarr_array, (16, 3))],
    ids=["hdf5", "hdf5-chunks", "zarr"],
)
@pytest.mark.parametrize("Estimator", RBMS)
def test_datasets_are_read_in_blocks(Estimator, stored, chunks, tmp_path, monkeypatch):
    X = binary_data().astype(np.uint8)
    data = stored(X, tmp_path, chunks)
    # None of these is called: the dataset is never read as a whole.
    monkeypatch.setattr(type(data), "__array__", None)
    rbm = small(Estimator, early_stopping=True).fit(data)
    assert_allclose(rbm.visible_means_, X.mean(axis=0), rtol=1e-6)
    for method in ("transform", "score_samples", "free_energy", "predict"):
        assert_allclose(getattr(rbm, method)(data), getattr(rbm, method)(X), rtol=1e-6)
    rbm.partial_fit(data)
