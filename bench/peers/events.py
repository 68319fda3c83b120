"""What tasks record outside of all systems: when they started and ended. Survives a kill of the worker."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import NamedTuple

VARIABLE = "BENCH_EVENTS"
START, END = "start", "end"


class Event(NamedTuple):
    what: str
    number: int
    at: float


def record(what: str, number: int) -> None:
    """One write of one line, so that lines of several processes do not mix."""
    line = f"{what} {number} {time.time():.3f}\n".encode()
    file = os.open(os.environ[VARIABLE], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, line)
    finally:
        os.close(file)


def read(path: Path) -> list[Event]:
    lines = (line.split() for line in path.read_text().splitlines())
    return [Event(what, int(number), float(at)) for what, number, at in lines]
