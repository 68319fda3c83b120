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
from collections.abc import Callable
from datetime import UTC, datetime
from types import TracebackType

from pyoco_server.errors import PyocoError
from pyoco_server.log_context import context_fields
from pyoco_server.printable import json_text, lines, one_line

# Fields of every line, which no `extra=` may replace.
FIXED_FIELDS = frozenset(
    {"ts", "service", "level", "logger", "message", "pathname", "lineno", "func", "process", "thread"}
)
EXCEPTION_FIELDS = frozenset({"exc_type", "exc_message", "exc_traceback", "exc_origin"})
# uvicorn repeats its message in colours.
_NOISE = frozenset({"exc_info", "color_message"})
# Members of a record that were not given as `extra=`.
_RECORD_MEMBERS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}
_TRACEBACK_INDENT = "    "  # a line of a traceback never looks like a log line

EventDict = dict[str, object]
ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None]


def formatter(service: str, fmt: str, *, utc: bool, include_traceback: bool) -> logging.Formatter:
    fields = _Fields(service, utc=utc, include_traceback=include_traceback)
    return _LineFormatter(fields, _json_line if fmt == "json" else _text_line)


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


class _LineFormatter(logging.Formatter):
    """For records of `logging`, and for those of structlog, whose message is a dictionary.

    structlog is not imported here: that takes longer than half of our settings, and most programs do without.
    """

    def __init__(self, fields: _Fields, render: Callable[[EventDict], str]) -> None:
        super().__init__()
        self._fields = fields
        self._render = render

    def format(self, record: logging.LogRecord) -> str:
        return self._render(self._fields.of(record, _event_of(record)))


def _event_of(record: logging.LogRecord) -> EventDict:
    if _is_of_structlog(record):
        return dict(record.msg)  # type: ignore[arg-type]
    extra = {name: value for name, value in vars(record).items() if name not in _RECORD_MEMBERS}
    trace = {"exc_info": record.exc_info, "stack_info": record.stack_info}
    given = {name: value for name, value in trace.items() if value}
    return _bound_by_structlog() | {"message": record.getMessage()} | given | extra


def _is_of_structlog(record: logging.LogRecord) -> bool:
    return isinstance(record.msg, dict) and hasattr(record, "_logger") and hasattr(record, "_name")


def _bound_by_structlog() -> EventDict:
    """What the program has bound with structlog's context variables, if it uses them."""
    contextvars = sys.modules.get("structlog.contextvars")
    return dict(contextvars.get_contextvars()) if contextvars is not None else {}


class _Fields:
    """Converts a log call to the fields of a line, in reading order."""

    def __init__(self, service: str, *, utc: bool, include_traceback: bool) -> None:
        self._service = service
        self._utc = utc
        self._include_traceback = include_traceback

    def of(self, record: logging.LogRecord, event: EventDict) -> EventDict:
        message_key = "event" if _is_of_structlog(record) else "message"
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

    def _fixed(self, record: logging.LogRecord, message: object) -> EventDict:
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


def _exc_info(given: object) -> ExcInfo | None:
    """stdlib gives a triple, structlog also an exception or True."""
    if isinstance(given, BaseException):
        return type(given), given, given.__traceback__
    if given is True:
        given = sys.exc_info()
    return given if isinstance(given, tuple) and given[0] is not None else None


def _json_line(event: EventDict) -> str:
    try:
        line = json.dumps(event, ensure_ascii=False, separators=(",", ":"), default=_representation)
    except (TypeError, ValueError, RecursionError):  # keys of any type, a cycle, or too deep
        plain = {str(key): _plain(value) for key, value in event.items()}
        line = json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
    # JSON escapes C0 only: C1 characters control terminals too, and some readers break lines at U+2028.
    return json_text(line)


def _text_line(event: EventDict) -> str:
    hidden = FIXED_FIELDS | EXCEPTION_FIELDS
    context = " ".join(
        f"{one_line(str(key))}={one_line(_representation(value))}"
        for key, value in event.items()
        if key not in hidden
    )
    message = one_line(_representation(event["message"]))
    head = f"{event['ts']} {event['level']:<8} {one_line(str(event['logger']))}: {message}"
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
    return logging.getLevelNamesMapping().get(str(event["level"]), logging.ERROR) >= logging.ERROR


def _plain(value: object) -> object:
    return value if isinstance(value, int | float | bool | None) else _representation(value)


def _representation(value: object) -> str:
    return value if isinstance(value, str) else _safely(repr, value)


def _safely(write: Callable[[object], object], value: object) -> str:
    try:
        return str(write(value))
    except Exception as broken:  # user code: __repr__ and __str__ may raise anything; logging must not fail
        return f"<{type(value).__name__} that cannot be shown: {type(broken).__name__}>"
