"""The form of a log line: its fields, as one JSON object or as text for people.

Owns the names of the fields (REQ-0013). Further fields come from `extra=`, from the context of the task that
writes the line (`log_context`), and from its exception. Control characters are escaped. Text has tracebacks
of lines at ERROR and above only: a line below reports an expected event.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from types import TracebackType
from typing import Any

import structlog

from pyoco_server.errors import PyocoError
from pyoco_server.log_context import context_fields
from pyoco_server.printable import json_text, lines, one_line

# Fields of every line, which no `extra=` may replace.
FIXED_FIELDS = frozenset(
    {"ts", "service", "level", "logger", "message", "pathname", "lineno", "func", "process", "thread"}
)
EXCEPTION_FIELDS = frozenset({"exc_type", "exc_message", "exc_traceback", "exc_origin"})
# uvicorn repeats its message in colours.
_NOISE = frozenset({"_record", "_from_structlog", "exc_info", "color_message"})
_TRACEBACK_INDENT = "    "  # a line of a traceback never looks like a log line

EventDict = dict[str, Any]
ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None]


def formatter(service: str, fmt: str, *, utc: bool, include_traceback: bool) -> logging.Formatter:
    fields = _Fields(service, utc=utc, include_traceback=include_traceback)
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[
            _message_first,
            structlog.contextvars.merge_contextvars,
            structlog.stdlib.ExtraAdder(),
        ],
        processors=[fields, _json_line if fmt == "json" else _text_line],
    )


def exception_fields(error: BaseException, *, chain: bool = True) -> EventDict:
    """The fields of a line. `chain`: with the exceptions that caused this one."""
    fields: EventDict = {"exc_type": type(error).__name__, "exc_message": _safely(str, error)}
    trace = error.__traceback__
    fields["exc_traceback"] = "".join(traceback.format_exception(type(error), error, trace, chain=chain))
    frames = traceback.extract_tb(trace)
    if frames:
        origin = frames[-1]
        fields["exc_origin"] = {"file": origin.filename, "line": origin.lineno, "func": origin.name}
    return fields


def _ids_of(error: BaseException) -> EventDict:
    if not isinstance(error, PyocoError) or error.err_id is None:
        return {}
    return {"err_id": error.err_id, "msg_id": error.msg_id}


def _message_first(logger: Any, method: str, event: Any) -> Any:
    """Rename structlog's `event`, so that `extra={"event": …}` is an ordinary field."""
    event["message"] = event.pop("event")
    return event


class _Fields:
    """structlog processor: converts a log call to the fields of a line, in reading order."""

    def __init__(self, service: str, *, utc: bool, include_traceback: bool) -> None:
        self._service = service
        self._utc = utc
        self._include_traceback = include_traceback

    def __call__(self, logger: Any, method: str, event: Any) -> Any:
        record: logging.LogRecord = event["_record"]
        message_key = "event" if event["_from_structlog"] else "message"
        line = self._fixed(record, event.get(message_key))
        line.update(_context(dict(context_fields())))
        own = _context({key: value for key, value in event.items() if key != message_key})
        exc_info = _exc_info(event.get("exc_info"))
        if exc_info:
            line.update(exception_fields(exc_info[1]))
            if not own.get("err_id"):
                line.update(_ids_of(exc_info[1]))
        line.update(own)
        if not self._include_traceback:
            line.pop("exc_traceback", None)
        return line

    def _fixed(self, record: logging.LogRecord, message: Any) -> EventDict:
        return {
            "ts": self._instant(record.created),
            "service": self._service,
            "level": record.levelname,
            "logger": record.name,
            "message": message,
            "pathname": record.pathname,
            "lineno": record.lineno,
            "func": record.funcName,
            "process": record.process,
            "thread": record.threadName,
        }

    def _instant(self, created: float) -> str:
        if self._utc:
            return (
                datetime.fromtimestamp(created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
            )
        return datetime.fromtimestamp(created).astimezone().isoformat(timespec="milliseconds")


def _context(event: EventDict) -> EventDict:
    fields = {key: value for key, value in event.items() if key not in _NOISE}
    return {f"extra_{key}" if key in FIXED_FIELDS else key: value for key, value in fields.items()}


def _exc_info(given: Any) -> ExcInfo | None:
    """stdlib gives a triple, structlog also an exception or True."""
    if isinstance(given, BaseException):
        return type(given), given, given.__traceback__
    if given is True:
        given = sys.exc_info()
    return given if isinstance(given, tuple) and given[0] is not None else None


def _json_line(logger: Any, method: str, event: Any) -> str:
    try:
        line = json.dumps(event, ensure_ascii=False, separators=(",", ":"), default=_representation)
    except (TypeError, ValueError, RecursionError):  # keys of any type, a cycle, or too deep
        plain = {str(key): _plain(value) for key, value in event.items()}
        line = json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
    # JSON escapes C0 only: C1 characters control terminals too, and some readers break lines at U+2028.
    return json_text(line)


def _text_line(logger: Any, method: str, event: Any) -> str:
    hidden = FIXED_FIELDS | EXCEPTION_FIELDS
    context = " ".join(
        f"{one_line(str(key))}={one_line(_representation(value))}"
        for key, value in event.items()
        if key not in hidden
    )
    message = one_line(_representation(event["message"]))
    head = f"{event['ts']} {event['level']:<8} {one_line(event['logger'])}: {message}"
    place = f"({event['service']} {event['pathname']}:{event['lineno']} {event['func']})"
    what = _exception_text(event) if "exc_type" in event else ""
    if what and _is_error(event) and "exc_traceback" in event:
        trace = lines(_representation(event["exc_traceback"])).rstrip("\n").split("\n")
        return "\n".join(
            [" ".join(filter(None, (head, context, place))), *(_TRACEBACK_INDENT + one for one in trace)]
        )
    return " ".join(filter(None, (head, what, context, place)))


def _exception_text(event: EventDict) -> str:
    return one_line(f"{event['exc_type']}: {_representation(event.get('exc_message', ''))}")


def _is_error(event: EventDict) -> bool:
    return logging.getLevelNamesMapping().get(event["level"], logging.ERROR) >= logging.ERROR


def _plain(value: Any) -> Any:
    return value if isinstance(value, int | float | bool | None) else _representation(value)


def _representation(value: Any) -> str:
    return value if isinstance(value, str) else _safely(repr, value)


def _safely(write: Any, value: Any) -> str:
    try:
        return str(write(value))
    except (
        Exception
    ) as broken:  # a __repr__ or __str__ of user code may raise anything; logging must not fail
        return f"<{type(value).__name__} that cannot be shown: {type(broken).__name__}>"
