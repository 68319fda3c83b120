"""Types of parameters as JSON Schema: of the standard library, of pydantic, and those that have none."""

from __future__ import annotations

import datetime
import enum
import inspect
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Optional

import pydantic
import pytest

from pyoco_server.worker.flows import json_schemas
from pyoco_server.worker.flows.json_schemas import schema_of


class Market(enum.Enum):
    TOKYO = "tokyo"
    PARIS = "paris"


@dataclass
class Window:
    days: int = 3
    names: list[str] = field(default_factory=list)


class Order(pydantic.BaseModel):
    """An order of a customer."""

    amount: int = pydantic.Field(ge=1, description="How many", title="Pieces")
    due_on: datetime.date | None = None
    markets: list[Market] = []


def schema(func: Callable[..., object]) -> dict[str, Any] | None:
    [one] = inspect.signature(func).parameters.values()
    return schema_of(one, func)


def test_types_of_the_standard_library_are_described() -> None:
    def literal(one: Literal["a", "b"]) -> None: ...
    def optional(one: Optional[int]) -> None: ...  # noqa: UP045
    def day(one: datetime.date) -> None: ...
    def window(one: Window) -> None: ...

    found = schema(literal)
    assert found is not None
    assert found["enum"] == ["a", "b"]
    assert schema(optional) == {"anyOf": [{"type": "integer"}, {"type": "null"}]}
    assert schema(day) == {"type": "string", "format": "date"}
    shown = schema(window)
    assert shown is not None
    assert shown["properties"]["days"] == {"type": "integer", "default": 3}


def test_models_keep_what_their_author_wrote_and_lose_titles_that_repeat_a_name() -> None:
    def order(one: Order) -> None: ...

    found = schema(order)
    assert found is not None
    assert found["description"] == "An order of a customer."
    described = {"type": "integer", "minimum": 1, "description": "How many", "title": "Pieces"}
    assert found["properties"]["amount"] == described
    assert "title" not in found["properties"]["due_on"]
    assert found["$defs"]["Market"] == {"enum": ["tokyo", "paris"], "type": "string"}


def test_constraints_are_part_of_it() -> None:
    def bounded(one: Annotated[int, pydantic.Field(ge=1, le=9)]) -> None: ...

    assert schema(bounded) == {"type": "integer", "minimum": 1, "maximum": 9}


def test_names_of_an_enclosing_function_are_found() -> None:
    class Inner(enum.Enum):
        ONE = "one"

    def inner(one: Inner) -> object:
        return Inner(one)

    found = schema(inner)
    assert found is not None
    assert found["enum"] == ["one"]


def test_what_cannot_be_described_has_no_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    class Odd: ...

    def unknown(one: NoSuchName) -> None: ...  # type: ignore[name-defined]  # noqa: F821
    def odd(one: Odd) -> object:
        return Odd

    def anything(one: Any) -> None: ...
    def untyped(one) -> None: ...  # type: ignore[no-untyped-def]
    def text(one: str) -> None: ...

    assert [schema(one) for one in (unknown, odd, anything, untyped)] == [None] * 4
    monkeypatch.setattr(json_schemas, "SCHEMA_BYTES_MAX", 5)
    assert schema(text) is None


def test_without_pydantic_nothing_imports_it() -> None:
    code = """
import datetime, enum, inspect, sys
from pyoco_server.worker.flows.json_schemas import schema_of
class Market(enum.Enum):
    TOKYO = "tokyo"
def run(market: Market, day: datetime.date): ...
print([schema_of(one, run) for one in inspect.signature(run).parameters.values()], "pydantic" in sys.modules)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout.strip() == "[{'enum': ['tokyo']}, {'type': 'string', 'format': 'date'}] False"
