"""The type of a parameter as JSON Schema, so that a form can offer the right field. Pure.

Owns which parameters have one: their annotations are evaluated, and a schema that is too long is left out.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from types import SimpleNamespace

import msgspec

from pyoco_server.engine.tasks.failure import try_call
from pyoco_server.flows.type_schema import schema_of_type
from pyoco_server.json_value import JsonObject

# Of one parameter. A model with some twenty fields needs about half of it.
SCHEMA_BYTES_MAX = 3 * 1024


def schema_of(one: inspect.Parameter, func: Callable[..., object]) -> JsonObject | None:
    """None if its type is not written, cannot be described, or is too long to be reported."""
    if one.annotation is inspect.Parameter.empty:
        return None
    return try_call(_described, one, func, on_error=_leave_out)


def _described(one: inspect.Parameter, func: Callable[..., object]) -> JsonObject | None:
    written = _evaluated(one, func)
    schema = schema_of_type(written)
    if not schema or len(msgspec.json.encode(schema)) > SCHEMA_BYTES_MAX:
        return None
    return schema


def _leave_out(_error: BaseException) -> None:
    """Annotations are code of the user: evaluating or describing one may raise anything."""


def _evaluated(one: inspect.Parameter, func: Callable[..., object]) -> object:
    """The type itself, where it is written as text. Each on its own: an unknown name costs one type."""
    if not isinstance(one.annotation, str):
        return one.annotation
    func = inspect.unwrap(func)
    holder = SimpleNamespace(__annotations__={one.name: one.annotation})
    names = inspect.getclosurevars(func).nonlocals if inspect.isfunction(func) else {}
    globalns = getattr(func, "__globals__", None)
    return typing.get_type_hints(holder, globalns, dict(names), include_extras=True)[one.name]
