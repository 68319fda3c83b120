"""The exception of a task that stopped because of a cancel."""


class Cancelled(BaseException):
    """Raised by `ctx.raise_if_cancelled()`; tasks may raise it themselves.

    No `Exception`, so that an `except Exception` around one piece of work does not take it for a failure.
    """
