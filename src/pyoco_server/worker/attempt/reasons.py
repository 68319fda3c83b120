"""Why a run failed, in the words of the dead letters. Light: a slot imports it too."""

from __future__ import annotations

from typing import Any

from pyoco_server.engine.tasks.failure import Failure, describe

EXECUTION_ERROR = "execution_error"
FLOW_NOT_FOUND = "flow_not_found"
FLOW_CHANGED = "flow_changed"


class CodeMissing(Exception):
    """A workflow names code that this worker does not have; the message says what to install."""


class CodeRefused(Exception):
    """A workflow names code that it may not call here; the message says what to change."""


def why_unresolved(flow_name: str, error: BaseException) -> tuple[str, str]:
    """Reason and text for a resolver that gave no flow: KeyError means that it does not know the name."""
    reason, text = _why(flow_name, error)
    return reason, with_reason(reason, text)


def with_reason(reason: str, text: str) -> str:
    """The `error` of a run that was never executed: programs look at how it begins."""
    return f"{reason}: {text}"


def _why(flow_name: str, error: BaseException) -> tuple[str, str]:
    if isinstance(error, CodeMissing):
        return FLOW_NOT_FOUND, str(error)
    if isinstance(error, CodeRefused):
        return EXECUTION_ERROR, str(error)
    if isinstance(error, KeyError):
        return FLOW_NOT_FOUND, f"this worker knows no flow '{flow_name}'"
    return EXECUTION_ERROR, said(error)


def cause_of(failure: Failure | None) -> dict[str, Any] | None:
    """The exception behind a failure, as a log line names it; None where there was none."""
    if failure is None or not failure.kind:
        return None
    cause: dict[str, Any] = {"exc_type": failure.kind, "exc_message": failure.error}
    cause["exc_traceback"] = failure.traceback
    if failure.origin is not None:
        cause["exc_origin"] = dict(zip(("file", "line", "func"), failure.origin, strict=True))
    return cause


def said(error: BaseException) -> str:
    """Of bounded size and always writable, whatever user code raised."""
    return f"{type(error).__name__}: {describe(error).error}"
