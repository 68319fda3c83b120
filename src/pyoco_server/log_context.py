"""Fields of every log line of some work, such as the request or the run. Set where the work starts.

A context belongs to a task and to the tasks that it starts. `logging_config` adds it to every line; fields of
the line itself take precedence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from types import TracebackType

Fields = Mapping[str, object]

_NOTHING: Callable[[], Fields] = dict
# A function, so that a request without log lines does not compute fields.
_CONTEXT: ContextVar[Callable[[], Fields]] = ContextVar("pyoco_log_context", default=_NOTHING)


def context_fields() -> Fields:
    return _CONTEXT.get()()


def set_context(fields: Callable[[], Fields]) -> None:
    """For the rest of this task. `fields` is called for every log line."""
    _CONTEXT.set(fields)


class context_of:
    """Used like a function: log lines inside have these fields and those of the surrounding context."""

    __slots__ = ("_before", "_fields")

    def __init__(self, fields: Fields) -> None:
        self._fields = fields

    def __enter__(self) -> None:
        given = {name: value for name, value in self._fields.items() if value is not None}
        whole = {**context_fields(), **given}
        self._before = _CONTEXT.set(lambda: whole)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _CONTEXT.reset(self._before)
