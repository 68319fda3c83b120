"""Why a run failed, with the reasons of dead letters. Imports little: a slot imports it too."""

from __future__ import annotations

from pyoco_server.engine.tasks.failure import Failure, describe

EXECUTION_ERROR = "execution_error"
FLOW_NOT_FOUND = "flow_not_found"
FLOW_CHANGED = "flow_changed"


class CodeMissing(Exception):
    """A workflow names code that this worker does not have; the message says what to install."""


class CodeRefused(Exception):
    """A workflow names code that it may not call here; the message says what to change."""


def why_unresolved(flow_name: str, error: BaseException) -> tuple[str, str]:
    """Reason and text for a resolver that returned no flow. KeyError: it has no flow with this name."""
    reason, text = _why(flow_name, error)
    return reason, with_reason(reason, text)


def with_reason(reason: str, text: str) -> str:
    """The `error` of a run that was never executed: programs read its prefix."""
    return f"{reason}: {text}"


def _why(flow_name: str, error: BaseException) -> tuple[str, str]:
    if isinstance(error, CodeMissing):
        return FLOW_NOT_FOUND, str(error)
    if isinstance(error, CodeRefused):
        return EXECUTION_ERROR, str(error)
    if isinstance(error, KeyError):
        return FLOW_NOT_FOUND, f"flow '{flow_name}' is not registered on this worker"
    return EXECUTION_ERROR, error_text(error)


def cause_of(failure: Failure | None) -> dict[str, object] | None:
    """The exception of a failure as fields of a log line; None without one."""
    if failure is None or not failure.kind:
        return None
    cause: dict[str, object] = {"exc_type": failure.kind, "exc_message": failure.error}
    cause["exc_traceback"] = failure.traceback
    if failure.origin is not None:
        cause["exc_origin"] = dict(zip(("file", "line", "func"), failure.origin, strict=True))
    return cause


def error_text(error: BaseException) -> str:
    """Of bounded size and always valid UTF-8, for any exception of user code."""
    return f"{type(error).__name__}: {describe(error).error}"
