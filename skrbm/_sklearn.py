"""Private or recent parts of scikit-learn used by skrbm; no other file imports such names."""

from sklearn.base import _fit_context
from sklearn.utils import _safe_indexing
from sklearn.utils._param_validation import HasMethods as _HasMethods
from sklearn.utils._param_validation import Interval as _Interval
from sklearn.utils._param_validation import InvalidParameterError, Options
from sklearn.utils._param_validation import StrOptions as _StrOptions
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.stats import _weighted_percentile
from sklearn.utils.validation import _check_feature_names_in, _check_sample_weight, _num_samples


class Interval(_Interval):
    """An interval of numbers, none of which is True or False."""

    def is_satisfied_by(self, val):
        return not isinstance(val, bool) and super().is_satisfied_by(val)


class HasMethods(_HasMethods):
    """Objects with some methods, but not their classes."""

    def is_satisfied_by(self, val):
        return not isinstance(val, type) and super().is_satisfied_by(val)


class StrOptions(_StrOptions):
    """A set of strings, which errors list in order."""

    def __str__(self):
        return f"a str among {{{', '.join(map(repr, sorted(self.options)))}}}"


class InstanceOf(Options):
    """Objects of a class, which errors name without its module."""

    def __init__(self, cls):
        super().__init__(cls, set())

    def is_satisfied_by(self, val):
        return isinstance(val, self.type)

    def __str__(self):
        return f"an object of class {self.type.__name__}"


try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:
    import copy
    import inspect
    from functools import wraps

    class _Context:
        """A task of a fit: tells the callbacks of the estimator when it begins and ends."""

        def __init__(self, callbacks, task_name):
            self.task_name, self._callbacks = task_name, callbacks

        def subcontext(self, task_name="", **kwargs):
            return _Context(self._callbacks, task_name)

        def call_on_fit_task_begin(self, **data):
            self._call("on_fit_task_begin", **data)

        def call_on_fit_task_end(self, **data):
            return self._call("on_fit_task_end", **data)

        def _call(self, hook, *, estimator, reconstruction_attributes=None, **data):
            """Call a hook of each callback with the arguments it accepts; whether one says stop."""
            hooks, stop = [getattr(callback, hook) for callback in self._callbacks], False
            for hook in hooks:
                names = inspect.signature(hook).parameters
                arguments = {
                    name: data.get(name) for name in names if name in ("X", "y", "metadata")
                }
                if "fitted_estimator" in names and reconstruction_attributes is not None:
                    arguments["fitted_estimator"] = copy.copy(estimator)
                    vars(arguments["fitted_estimator"]).update(reconstruction_attributes())
                stop |= bool(hook(estimator, self, **arguments))
            return stop

    class CallbackSupportMixin:
        """Stands in for scikit-learn's mixin, for the callbacks of skrbm and of users."""

        def set_callbacks(self, *callbacks):
            """Set the callbacks of the next fits, none without arguments; returns self."""
            self._skl_callbacks = list(callbacks)
            return self

        def _init_callback_context(self, task_name="fit", **kwargs):
            context = _Context(vars(self).get("_skl_callbacks", []), task_name)
            for callback in context._callbacks:
                vars(self).setdefault("_skl_callbacks_to_teardown", []).append(callback)
                callback.setup(self, context)
            return context

    def with_callbacks(method):
        """Return ``method`` with ``teardown`` of its callbacks after it, however it ends."""

        @wraps(method)
        def managed(self, *args, **kwargs):
            try:
                return method(self, *args, **kwargs)
            finally:
                for callback in vars(self).pop("_skl_callbacks_to_teardown", []):
                    callback.teardown(self, None)

        return managed


def is_of_scikit_learn(name):
    """Whether an attribute of an estimator holds its callbacks or its requests of metadata."""
    return "_callback" in name or name == "_metadata_request"


DOC_LINK = "skrbm", "https://skrbm.readthedocs.io/en/stable/generated/skrbm.{estimator_name}.html"
"""``_doc_link_module`` and ``_doc_link_template`` of estimators, for their HTML representation."""

__all__ = [
    "DOC_LINK",
    "CallbackSupportMixin",
    "HasMethods",
    "InstanceOf",
    "Interval",
    "InvalidParameterError",
    "StrOptions",
    "_check_feature_names_in",
    "_check_sample_weight",
    "_fit_context",
    "_get_output_config",
    "_num_samples",
    "_safe_indexing",
    "_weighted_percentile",
    "is_of_scikit_learn",
    "with_callbacks",
]
