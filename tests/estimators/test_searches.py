"""Many small machines at once: searches in threads and in processes, and on arrays of torch."""

import joblib
import pytest
from _estimators import binary_data
from numpy.testing import assert_array_equal
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from skrbm import RBM

GRID = {"rbm__n_components": [3, 6], "rbm__batch_size": [10, 20]}


def searched(backend, n_jobs):
    pipeline = make_pipeline(MinMaxScaler(), RBM(n_iter=2, random_state=0))
    with joblib.parallel_config(backend=backend):
        search = GridSearchCV(pipeline, GRID, cv=2, n_jobs=n_jobs, error_score="raise")
        return search.fit(binary_data())


@pytest.fixture(scope="module")
def one_by_one():
    return searched("sequential", 1)


@pytest.mark.arrays
@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_searches_do_not_depend_on_the_number_of_jobs(one_by_one, backend):
    found = searched(backend, 2)
    for name in ("mean_test_score", "std_test_score"):
        assert_array_equal(found.cv_results_[name], one_by_one.cv_results_[name])
    ours, theirs = (search.best_estimator_[-1].components_ for search in (found, one_by_one))
    assert_array_equal(ours, theirs)
