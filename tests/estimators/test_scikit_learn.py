"""scikit-learn's checks of all estimators, with defaults and with other parameters."""

import warnings

import pytest
import sklearn.utils.estimator_checks as checks
from _estimators import ESTIMATORS, quick
from sklearn.utils.estimator_checks import parametrize_with_checks

from skrbm import (
    RBM,
    TAPRBM,
    ConditionalRBM,
    DeepTAPMachine,
    FrankWolfeRBM,
    GaussianBernoulliRBM,
    RBMImputer,
    RBMOutlierDetector,
)
from skrbm.exceptions import DataRangeWarning
from skrbm.inference import Gibbs, Langevin

# Checks that scikit-learn runs only on its own estimators, by their names in different versions.
EXTRA_CHECKS = [
    name
    for name in (
        "check_dataframe_column_names_consistency",
        "check_get_feature_names_out_error",
        "check_n_features_in_after_fitting",
        "check_set_output_transform",
        "check_transformer_get_feature_names_out",
        "check_transformer_get_feature_names_out_pandas",
    )
    if hasattr(checks, name)
]


# The data of the checks lie outside [0, 1], and change their feature names on purpose.
@pytest.mark.filterwarnings("ignore::UserWarning")
@parametrize_with_checks([quick(Estimator) for Estimator in ESTIMATORS])
def test_defaults(estimator, check):
    check(estimator)


@pytest.mark.checks
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_extra_checks(Estimator):
    of_transformers = hasattr(Estimator, "transform")
    for check in EXTRA_CHECKS:
        if of_transformers or "names_out" not in check:
            getattr(checks, check)(Estimator.__name__, quick(Estimator))


REAL = {"visible": "truncated_gaussian", "hidden": "truncated_gauss_bernoulli"}


@pytest.mark.checks
@parametrize_with_checks(
    [
        RBM(
            4, n_iter=2, visible="gaussian", early_stopping=True, inference=Gibbs(start="tempered")
        ),
        TAPRBM(4, n_iter=2, inference="relaxed_bp", optimizer="adam", learning_rate=1e-4, **REAL),
        quick(
            GaussianBernoulliRBM,
            inference=Langevin(start="persistent", n_steps=20, burn_in=0, adjust_after=None),
        ),
        quick(DeepTAPMachine, hidden="gaussian", learning_rate=1e-4, early_stopping=True),
        ConditionalRBM(4, n_iter=20, early_stopping=False, optimizer="adam"),
        quick(FrankWolfeRBM, step="1/t", alpha=0.1, early_stopping=False),
    ]
)
def test_other_parameters(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataRangeWarning)
        warnings.filterwarnings("ignore", message="all rows are equal")
        check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
@parametrize_with_checks([RBMImputer(), RBMOutlierDetector()])
def test_wrappers_with_their_default_machines(estimator, check):
    check(estimator)
