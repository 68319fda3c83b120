"""What user code prints in a slot, as lines that know their task: stdout, stderr, `logging`.

A line leaves the process the moment it is complete, so that it is not lost with a process that dies. Not
complete ones wait per task until their end comes, or the task's. Nothing a task does to these streams
(closing, replacing, detaching them) outlives its run.
"""

from __future__ import annotations

import codecs
import io
import logging
import sys
from collections.abc import Callable, Iterable
from typing import Any

from pyoco_server import clock
from pyoco_server.engine.tasks.current_attempt import CURRENT, CurrentAttempt

LINE_BYTES_MAX = 8 * 1024
LINE_CHARS_MAX = LINE_BYTES_MAX  # a character is a byte at least
CUT_MARK = " … cut"

# at, stream, where, lines, level
Tell = Callable[[float, str, CurrentAttempt | None, list[str], str | None], None]


class LineStream(io.TextIOBase):
    """Stands for sys.stdout or sys.stderr."""

    def __init__(self, stream: str, descriptor: int, tell: Tell) -> None:
        self._stream = stream
        self._descriptor = descriptor
        self._tell = tell
        self._begun: dict[CurrentAttempt | None, str] = {}
        self.buffer = _Bytes(self)

    def write(self, text: str) -> int:
        # `print("a", 1)` comes as "a", " ", "1", "\n": each must cost next to nothing.
        where = CURRENT.get()
        begun = self._begun.get(where, "")
        end = text.find("\n")
        if end < 0:
            if len(begun) <= LINE_CHARS_MAX:  # of a longer one nothing more is shown
                self._begun[where] = begun + text
            return len(text)
        if end == len(text) - 1:
            lines, rest = [as_line(begun + text[:-1])], ""
        else:
            *whole, rest = (begun + text).split("\n")
            lines = [as_line(line) for line in whole]
        if begun or rest:
            self._begun[where] = rest
        self._tell(clock.now(), self._stream, where, lines, None)
        return len(text)

    def end_lines_of(self, task: str | None = None, run_id: str | None = None) -> None:
        """The task has ended (None: the run has), and with it what it has not ended itself."""
        for where in [w for w in tuple(self._begun) if _is_of(w, task, run_id)]:
            rest = self._begun.pop(where)
            if rest:
                self._tell(clock.now(), self._stream, where, [as_line(rest)], None)

    def close(self) -> None:
        """Does nothing: the next task prints to the same stream."""

    def flush(self) -> None:
        """Whole lines are out already."""

    def fileno(self) -> int:
        return self._descriptor

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return False

    def reconfigure(self, **_: Any) -> None:
        """There is nothing to set."""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8"

    @property
    def errors(self) -> str:  # type: ignore[override]
        return "backslashreplace"


def _is_of(where: CurrentAttempt | None, task: str | None, run_id: str | None) -> bool:
    if where is None:
        return task is None and run_id is None
    return task in (None, where.task) and run_id in (None, where.run_id)


class _Bytes(io.RawIOBase):
    """`sys.stdout.buffer`: bytes become text as far as they can."""

    def __init__(self, stream: LineStream) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")

    def write(self, data: Any) -> int:
        raw = bytes(data)
        self._stream.write(self._decoder.decode(raw))
        return len(raw)

    def close(self) -> None:
        """As with the stream itself."""

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._stream.fileno()


class LogLines(logging.Handler):
    """The root logger's: what user code logs, with its level, as `logger: message`."""

    def __init__(self, tell: Tell) -> None:
        super().__init__()
        self._tell = tell
        self.setFormatter(logging.Formatter("%(name)s: %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        try:
            lines = split_lines(self.format(record))
            self._tell(record.created, "logging", CURRENT.get(), lines, record.levelname)
        except Exception:  # user code: formatting a record calls __str__; logging asks for this handling
            self.handleError(record)


def take_over(tell: Tell) -> tuple[LineStream, LineStream]:
    """From now on everything printed in this process is passed to `tell`."""
    streams = LineStream("stdout", 1, tell), LineStream("stderr", 2, tell)
    logging.getLogger().addHandler(LogLines(tell))
    logging.getLogger().setLevel(logging.INFO)
    restore(streams)
    return streams


def restore(streams: tuple[LineStream, LineStream]) -> None:
    """A run that has replaced them must not leave the next one without."""
    if sys.stdout is not streams[0] or sys.stderr is not streams[1]:
        sys.stdout, sys.stderr = streams


def split_lines(text: str) -> list[str]:
    return [as_line(line) for line in text.split("\n")]


def as_line(text: str) -> str:
    """What a terminal would show in the end: a progress bar writes over itself. And what can be stored."""
    if "\r" in text:
        text = text.rstrip("\r").rpartition("\r")[2]
    if text.isascii():
        return text if len(text) <= LINE_CHARS_MAX else text[:LINE_CHARS_MAX] + CUT_MARK
    encoded = text[: LINE_CHARS_MAX + 1].encode("utf-8", "backslashreplace")
    if len(encoded) <= LINE_BYTES_MAX:
        return encoded.decode()
    return encoded[:LINE_BYTES_MAX].decode("utf-8", "ignore") + CUT_MARK


def decoded_lines(chunks: Iterable[bytes]) -> list[str]:
    return [as_line(chunk.decode("utf-8", "backslashreplace")) for chunk in chunks]
