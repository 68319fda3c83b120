"""Which state of the user's code a slot executes, and why it cannot be started."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class SlotDied(Exception):
    """The message names the signal or the exit code."""


class ResolverBroken(Exception):
    """The flows cannot be loaded; the message says what to change."""


class Edition(NamedTuple):
    """Which state of the user's code a slot has loaded."""

    number: int = 0
    path: Path | None = None  # first on the import path
