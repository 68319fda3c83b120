"""Helpers for JSON Schema, for the descriptions of bodies and responses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Schema = dict[str, Any]

REF = "#/components/schemas/{name}"
TEXT: Schema = {"type": "string"}
BOOLEAN: Schema = {"type": "boolean"}
OBJECT: Schema = {"type": "object"}
BINARY: Schema = {"type": "string", "format": "binary"}
DATE_TIME: Schema = {"type": "string", "format": "date-time"}


def ref(name: str) -> Schema:
    return {"$ref": REF.format(name=name)}


def array(items: Schema, **more: object) -> Schema:
    return {"type": "array", "items": items} | more


def record(required: Iterable[str], properties: Schema, **more: object) -> Schema:
    return {"type": "object", "required": list(required), "properties": properties} | more


def or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def count(least: int = 0, **more: object) -> Schema:
    return {"type": "integer", "minimum": least} | more
