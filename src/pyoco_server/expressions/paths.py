"""Paths like `results.read.rows.0.price`: through mappings by key and through lists by number.

Attributes of Python objects are never read: from any object a chain of attributes leads to all modules of the
process.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

INDEX_DIGITS_MAX = 9
PART_CHARS_SHOWN_MAX = 64


class PathError(LookupError):
    """A part of the path is refused; the message names it."""


class NotThere(LookupError):
    """A part of the path does not exist."""


def check_part(part: str) -> None:
    """Refuse names that begin with an underscore: by convention they are internal, not data."""
    if part.startswith("_"):
        shown = part[:PART_CHARS_SHOWN_MAX]
        raise PathError(f"No part of a path may begin with _, as '{shown}' does; rename it.")


def check_path(path: str) -> None:
    for part in path.split("."):
        check_part(part)


def walk(value: object, parts: Iterable[str]) -> object:
    """Raises PathError, or NotThere with the part that does not exist."""
    for part in parts:
        check_part(part)
        value = _step(value, part)
    return value


def _step(value: object, part: str) -> object:
    if isinstance(value, dict):
        # The methods of dict itself: a subclass may execute code for a key.
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
