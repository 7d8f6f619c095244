"""scikit-learn's callbacks where it has them (1.9 and later), and nothing elsewhere."""

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks

    HAS_CALLBACKS = True
except ImportError:
    HAS_CALLBACKS = False

    class _NoContext:
        """Stands in for a callback context: no callback is ever registered."""

        def subcontext(self, **kwargs):
            return self

        def call_on_fit_task_begin(self, **kwargs):
            return None

        def call_on_fit_task_end(self, **kwargs):
            return False

    class CallbackSupportMixin:
        """Stands in for scikit-learn's mixin."""

        def _init_callback_context(self, **kwargs):
            return _NoContext()

    def with_callbacks(method):
        """Return ``method`` as it is."""
        return method


__all__ = ["HAS_CALLBACKS", "CallbackSupportMixin", "with_callbacks"]
