"""Paths like `results.read.rows.0.price`: through mappings by key, through lists by number, no further.

An attribute of a Python object is never read: from any object a chain of attributes leads to the modules of
its process and to everything in them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

INDEX_DIGITS_MAX = 9
PART_CHARS_SHOWN_MAX = 64


class PathError(LookupError):
    """A part that is refused. Says which."""


class NotThere(LookupError):
    """A part that leads nowhere."""


def check_part(part: str) -> None:
    """Refuses what begins with an underscore: by convention such names are for Python, not for data."""
    if part.startswith("_"):
        shown = part[:PART_CHARS_SHOWN_MAX]
        raise PathError(f"No part of a path may begin with _, as '{shown}' does; rename it.")


def check_path(path: str) -> None:
    for part in path.split("."):
        check_part(part)


def walk(value: Any, parts: Iterable[str]) -> Any:
    """Raises PathError, or NotThere with the part that leads nowhere."""
    for part in parts:
        check_part(part)
        value = _step(value, part)
    return value


def _step(value: Any, part: str) -> Any:
    if isinstance(value, dict):
        # The methods of dict itself: a subclass may compute, load or invent what is asked for.
        if dict.__contains__(value, part):
            return dict.__getitem__(value, part)
    elif isinstance(value, Mapping):
        if part in value:
            return value[part]
    elif isinstance(value, list | tuple) and part.isascii() and part.isdigit():
        base: Any = list if isinstance(value, list) else tuple
        if len(part) <= INDEX_DIGITS_MAX and int(part) < base.__len__(value):
            return base.__getitem__(value, int(part))
    raise NotThere(part)
