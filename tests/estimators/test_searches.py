"""Many small machines at once: searches in threads and in processes, and on arrays of torch."""

import os
import subprocess
import sys

import joblib
import numpy as np
import pytest
from _estimators import binary_data
from numpy.testing import assert_allclose, assert_array_equal
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


DISPATCH = """
import numpy as np, sklearn, torch
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
import skrbm
X = torch.asarray(np.random.default_rng(0).random((60, 5)) < 0.4, dtype=torch.float64)
y = torch.arange(60) % 2
names = [n for n in skrbm.__all__ if n[0].isupper()]
small = {"n_iter": 2, "random_state": 0}
with sklearn.config_context(array_api_dispatch=True):
    for name in names:
        E = getattr(skrbm, name)
        known = E().get_params()
        sizes = {"DeepTAPMachine": {"n_components": (4, 3), "n_iter_pretrain": 1},
                 "FrankWolfeRBM": {"max_components": 1, "n_restarts": 1, "n_chains": 50,
                                   "early_stopping": False}}.get(name, {"n_components": 4})
        E = E(**{k: v for k, v in (small | sizes).items() if k in known})
        if sklearn.utils.get_tags(E).input_tags.categorical:
            continue  # of tables, whose machines are in single precision
        given = [y] if sklearn.base.is_classifier(E) else []
        hidden = E.fit(X, *given).transform(X)
        assert type(hidden) is torch.Tensor and hidden.dtype == torch.float64, name
    scaled = make_pipeline(StandardScaler(), skrbm.RBM(4, visible="gaussian", **small))
    assert type(scaled.fit_transform(X)) is torch.Tensor
    search = GridSearchCV(skrbm.RBM(**small), {"n_components": [2, 4]}, cv=2, error_score="raise")
    print(*search.fit(X).cv_results_["mean_test_score"])
"""


@pytest.mark.arrays
def test_scikit_learn_passes_tensors_on():
    """In a process of its own: SciPy reads the variable when it is imported."""
    pytest.importorskip("torch")
    pytest.importorskip("array_api_compat")
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", DISPATCH],
        env={**os.environ, "SCIPY_ARRAY_API": "1"},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    scores = [float(word) for word in run.stdout.split()]
    X = (np.random.default_rng(0).random((60, 5)) < 0.4).astype(float)
    ours = GridSearchCV(RBM(n_iter=2, random_state=0), {"n_components": [2, 4]}, cv=2).fit(X)
    assert_allclose(scores, ours.cv_results_["mean_test_score"], atol=0.3)
