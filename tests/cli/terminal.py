"""A console script on a terminal of its own: what a person sees of it, and the keys that a person presses."""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cli.nursery import Process, can_start, take_terminal, the_nursery
from tests.cli.programs import BIN, DEADLINE_SEC, clean_environment, wait_for

# Colours, movements of the cursor, and modes of the terminal.
_SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]")


class Terminal:
    def __init__(self, process: Process, descriptor: int) -> None:
        self.process = process
        self._descriptor = descriptor
        # A character may be in two pieces.
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self.said = ""

    @property
    def text(self) -> str:
        """What was printed, without colours and movements of the cursor."""
        return _SEQUENCE.sub("", self.said).replace("\r\n", "\n")

    def shows(self, words: str, *, after: int = 0) -> int:
        """Waits for these words in what is printed from position `after` on. Returns the position now."""
        give_up_at = time.monotonic() + DEADLINE_SEC
        while words not in self.text[after:]:
            assert self._read(give_up_at), f"{words!r} was not shown:\n{self.text[after:]}"
        return len(self.text)

    def type(self, keys: str) -> None:
        os.write(self._descriptor, keys.encode())

    @property
    def echoes(self) -> bool:
        """Whether typed characters are shown."""
        return bool(termios.tcgetattr(self._descriptor)[3] & termios.ECHO)

    def hides_input(self) -> None:
        """Waits until typed characters are not shown. What is typed before is shown, and thrown away."""
        wait_for(lambda: not self.echoes, "hidden input")

    def resize(self, columns: int, rows: int) -> None:
        _set_size(self._descriptor, columns, rows)

    def ended(self) -> int:
        """Its exit code, after everything it printed was read."""
        give_up_at = time.monotonic() + DEADLINE_SEC
        while self._read(give_up_at):
            pass
        return self.process.wait(DEADLINE_SEC)

    def _read(self, give_up_at: float) -> bool:
        """False when the program has closed the terminal."""
        readable = select.select([self._descriptor], [], [], max(0.0, give_up_at - time.monotonic()))[0]
        assert readable, f"nothing more was printed:\n{self.text}"
        try:
            piece = os.read(self._descriptor, 65_536)
        except OSError:  # the last process has closed its end
            return False
        self.said += self._decoder.decode(piece)
        return bool(piece)


@contextmanager
def terminal(
    *command: object, columns: int = 120, rows: int = 40, folder: Path | None = None, **settings: str
) -> Iterator[Terminal]:
    """A program of ours or of the machine. It is killed at the end, if it has not ended by itself."""
    ours, theirs = pty.openpty()
    _set_size(theirs, columns, rows)
    name, *arguments = map(str, command)
    environment = clean_environment(TERM="xterm-256color", **settings)
    for variable in ("COLUMNS", "LINES", "NO_COLOR"):
        environment.pop(variable, None)
    environment["PATH"] = f"{BIN}:{environment['PATH']}"
    process = _start([name, *arguments], environment, settings, folder, theirs)
    os.close(theirs)
    try:
        yield Terminal(process, ours)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(DEADLINE_SEC)
        os.close(ours)


def on_a_terminal(*command: object, columns: int = 120, rows: int = 40, **settings: str) -> str:
    """What a person sees of a command that ends by itself."""
    with terminal(*command, columns=columns, rows=rows, folder=None, **settings) as shown:
        shown.ended()
        return shown.text


def _start(
    command: list[str],
    environment: dict[str, str],
    settings: dict[str, str],
    folder: Path | None,
    theirs: int,
) -> Process:
    name, *arguments = command
    installed = BIN / name
    command = [str(installed) if installed.exists() else name, *arguments]
    if can_start(name, arguments, settings):
        return the_nursery().start(
            command,
            folder=folder or Path.cwd(),
            environment=environment,
            stdout=theirs,
            stderr=theirs,
            is_terminal=True,
        )
    return subprocess.Popen(
        command, stdout=theirs, stderr=theirs, env=environment, cwd=folder, preexec_fn=take_terminal
    )


def _set_size(descriptor: int, columns: int, rows: int) -> None:
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
