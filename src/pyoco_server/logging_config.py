"""The log of a program: to stdout, one line per record, for our loggers and all others.

`configure_logging` is for programs, not for libraries: it takes over the root logger. `configure_if_unset`
does nothing in a program with its own handlers. `log_lines` formats lines. A wrong setting or a closed stdout
is reported on stderr (ERR-PYOCO-0013) and never stops the program.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TextIO, TypeVar

from pyoco_server.config import (
    LOG_SETTINGS,
    NatsBackendConfig,
    default_of,
    read_environment,
    wrong_log_settings,
)
from pyoco_server.errors import ConfigError
from pyoco_server.log_lines import formatter
from pyoco_server.texts import text

T = TypeVar("T")

HTTP_SERVICE = "pyoco-server:http"
WORKER_SERVICE = "pyoco-server:worker"
ADMIN_SERVICE = "pyoco-server:admin"

CANNOT_LOG_ERR_ID = "ERR-PYOCO-0013"
CANNOT_LOG_MSG_ID = "MSG-PYOCO-0013"

# uvicorn's own loggers; its default configuration gives them handlers of their own.
_UVICORN_LOGGERS = ("uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi")


def configure_logging(
    service: str = HTTP_SERVICE,
    *,
    level: str | int | None = None,
    fmt: str | None = None,
    utc: bool | None = None,
    include_traceback: bool | None = None,
    stream: TextIO | None = None,
    with_structlog: bool = True,
) -> None:
    """Write the log of this program to stdout (or `stream`). A second call replaces the first.

    `with_structlog`: also the lines of structlog, which is imported for it.
    """
    asked = {
        "log_level": logging.getLevelName(level) if isinstance(level, int) else level,
        "log_format": fmt,
        "log_utc": utc,
        "log_include_traceback": include_traceback,
    }
    given = {name: value for name, value in asked.items() if value is not None}
    _configure(service, _settings(service, given), stream)
    if with_structlog:
        _route_structlog()


def configure_if_unset(service: str, settings: NatsBackendConfig) -> bool:
    """The same with `settings`, unless the root logger has a handler of the program."""
    if logging.getLogger().handlers:
        return False
    _configure(service, settings, None)
    _route_structlog()
    for name in _UVICORN_LOGGERS:
        _remove_default_handlers(logging.getLogger(name))
    return True


def report_wrong_settings(service: str, settings: Mapping[str, T]) -> dict[str, T]:
    """The valid settings among these: a wrong log setting is reported, and its default is used."""
    wrong = wrong_log_settings(settings)
    for name, sentence in wrong.items():
        _report_on_stderr(service, f"{sentence} Until then it is {default_of(name)}.")
    return {name: value for name, value in settings.items() if name not in wrong}


def _configure(service: str, settings: NatsBackendConfig, stream: TextIO | None) -> None:
    handler = _StdoutHandler(service, stream)
    handler.setFormatter(
        formatter(
            service,
            settings.log_format,
            utc=settings.log_utc,
            include_traceback=settings.log_include_traceback,
        )
    )
    _take_over_root(handler, settings.log_level)


def _settings(service: str, asked: Mapping[str, object]) -> NatsBackendConfig:
    """Each log setting separately, so that one wrong value does not affect the others."""
    wanted = {**_environment(service), **asked}
    named = {name: wanted[name] for name in LOG_SETTINGS if name in wanted}
    return NatsBackendConfig.from_settings(report_wrong_settings(service, named))


def _environment(service: str) -> Mapping[str, object]:
    try:
        return read_environment()
    except ConfigError as wrong:
        _report_on_stderr(service, wrong.message)
        return {}


def _take_over_root(handler: logging.Handler, level: str) -> None:
    root = logging.getLogger()
    for old in [known for known in root.handlers if isinstance(known, _StdoutHandler)]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level)


def _remove_default_handlers(logger: logging.Logger) -> None:
    """Only the handlers of uvicorn's default configuration: their lines are not JSON."""
    for handler in list(logger.handlers):
        if type(handler.formatter).__module__ == "uvicorn.logging":
            logger.removeHandler(handler)
            logger.propagate = True


def _route_structlog() -> None:
    """Lines of structlog go to the same stdlib handler."""
    import structlog

    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.stdlib.filter_by_level,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
    )


class _StdoutHandler(logging.StreamHandler[TextIO]):
    """Writes to the current stdout. A failure is reported once on stderr."""

    def __init__(self, service: str, stream: TextIO | None) -> None:
        logging.Handler.__init__(self)
        self._service = service
        self._given = stream
        self._reported = False

    @property
    def stream(self) -> TextIO:
        return sys.stdout if self._given is None else self._given

    @stream.setter
    def stream(self, stream: TextIO) -> None:
        self._given = stream

    def format(self, record: logging.LogRecord) -> str:
        """Characters that stdout's encoding lacks are escaped as in JSON, so that no line is lost."""
        line = super().format(record)
        try:
            line.encode(getattr(self.stream, "encoding", None) or "utf-8")
        except UnicodeEncodeError:
            return re.sub(r"[^\x00-\x7f]", lambda letter: json.dumps(letter[0])[1:-1], line)
        return line

    def handleError(self, record: logging.LogRecord) -> None:
        if not self._reported:
            self._reported = True
            problem = sys.exc_info()[1]
            _report_on_stderr(
                self._service, f"The log cannot be written ({problem!r}); check where stdout leads."
            )


def _report_on_stderr(service: str, problem: str) -> None:
    now = datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="milliseconds")
    line = {
        "ts": now.replace("+00:00", "Z"),
        "service": service,
        "level": "ERROR",
        "logger": __name__,
        "message": text(CANNOT_LOG_MSG_ID, "en"),
        "err_id": CANNOT_LOG_ERR_ID,
        "msg_id": CANNOT_LOG_MSG_ID,
        "reason": problem,
    }
    try:
        sys.stderr.write(json.dumps(line) + "\n")
        sys.stderr.flush()
    except (AttributeError, OSError, ValueError):
        return  # stderr is closed too
