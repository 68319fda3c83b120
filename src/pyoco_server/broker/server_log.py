"""Pass the log of the nats-server on to the log of this process. Keeps the last lines for error messages."""

import asyncio
import logging
import re
from collections import deque

LAST_LINES_MAX = 20

log = logging.getLogger("pyoco_server.broker")

# `[4711] 2026/11/16 00:56:40.062037 [INF] Server is ready`
_LINE = re.compile(r"^\[\d+\] (?:\S+ \S+ )?\[(?P<level>[A-Z]{3})\] ?(?P<text>.*)$")
# INF becomes DEBUG: a healthy broker logs nothing.
_LEVELS = {
    "TRC": logging.DEBUG,
    "DBG": logging.DEBUG,
    "INF": logging.DEBUG,
    "WRN": logging.WARNING,
    "ERR": logging.ERROR,
    "FTL": logging.CRITICAL,
}

# Warnings that need no action: about the password in the configuration file, which only its owner can read;
# and about an index of expiry times, which the server writes now and then and rebuilds when it starts.
_EXPECTED = re.compile(r"Plaintext passwords detected|Filestore \[\S+\] TTL state is outdated")

# A file of a stream could not be written; after this the server refuses writes to the stream.
_WRITE_ERROR = re.compile(
    r"(?:critical write error|failed to store a msg on stream).*: (?P<why>[^:]+)$", re.I
)


class ServerLog:
    """Reads one server's stderr to its end."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._last: deque[tuple[int, str]] = deque(maxlen=LAST_LINES_MAX)
        # The error of the operating system for a failed write; None if there was none.
        self.write_error: str | None = None

    async def follow(self, stream: asyncio.StreamReader) -> None:
        while True:
            try:
                line = await stream.readline()
            except ValueError:  # longer than the reader's limit: the line is dropped
                continue
            if not line:
                return
            self._pass_on(line.decode(errors="replace").rstrip())

    def explanation(self) -> str:
        """Its warnings and errors if there are any, otherwise its last lines."""
        complaints = [text for level, text in self._last if level >= logging.WARNING]
        return "\n".join(complaints or [text for _, text in self._last]) or "(it said nothing)"

    def mentions(self, words: str) -> bool:
        return any(words in text for _, text in self._last)

    def _pass_on(self, line: str) -> None:
        level, text = parse_line(line)
        if not text:
            return
        self._last.append((level, text))
        if level >= logging.ERROR and (failed := _WRITE_ERROR.search(text)):
            if self.write_error is not None:
                level = logging.DEBUG  # logged at every write that it refuses
            self.write_error = failed["why"].strip()
        log.log(level, "%s", text, extra={"broker_pid": self._pid})


def parse_line(line: str) -> tuple[int, str]:
    """Level and text. Any other line is a failed start or a panic: a warning."""
    match = _LINE.match(line)
    if match is None:
        return logging.WARNING, line
    text = match["text"].rstrip()
    level = logging.DEBUG if _EXPECTED.match(text) else _LEVELS.get(match["level"], logging.WARNING)
    return level, text
