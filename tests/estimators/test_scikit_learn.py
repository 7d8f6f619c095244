"""scikit-learn's own checks of every estimator, with its defaults and with other units."""

import warnings

import pytest
import sklearn.utils.estimator_checks as checks
from _estimators import ESTIMATORS, default
from sklearn.utils.estimator_checks import parametrize_with_checks

from skrbm import TAPRBM
from skrbm.exceptions import DataRangeWarning

# Those that scikit-learn runs on its own estimators only, by the names of different versions.
EXTRA_CHECKS = [
    name
    for name in (
        "check_dataframe_column_names_consistency",
        "check_get_feature_names_out_error",
        "check_global_output_transform_pandas",
        "check_global_set_output_transform_polars",
        "check_n_features_in_after_fitting",
        "check_set_output_transform",
        "check_set_output_transform_pandas",
        "check_set_output_transform_polars",
        "check_transformer_get_feature_names_out",
        "check_transformer_get_feature_names_out_pandas",
    )
    if hasattr(checks, name)
]


def test_every_public_estimator_is_found():
    names = {"BernoulliRBM", "TAPRBM", "DeepTAPMachine", "ConditionalRBM", "FrankWolfeRBM"}
    assert names | {"GaussianBernoulliRBM"} <= {E.__name__ for E in ESTIMATORS}
    assert len(EXTRA_CHECKS) >= 9


# The checks' data lie outside [0, 1], and change their feature names on purpose.
@pytest.mark.filterwarnings("ignore::UserWarning")
@parametrize_with_checks([default(Estimator) for Estimator in ESTIMATORS])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.checks
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("check", EXTRA_CHECKS)
@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_extra_scikit_learn_checks(Estimator, check):
    getattr(checks, check)(Estimator.__name__, default(Estimator))


REAL = {"visible": "truncated_gaussian", "hidden": "truncated_gauss_bernoulli"}


@pytest.mark.checks
@parametrize_with_checks([TAPRBM(**REAL, n_components=4, n_iter=2, learning_rate=0.001)])
def test_scikit_learn_checks_of_real_units(estimator, check):
    """One pair for all: what scikit-learn checks does not depend on the kind of unit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataRangeWarning)
        check(estimator)
