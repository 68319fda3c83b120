"""What user code prints in a slot, as lines with their task: stdout, stderr, `logging`.

A complete line is sent at once, so that it is not lost if the process dies. An incomplete line is kept per
task until it is completed or the task ends. What a task does to these streams (close, replace, detach) is
undone after its run.
"""

from __future__ import annotations

import codecs
import io
import logging
import sys
from collections.abc import Callable
from typing import Any

from pyoco_server import clock
from pyoco_server.engine.tasks.current_attempt import CURRENT, CurrentAttempt
from pyoco_server.printable import LINE_CHARS_MAX, as_line

# at, stream, attempt, lines, level
OnLines = Callable[[float, str, CurrentAttempt | None, list[str], str | None], None]


class LineStream(io.TextIOBase):
    """Replaces sys.stdout or sys.stderr."""

    def __init__(self, stream: str, descriptor: int, on_lines: OnLines) -> None:
        self._stream = stream
        self._descriptor = descriptor
        self._on_lines = on_lines
        self._partial: dict[CurrentAttempt | None, str] = {}
        self.buffer = _Bytes(self)

    def write(self, text: str) -> int:
        # `print("a", 1)` calls this with "a", " ", "1" and "\n": each call must be cheap.
        attempt = CURRENT.get()
        partial = self._partial.get(attempt, "")
        end = text.find("\n")
        if end < 0:
            if len(partial) <= LINE_CHARS_MAX:  # the rest of a longer line is dropped
                self._partial[attempt] = partial + text
            return len(text)
        if end == len(text) - 1:
            lines, rest = [as_line(partial + text[:-1])], ""
        else:
            *whole, rest = (partial + text).split("\n")
            lines = [as_line(line) for line in whole]
        if partial or rest:
            self._partial[attempt] = rest
        self._on_lines(clock.now(), self._stream, attempt, lines, None)
        return len(text)

    def end_lines_of(self, run_id: str, task: str | None = None) -> None:
        """The task (None: the run) has ended: its incomplete line is complete now."""
        for attempt in tuple(self._partial):
            if attempt is not None and attempt.run_id == run_id and task in (None, attempt.task):
                self._end_line(attempt)

    def end_line_outside_tasks(self) -> None:
        if None in self._partial:
            self._end_line(None)

    def _end_line(self, attempt: CurrentAttempt | None) -> None:
        rest = self._partial.pop(attempt)
        if rest:
            self._on_lines(clock.now(), self._stream, attempt, [as_line(rest)], None)

    def close(self) -> None:
        """Does nothing: the next task prints to the same stream."""

    def flush(self) -> None:
        """Does nothing: complete lines were sent already."""

    def fileno(self) -> int:
        return self._descriptor

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return False

    def reconfigure(self, **_: object) -> None:
        """Does nothing: there is nothing to configure."""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8"

    @property
    def errors(self) -> str:  # type: ignore[override]
        return "backslashreplace"


class _Bytes(io.RawIOBase):
    """`sys.stdout.buffer`: decodes bytes as UTF-8; other bytes are escaped."""

    def __init__(self, stream: LineStream) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")

    def write(self, data: Any) -> int:
        raw = bytes(data)
        self._stream.write(self._decoder.decode(raw))
        return len(raw)

    def close(self) -> None:
        """Does nothing, like `close` of the stream."""

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._stream.fileno()


class LogLines(logging.Handler):
    """Handler of the root logger: what user code logs, with its level, as `logger: message`."""

    def __init__(self, on_lines: OnLines) -> None:
        super().__init__()
        self._on_lines = on_lines
        self.setFormatter(logging.Formatter("%(name)s: %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        try:
            lines = split_lines(self.format(record))
            self._on_lines(record.created, "logging", CURRENT.get(), lines, record.levelname)
        except Exception:  # user code: formatting a record calls __str__; `logging` requires handleError
            self.handleError(record)


def capture_output(on_lines: OnLines) -> tuple[LineStream, LineStream]:
    """From now on everything printed in this process is passed to `on_lines`."""
    streams = LineStream("stdout", 1, on_lines), LineStream("stderr", 2, on_lines)
    logging.getLogger().addHandler(LogLines(on_lines))
    logging.getLogger().setLevel(logging.INFO)
    restore_streams(streams)
    return streams


def restore_streams(streams: tuple[LineStream, LineStream]) -> None:
    """A run may have replaced them; the next run needs them."""
    if sys.stdout is not streams[0] or sys.stderr is not streams[1]:
        sys.stdout, sys.stderr = streams


def split_lines(text: str) -> list[str]:
    return [as_line(line) for line in text.split("\n")]


class LineBuffer:
    """Splits bytes into lines; keeps the incomplete line, up to a limit."""

    def __init__(self) -> None:
        self._partial = b""

    def add(self, data: bytes) -> list[str]:
        """The lines that are complete now."""
        *whole, rest = (self._partial + data).split(b"\n")
        self._partial = rest[: 4 * LINE_CHARS_MAX]
        return [_decode(line) for line in whole]

    def take_rest(self) -> list[str]:
        """The incomplete line, if there is one."""
        rest, self._partial = self._partial, b""
        return [_decode(rest)] if rest else []


def _decode(line: bytes) -> str:
    return as_line(line.decode("utf-8", "backslashreplace"))
