"""Check a value against a JSON Schema: which member is wrong, and what it must be. Pure.

Owns the keywords that are checked. They are what pydantic and msgspec write for types. Any other keyword, a
reference to another document and a keyword whose value makes no sense restrict nothing. The cost of a check
is limited, because schema and value may both come from hostile programs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import NamedTuple

from pyoco_server.json_schema.texts import Patterns, text_problems
from pyoco_server.json_schema.values import comparable, is_integer, is_number

PROBLEMS_MAX = 10
# One step is one value compared with one schema, or something of about the same cost: some microseconds.
STEPS_MAX = 10_000
DEPTH_MAX = 100
SHOWN_CHARS_MAX = 200

Path = tuple[str | int, ...]

_TYPES: Mapping[str, tuple[str, Callable[[object], bool]]] = {
    "null": ("null", lambda value: value is None),
    "boolean": ("true or false", lambda value: isinstance(value, bool)),
    "integer": ("an integer", is_integer),
    "number": ("a number", is_number),
    "string": ("a string", lambda value: isinstance(value, str)),
    "array": ("an array", lambda value: isinstance(value, list | tuple)),
    "object": ("an object", lambda value: isinstance(value, Mapping)),
}


class Mismatch(NamedTuple):
    """`message` ends a sentence whose subject is the member at `path`."""

    path: Path
    message: str
    of_type: bool = False  # the value has another JSON type


def problems_of(schema: object, value: object) -> tuple[Mismatch, ...]:
    """Empty if the value matches. At most PROBLEMS_MAX, in the order of the schema."""
    try:
        return tuple(_Check(schema).of(schema, value, ()))[:PROBLEMS_MAX]
    except _TooMuch:
        return (Mismatch((), f"cannot be checked within {STEPS_MAX} steps; send a smaller value"),)
    except RecursionError:  # a caller that is itself deep in the stack
        return (Mismatch((), "is nested too deeply to be checked"),)


def place_of(path: Path) -> str:
    """As in `stages[0].percent`."""
    return "".join(f"[{one}]" if isinstance(one, int) else f".{one[:60]}" for one in path).removeprefix(".")


class _TooMuch(Exception):
    """The check has used its steps."""


class _Check:
    def __init__(self, root: object) -> None:
        self._root = root
        self._steps_left = STEPS_MAX
        self._patterns = Patterns(self._count)
        self._depth = 0

    def of(self, schema: object, value: object, path: Path) -> list[Mismatch]:
        self._count(1)
        if schema is False:
            return [Mismatch(path, "is not allowed")]
        if not isinstance(schema, Mapping):
            return []
        if self._depth >= DEPTH_MAX:
            return [Mismatch(path, f"is nested deeper than {DEPTH_MAX} levels")]
        self._depth += 1
        try:
            return self._of_mapping(schema, value, path)
        finally:
            self._depth -= 1

    def _of_mapping(self, schema: Mapping[str, object], value: object, path: Path) -> list[Mismatch]:
        if (problem := _type_problem(schema, value)) is not None:
            return [Mismatch(path, problem, of_type=True)]
        found = [Mismatch(path, message) for message in self._of_value(schema, value)]
        match value:
            case Mapping():
                found += self._of_members(schema, value, path)
            case [*items]:
                found += self._of_items(schema, items, path)
        return found + self._of_other_schemas(schema, value, path)

    def _of_value(self, schema: Mapping[str, object], value: object) -> Iterator[str]:
        match schema:
            case {"const": const} if self._comparable(const) != self._comparable(value):
                yield f"must be {_shown(const)}"
            case {"enum": [*choices]} if not self._is_among(choices, value):
                yield f"must be one of {', '.join(map(_shown, choices))}"[:SHOWN_CHARS_MAX]
        if isinstance(value, str):
            yield from text_problems(schema, value, self._patterns)
        elif is_number(value):
            yield from _number_problems(schema, value)

    def _is_among(self, choices: Sequence[object], value: object) -> bool:
        self._count(len(choices))
        wanted = self._comparable(value)
        return any(self._comparable(one) == wanted for one in choices)

    def _of_members(
        self, schema: Mapping[str, object], value: Mapping[str, object], path: Path
    ) -> list[Mismatch]:
        found = [Mismatch((*path, name), "is required") for name in _names(schema) if name not in value]
        found += [Mismatch(path, message) for message in _count_problems(schema, len(value), "Properties")]
        properties = schema.get("properties")
        known = properties if isinstance(properties, Mapping) else {}
        # Which names a pattern allows is not checked.
        others = True if "patternProperties" in schema else schema.get("additionalProperties", True)
        for name, one in value.items():
            if name in known:
                found += self.of(known[name], one, (*path, name))
            elif others is False:
                found.append(Mismatch((*path, name), "is unknown"))
            else:
                found += self.of(others, one, (*path, name))
            if len(found) >= PROBLEMS_MAX:
                break
        return found

    def _of_items(self, schema: Mapping[str, object], items: list[object], path: Path) -> list[Mismatch]:
        found = [Mismatch(path, message) for message in _count_problems(schema, len(items), "Items")]
        if schema.get("uniqueItems") is True and len({self._comparable(one) for one in items}) < len(items):
            found.append(Mismatch(path, "must not contain a value twice"))
        match schema.get("prefixItems"):
            case [*firsts]:
                pass
            case _:
                firsts = []
        others = schema.get("items", True)
        for index, one in enumerate(items):
            found += self.of(firsts[index] if index < len(firsts) else others, one, (*path, index))
            if len(found) >= PROBLEMS_MAX:
                break
        return found

    def _of_other_schemas(self, schema: Mapping[str, object], value: object, path: Path) -> list[Mismatch]:
        found: list[Mismatch] = []
        if isinstance(ref := schema.get("$ref"), str):
            found += self.of(self._referred(ref), value, path)
        for one in _schemas(schema, "allOf"):
            found += self.of(one, value, path)
        for keyword in ("anyOf", "oneOf"):
            if alternatives := _schemas(schema, keyword):
                found += self._of_alternatives(keyword, alternatives, value, path)
        if "not" in schema and not self.of(schema["not"], value, path):
            found.append(Mismatch(path, "has a value that is excluded"))
        return found

    def _of_alternatives(
        self, keyword: str, alternatives: Sequence[object], value: object, path: Path
    ) -> list[Mismatch]:
        failed = [problems for one in alternatives if (problems := self.of(one, value, path))]
        matched = len(alternatives) - len(failed)
        if matched > 1 and keyword == "oneOf":
            return [Mismatch(path, "matches more than one of the alternatives")]
        if matched:
            return []
        # Of `int | None`, only the problems of the alternative that was meant.
        meant = [problems for problems in failed if not (problems[0].of_type and problems[0].path == path)]
        if len(meant) == 1:
            return meant[0]
        expected = dict.fromkeys(one[0].message for one in failed)
        return [Mismatch(path, " or ".join(expected)[:SHOWN_CHARS_MAX], of_type=not meant)]

    def _referred(self, ref: str) -> object:
        """True, which restricts nothing, for what is not in this document."""
        if not ref.startswith("#"):
            return True
        found = self._root
        for step in ref.removeprefix("#").split("/")[1:]:
            self._count(1)
            name = step.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, Mapping) or name not in found:
                return True
            found = found[name]
        return found

    def _comparable(self, value: object) -> Hashable:
        return comparable(value, self._count)

    def _count(self, steps: int) -> None:
        self._steps_left -= steps
        if self._steps_left < 0:
            raise _TooMuch


def _type_problem(schema: Mapping[str, object], value: object) -> str | None:
    match schema.get("type"):
        case str(name):
            names = [name]
        case [*several]:
            names = [name for name in several if isinstance(name, str)]
        case _:
            return None
    if not names or any(name not in _TYPES or _TYPES[name][1](value) for name in names):
        return None
    actual = next((said for said, fits in _TYPES.values() if fits(value)), "another value")
    return f"must be {' or '.join(_TYPES[name][0] for name in names)}, not {actual}"


def _number_problems(schema: Mapping[str, object], value: object) -> Iterator[str]:
    match schema, value:
        case {"minimum": int() | float() as least}, int() | float() if value < least:
            yield f"must be at least {_shown(least)}"
    match schema, value:
        case {"maximum": int() | float() as most}, int() | float() if value > most:
            yield f"must be at most {_shown(most)}"
    match schema, value:
        case {"exclusiveMinimum": int() | float() as below}, int() | float() if value <= below:
            yield f"must be greater than {_shown(below)}"
    match schema, value:
        case {"exclusiveMaximum": int() | float() as above}, int() | float() if value >= above:
            yield f"must be less than {_shown(above)}"
    match schema, value:
        case {"multipleOf": int() | float() as unit}, int() | float() if not _is_multiple(value, unit):
            yield f"must be a multiple of {_shown(unit)}"


def _is_multiple(value: float, unit: float) -> bool:
    """Also true where it cannot be told."""
    try:
        return unit <= 0 or Decimal(repr(value)) % Decimal(repr(unit)) == 0
    except (ArithmeticError, ValueError):
        return True


def _count_problems(schema: Mapping[str, object], length: int, of: str) -> Iterator[str]:
    what = {"Items": "items", "Properties": "members"}[of]
    least, most = schema.get(f"min{of}"), schema.get(f"max{of}")
    if isinstance(least, int) and length < least:
        yield f"must have at least {least} {what}"
    if isinstance(most, int) and length > most:
        yield f"must have at most {most} {what}"


def _names(schema: Mapping[str, object]) -> list[str]:
    match schema.get("required"):
        case [*names]:
            return [name for name in names if isinstance(name, str)]
    return []


def _schemas(schema: Mapping[str, object], keyword: str) -> list[object]:
    match schema.get(keyword):
        case [*schemas]:
            return schemas
    return []


def _shown(value: object) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return json.dumps(value, ensure_ascii=False, default=str)[:SHOWN_CHARS_MAX]
