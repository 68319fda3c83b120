"""One line per act on stdout: JSON for machines, text for people, the same for our loggers and others'.

`configure_logging` is for programs, not for libraries: it takes over the root logger. Owns the form of a
line. A wrong setting or a closed stdout is told on stderr (ERR-PYOCO-0013) and never stops the program.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, TextIO

import structlog

from pyoco_server.config import NatsBackendConfig, default_of, read_environment
from pyoco_server.errors import ConfigError
from pyoco_server.texts import text

CANNOT_LOG_ERR_ID = "ERR-PYOCO-0013"
CANNOT_LOG_MSG_ID = "MSG-PYOCO-0013"

# Fields of every line, which nobody's `extra=` may replace.
FIXED_FIELDS = frozenset(
    {"ts", "service", "level", "logger", "message", "pathname", "lineno", "func", "process", "thread"}
)
# uvicorn repeats its message in colours.
_NOISE = frozenset({"_record", "_from_structlog", "exc_info", "color_message"})

EventDict = dict[str, Any]
ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None]


def configure_logging(
    service: str = "pyoco-server:http",
    *,
    level: str | int | None = None,
    fmt: str | None = None,
    utc: bool | None = None,
    include_traceback: bool | None = None,
    stream: TextIO | None = None,
) -> None:
    """Write the log of this program to stdout (or `stream`). Calling it again replaces what it did before."""
    asked = {
        "log_level": logging.getLevelName(level) if isinstance(level, int) else level,
        "log_format": fmt,
        "log_utc": utc,
        "log_include_traceback": include_traceback,
    }
    settings = _settings({name: value for name, value in asked.items() if value is not None})
    fields = _Fields(service, utc=settings["log_utc"], include_traceback=settings["log_include_traceback"])
    handler = _StdoutHandler(stream)
    handler.setFormatter(_formatter(fields, settings["log_format"]))
    _take_over_root(handler, settings["log_level"])


def _settings(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Each log setting by itself, so that one wrong value does not cost the others."""
    wanted = {**_environment(), **asked}
    names = ("log_level", "log_format", "log_utc", "log_include_traceback")
    return {name: _checked(name, wanted[name]) if name in wanted else default_of(name) for name in names}


def _environment() -> dict[str, Any]:
    try:
        return read_environment()
    except ConfigError as wrong:
        _tell_stderr(wrong.message)
        return {}


def _checked(name: str, value: Any) -> Any:
    try:
        return getattr(NatsBackendConfig(**{name: value}), name)
    except ConfigError as wrong:
        _tell_stderr(f"{wrong.message} Until then it is {default_of(name)}.")
        return default_of(name)


def _take_over_root(handler: logging.Handler, level: str) -> None:
    root = logging.getLogger()
    for old in [known for known in root.handlers if isinstance(known, _StdoutHandler)]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level)
    _let_structlog_join()


def _let_structlog_join() -> None:
    """Whoever logs through structlog ends in the same stdlib handler."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.stdlib.filter_by_level,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
    )


def _formatter(fields: _Fields, fmt: str) -> logging.Formatter:
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[
            _message_first,
            structlog.contextvars.merge_contextvars,
            structlog.stdlib.ExtraAdder(),
        ],
        processors=[fields, _json_line if fmt == "json" else _text_line],
    )


def _message_first(logger: Any, method: str, event: Any) -> Any:
    """Out of the way of an `extra={"event": …}`, which is a field like any other."""
    event["message"] = event.pop("event")
    return event


class _Fields:
    """structlog processor: from whatever was logged to the fields of our line, in reading order."""

    def __init__(self, service: str, *, utc: bool, include_traceback: bool) -> None:
        self._service = service
        self._utc = utc
        self._include_traceback = include_traceback

    def __call__(self, logger: Any, method: str, event: Any) -> Any:
        record: logging.LogRecord = event["_record"]
        said = "event" if event["_from_structlog"] else "message"
        line = self._fixed(record, event.get(said))
        line.update(_context({key: value for key, value in event.items() if key != said}))
        exc_info = _exc_info(event.get("exc_info"))
        if exc_info:
            line.update(_exception(exc_info, include_traceback=self._include_traceback))
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


def _exception(exc_info: ExcInfo, *, include_traceback: bool) -> EventDict:
    kind, error, trace = exc_info
    fields: EventDict = {"exc_type": kind.__name__, "exc_message": _safely(str, error)}
    if include_traceback:
        fields["exc_traceback"] = "".join(traceback.format_exception(kind, error, trace))
    frames = traceback.extract_tb(trace)
    if frames:
        origin = frames[-1]
        fields["exc_origin"] = {"file": origin.filename, "line": origin.lineno, "func": origin.name}
    return fields


def _json_line(logger: Any, method: str, event: Any) -> str:
    try:
        return json.dumps(event, ensure_ascii=False, separators=(",", ":"), default=_representation)
    except (TypeError, ValueError, RecursionError):  # keys of any type, a circle, a depth without end
        plain = {str(key): _plain(value) for key, value in event.items()}
        return json.dumps(plain, ensure_ascii=False, separators=(",", ":"))


def _text_line(logger: Any, method: str, event: Any) -> str:
    hidden = FIXED_FIELDS | {"exc_type", "exc_message", "exc_traceback", "exc_origin"}
    context = " ".join(f"{key}={_representation(value)}" for key, value in event.items() if key not in hidden)
    head = f"{event['ts']} {event['level']:<8} {event['logger']}: {event['message']}"
    place = f"({event['service']} {event['pathname']}:{event['lineno']} {event['func']})"
    lines = [" ".join(part for part in (head, context, place) if part)]
    if "exc_type" in event:
        lines.append(event.get("exc_traceback") or f"{event['exc_type']}: {event['exc_message']}")
    return "\n".join(line.rstrip("\n") for line in lines)


def _plain(value: Any) -> Any:
    return value if isinstance(value, int | float | bool | None) else _representation(value)


def _representation(value: Any) -> str:
    return value if isinstance(value, str) else _safely(repr, value)


def _safely(write: Any, value: Any) -> str:
    try:
        return str(write(value))
    except Exception as broken:  # somebody else's __repr__ or __str__ may do anything, and we only log
        return f"<{type(value).__name__} that cannot be shown: {type(broken).__name__}>"


class _StdoutHandler(logging.StreamHandler[Any]):
    """Writes to what stdout is at that moment, and says so once on stderr when that fails."""

    def __init__(self, stream: TextIO | None) -> None:
        logging.Handler.__init__(self)
        self._given = stream
        self._told = False

    @property
    def stream(self) -> Any:
        return sys.stdout if self._given is None else self._given

    @stream.setter
    def stream(self, stream: TextIO) -> None:
        self._given = stream

    def format(self, record: logging.LogRecord) -> str:
        """What stdout's encoding cannot say is escaped as JSON does it; a line is never lost for a letter."""
        line = super().format(record)
        try:
            line.encode(getattr(self.stream, "encoding", None) or "utf-8")
        except UnicodeEncodeError:
            return re.sub(r"[^\x00-\x7f]", lambda letter: json.dumps(letter[0])[1:-1], line)
        return line

    def handleError(self, record: logging.LogRecord) -> None:
        if not self._told:
            self._told = True
            problem = sys.exc_info()[1]
            _tell_stderr(f"The log cannot be written ({problem!r}); check where stdout leads.")


def _tell_stderr(problem: str) -> None:
    line = {
        "level": "ERROR",
        "err_id": CANNOT_LOG_ERR_ID,
        "msg_id": CANNOT_LOG_MSG_ID,
        "message": text(CANNOT_LOG_MSG_ID, "en"),
        "reason": problem,
    }
    try:
        sys.stderr.write(json.dumps(line) + "\n")
        sys.stderr.flush()
    except (AttributeError, OSError, ValueError):
        return  # no stderr either: there is nobody left to tell
