"""Fields of every log line of some work, such as the request or the run. Set where the work starts.

A context belongs to a task and to the tasks that it starts. `logging_config` adds it to every line; fields of
the line itself take precedence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

Fields = Mapping[str, Any]

_NOTHING: Callable[[], Fields] = dict
# A function, so that a request without log lines does not compute fields.
_CONTEXT: ContextVar[Callable[[], Fields]] = ContextVar("pyoco_log_context", default=_NOTHING)


def context_fields() -> Fields:
    return _CONTEXT.get()()


def set_context(fields: Callable[[], Fields]) -> None:
    """For the rest of this task. `fields` is called for every log line."""
    _CONTEXT.set(fields)


@contextmanager
def context_of(fields: Fields) -> Iterator[None]:
    """Log lines inside have these fields and those of the surrounding context."""
    whole = {**context_fields(), **{name: value for name, value in fields.items() if value is not None}}
    before = _CONTEXT.set(lambda: whole)
    try:
        yield
    finally:
        _CONTEXT.reset(before)
