"""What a log line says besides its own words: which request, which run. Set where work begins.

A context belongs to a task and to what that task starts. `logging_config` puts it on every line; a field that
the line has itself wins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

Fields = Mapping[str, Any]

_NOTHING: Callable[[], Fields] = dict
# A function, so that a request which logs nothing pays for no fields.
_CONTEXT: ContextVar[Callable[[], Fields]] = ContextVar("pyoco_log_context", default=_NOTHING)


def context_fields() -> Fields:
    return _CONTEXT.get()()


def set_context(fields: Callable[[], Fields]) -> None:
    """For the rest of this task. `fields` is called for every line that is written."""
    _CONTEXT.set(fields)


@contextmanager
def context_of(fields: Fields) -> Iterator[None]:
    """Inside of this, lines have these fields and those of around it."""
    whole = {**context_fields(), **{name: value for name, value in fields.items() if value is not None}}
    before = _CONTEXT.set(lambda: whole)
    try:
        yield
    finally:
        _CONTEXT.reset(before)
