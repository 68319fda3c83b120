"""A JSON value that only passes through: parameters, results, prompts, answers of people.

A member that is declared as `JsonValue` can be stored and passed on. Code that looks into it has to check its
type first: for the type checker it is `object`. msgspec gets `Any` instead, because it decodes that without a
check of each value, and describes it in JSON Schema as a value without restrictions.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    JsonValue = object
else:
    JsonValue = Any

JsonObject = dict[str, JsonValue]
