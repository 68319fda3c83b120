"""A type as JSON Schema, as forms read it. Pure.

msgspec describes types of the standard library. Pydantic describes its models and constraints; it is used
only if the code of the flow has imported it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import cast

import msgspec

Schema = dict[str, object]


def schema_of_type(written: object) -> Schema:
    """Raises what msgspec or pydantic raises for a type that it cannot describe."""
    return _without_titles(_inlined(_generated(written)))


def _generated(written: object) -> Schema:
    if "pydantic" in sys.modules:
        from pydantic import TypeAdapter

        return dict(TypeAdapter(cast("type[object]", written)).json_schema())
    return dict(msgspec.json.schema(written))


def _inlined(schema: Schema) -> Schema:
    """msgspec puts every named type into `$defs`. The outermost one is moved out of it."""
    match schema:
        case {"$ref": str(ref), "$defs": {**defs}} if len(schema) == 2:
            name = ref.removeprefix("#/$defs/")
            outermost = defs.get(name)
            if isinstance(outermost, dict):
                rest = {key: value for key, value in defs.items() if key != name}
                return {**outermost, **({"$defs": rest} if rest else {})}
    return schema


def _without_titles(schema: Schema) -> Schema:
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
