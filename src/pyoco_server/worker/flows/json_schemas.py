"""The type of a parameter as JSON Schema, so that a form can offer the right field. Pure.

msgspec describes types of the standard library. Pydantic describes its models and constraints; it is used
only if the code of the flow has imported it. A type that neither can describe has no schema.
"""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import cast

import msgspec

from pyoco_server.engine.tasks.failure import try_call
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
    schema = _without_titles(_inlined(_generated(written)))
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


def _generated(written: object) -> JsonObject:
    if "pydantic" in sys.modules:
        from pydantic import TypeAdapter

        return dict(TypeAdapter(cast("type[object]", written)).json_schema())
    return dict(msgspec.json.schema(written))


def _inlined(schema: JsonObject) -> JsonObject:
    """msgspec puts every named type into `$defs`. The outermost one is moved out of it."""
    match schema:
        case {"$ref": str(ref), "$defs": {**defs}} if len(schema) == 2:
            name = ref.removeprefix("#/$defs/")
            outermost = defs.get(name)
            if isinstance(outermost, dict):
                rest = {key: value for key, value in defs.items() if key != name}
                return {**outermost, **({"$defs": rest} if rest else {})}
    return schema


def _without_titles(schema: JsonObject) -> JsonObject:
    """Without the titles that repeat a name; the outermost one is the class, which the `type` names."""
    cleaned = _clean({key: value for key, value in schema.items() if key != "title"})
    return cleaned if isinstance(cleaned, dict) else {}


def _clean(value: object, *, is_members: bool = False) -> object:
    match value:
        case {**members} if is_members:
            return {name: _clean(_untitled(one, str(name))) for name, one in members.items()}
        case {**members}:
            return {
                key: _clean(one, is_members=key in ("properties", "$defs")) for key, one in members.items()
            }
        case [*items]:
            return [_clean(item) for item in items]
        case _:
            return value


def _untitled(schema: object, name: str) -> object:
    if not isinstance(schema, Mapping):
        return schema
    repeated = name.replace("_", " ").lower()
    return {
        key: value
        for key, value in schema.items()
        if key != "title" or str(value).replace("_", " ").lower() != repeated
    }
