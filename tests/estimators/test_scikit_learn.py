"""scikit-learn's own checks of every estimator, with its defaults and with other units."""

import warnings

import pytest
import sklearn.utils.estimator_checks as checks
from _estimators import COMPOSED, ESTIMATORS, default, quick
from sklearn.utils.estimator_checks import parametrize_with_checks

from skrbm import RBM, TAPRBM, ConditionalRBM, DeepTAPMachine, GaussianBernoulliRBM
from skrbm._sklearn import CallbackSupportMixin
from skrbm.exceptions import DataRangeWarning
from skrbm.learning import SGD

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


@pytest.mark.parametrize("Estimator", [*ESTIMATORS, *COMPOSED])
def test_few_classes_of_skrbm_are_above_an_estimator(Estimator):
    """The mixin for callbacks is ours only where scikit-learn has none yet."""
    above = [cls for cls in Estimator.__mro__[1:] if cls is not CallbackSupportMixin]
    assert len([cls for cls in above if cls.__module__.startswith("skrbm.")]) <= 3


# The checks' data lie outside [0, 1], and change their feature names on purpose.
@pytest.mark.filterwarnings("ignore::UserWarning")
@parametrize_with_checks([quick(Estimator) for Estimator in [*ESTIMATORS, *COMPOSED]])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.checks
@pytest.mark.filterwarnings("ignore::UserWarning")
@parametrize_with_checks([default(Estimator) for Estimator in [*ESTIMATORS, *COMPOSED]])
def test_scikit_learn_checks_of_defaults(estimator, check):
    check(estimator)


@pytest.mark.checks
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("check", EXTRA_CHECKS)
@pytest.mark.parametrize("Estimator", [*ESTIMATORS, *COMPOSED])
def test_extra_scikit_learn_checks(Estimator, check):
    getattr(checks, check)(Estimator.__name__, default(Estimator))


REAL = {"visible": "truncated_gaussian", "hidden": "truncated_gauss_bernoulli"}
# Units, inference, starts and optimisers of the general machine, each at least once.
COMBINATIONS = [
    {"hidden": "gaussian", "starts": "data"},
    {"hidden": "truncated_gaussian", "starts": "noise", "optimizer": "adam"},
    {"hidden": "truncated_gauss_bernoulli", "starts": "annealed", "n_steps": 2},
    {"visible": "gaussian"},
    {"visible": "truncated_gauss_bernoulli", "optimizer": "adam"},
    {"visible": "gaussian", "inference": "langevin", "n_steps": 3, "burn_in": 1},
    {"visible": "gaussian", "inference": "gibbs_langevin", "starts": "noise", "n_steps": 2},
    {"inference": "tap", "momentum": 0.5},
    {"inference": "tap3", "starts": "persistent", "optimizer": SGD(alpha=0.01, penalty="l1")},
    {"inference": "adaptive_tap", "starts": "random", "optimizer": "adam"},
    {"inference": "naive_mean_field", "starts": "chains", "visible": "truncated_gaussian"},
    {"inference": "relaxed_bp", **REAL},
    {"inference": "bp", "starts": "persistent", "max_grad_norm": 1.0},
]
# The data of some checks are one row, over and over, once they are clipped.
STOPPED_EARLY = [
    RBM(n_components=4, n_iter=2, early_stopping=True),
    RBM(n_components=4, n_iter=2, early_stopping=True),
    DeepTAPMachine((4, 3), n_iter=2, n_iter_pretrain=1, early_stopping=True),
    ConditionalRBM(4, n_iter=20, early_stopping=True),
]


@pytest.mark.checks
@parametrize_with_checks(
    [
        TAPRBM(**REAL, n_components=4, n_iter=2, learning_rate=0.001),
        *(RBM(4, n_iter=2, learning_rate=1e-4, **params) for params in COMBINATIONS),
        *STOPPED_EARLY,
        *(E(n_components=4, n_iter=2, starts="tempered") for E in (TAPRBM, GaussianBernoulliRBM)),
        DeepTAPMachine((4, 3), n_iter=2, n_iter_pretrain=1, learning_rate="auto"),
        ConditionalRBM(4, n_iter=20, early_stopping=False),
    ]
)
def test_scikit_learn_checks_of_other_parameters(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataRangeWarning)
        warnings.filterwarnings("ignore", message="all rows are equal")
        check(estimator)
