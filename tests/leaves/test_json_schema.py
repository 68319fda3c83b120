"""Values against JSON Schemas: what fits, which member is wrong, and what hostile schemas and values cost."""

from __future__ import annotations

import time
from enum import Enum
from typing import Annotated, Any, Literal

import jsonschema_rs
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.flows.type_schema import schema_of_type
from pyoco_server.json_schema.check import DEPTH_MAX, PROBLEMS_MAX, place_of, problems_of


def said(schema: object, value: object) -> list[str]:
    return [f"{place_of(('it', *path))} {message}" for path, message, _ in problems_of(schema, value)]


class Market(Enum):
    TOKYO = "tokyo"
    PARIS = "paris"


class Stage(pydantic.BaseModel):
    name: str = pydantic.Field(min_length=1, max_length=5, pattern="^[a-z]+$")
    next: Stage | None = None


class Rollout(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")
    market: Market
    percent: Annotated[int, pydantic.Field(ge=1, le=100, multiple_of=5)] = 10
    stages: list[Stage] = []
    mode: Literal["canary", "all"] | None = None
    limits: dict[str, float] = {}


ROLLOUT = schema_of_type(Rollout)
GOOD: dict[str, Any] = {
    "market": "tokyo",
    "percent": 10.0,
    "stages": [{"name": "one", "next": {"name": "two"}}],
    "mode": None,
    "limits": {"cpu": 1},
}


@pytest.mark.parametrize(
    ("change", "problems"),
    [
        ({}, []),
        ({"market": "rome"}, ['it.market must be one of "tokyo", "paris"']),
        ({"percent": 1000}, ["it.percent must be at most 100"]),
        ({"percent": 7}, ["it.percent must be a multiple of 5"]),
        ({"percent": "10"}, ["it.percent must be an integer, not a string"]),
        ({"percent": True}, ["it.percent must be an integer, not true or false"]),
        ({"stages": {}}, ["it.stages must be an array, not an object"]),
        ({"stages": [{"name": "ok"}, {}]}, ["it.stages[1].name is required"]),
        (
            {"stages": [{"name": "a", "next": {"name": "UPPER"}}]},
            ["it.stages[0].next.name must match the pattern ^[a-z]+$"],
        ),
        ({"mode": "some"}, ['it.mode must be one of "canary", "all"']),
        ({"limits": {"cpu": "1"}}, ["it.limits.cpu must be a number, not a string"]),
        ({"other": 1}, ["it.other is unknown"]),
    ],
)
def test_a_problem_names_the_member_and_what_it_must_be(change: dict[str, Any], problems: list[str]) -> None:
    assert said(ROLLOUT, GOOD | change) == problems


def test_an_answer_that_is_missing_is_a_problem_of_its_type() -> None:
    assert said(ROLLOUT, None) == ["it must be an object, not null"]
    assert said({"type": ["integer", "null"]}, None) == []
    assert said({"anyOf": [{"type": "integer"}, {"type": "string"}]}, []) == [
        "it must be an integer, not an array or must be a string, not an array"
    ]


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"const": 1}, 1.0, True),
        ({"enum": [[1, {"a": None}]]}, [1.0, {"a": None}], [True, {"a": None}]),
        ({"format": "date"}, "2026-01-31", "2026-02-31"),
        ({"format": "date-time"}, "2026-01-31T09:30:00Z", "soon"),
        ({"format": "uuid"}, "8c9b8a0e-3b6f-4a55-8d3c-0d0a1d3b5a11", "8c9b"),
        ({"uniqueItems": True}, [1, True, "1"], [{"a": 1}, {"a": 1.0}]),
        ({"prefixItems": [{"type": "string"}], "items": False}, ["a"], ["a", "b"]),
        ({"minProperties": 1, "maxProperties": 1}, {"a": 1}, {}),
        ({"minItems": 1}, [1], []),
        ({"exclusiveMinimum": 0, "exclusiveMaximum": 1}, 0.5, 1),
        ({"not": {"type": "null"}}, 1, None),
        ({"allOf": [{"type": "integer"}, {"minimum": 3}]}, 3, 2),
        ({"oneOf": [{"type": "integer"}, {"minimum": 3}]}, 1, 5),
        ({"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"type": "integer"}}}, 1, "1"),
        (False, ..., 1),
    ],
)
def test_keywords(schema: object, good: object, bad: object) -> None:
    if good is not ...:
        assert said(schema, good) == []
    assert len(said(schema, bad)) == 1


@pytest.mark.parametrize(
    "schema",
    [
        None,
        [],
        "a",
        {},
        {"type": 5},
        {"type": "decimal"},
        {"enum": "abc", "required": 3, "properties": [], "items": 7, "anyOf": {}, "minimum": "1"},
        {"$ref": "https://example.org/schema.json"},
        {"$ref": "#/$defs/none"},
        {"pattern": "(?=x)"},  # not a pattern of RE2
        {"pattern": "(" * 2000},
        {"multipleOf": 0},
        {"unknownKeyword": True, "if": False, "then": False},
    ],
)
def test_what_makes_no_sense_restricts_nothing(schema: object) -> None:
    for value in (None, True, 1, 1.5, "text", [1], {"a": 1}):
        assert said(schema, value) == []


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([0.5, 1.0, 2.5])
    | st.text("ab", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
LEAVES = st.sampled_from(
    [
        {"type": "integer"},
        {"type": ["string", "null"]},
        {"type": "object"},
        {"minimum": 1},
        {"exclusiveMaximum": 2},
        {"maxLength": 2, "minLength": 1},
        {"pattern": "^a"},
        {"uniqueItems": True, "minItems": 1},
        {"required": ["a"], "maxProperties": 2},
        {"multipleOf": 0.5},
        True,
        False,
    ]
)
SCHEMAS = st.recursive(
    LEAVES
    | st.builds(lambda value: {"const": value}, JSON)
    | st.builds(lambda one: {"enum": [one, 1]}, JSON),
    lambda inner: st.one_of(
        st.builds(lambda one, other: {"properties": {"a": one}, "additionalProperties": other}, inner, inner),
        st.builds(lambda one, other: {"prefixItems": [one], "items": other}, inner, inner),
        st.builds(lambda one, other: {"anyOf": [one, other]}, inner, inner),
        st.builds(lambda one, other: {"oneOf": [one, other]}, inner, inner),
        st.builds(lambda one, other: {"allOf": [one, other]}, inner, inner),
        st.builds(lambda one: {"not": one}, inner),
    ),
    max_leaves=8,
)


@given(SCHEMAS, JSON)
def test_it_agrees_with_a_complete_implementation(schema: bool | dict[str, Any], value: object) -> None:
    assert (problems_of(schema, value) == ()) == jsonschema_rs.Draft202012Validator(schema).is_valid(value)


@given(JSON, JSON)
def test_no_schema_makes_it_fail(schema: object, value: object) -> None:
    problems_of(schema, value)
    problems_of(
        {"properties": schema, "items": schema, "anyOf": schema, "$ref": schema, "type": schema}, value
    )


def doubling(levels: int) -> dict[str, object]:
    """Each alternative tries the next level twice."""
    defs = {
        f"l{n}": {"anyOf": [{"$ref": f"#/$defs/l{n + 1}"}, {"$ref": f"#/$defs/l{n + 1}"}]}
        for n in range(levels)
    }
    return {"$ref": "#/$defs/l0", "$defs": {**defs, f"l{levels}": False}}


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"$ref": "#"}, 1),
        ({"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}, 1),
        (doubling(60), 1),
        ({"items": {"$ref": "#"}}, nested(DEPTH_MAX + 1)),
        ({"items": {"enum": list(range(2000))}}, ["x"] * 20_000),
        ({"items": {"type": "integer"}}, [1] * 60_000),
        ({"allOf": [{"pattern": f"(a|b)*c{n}"} for n in range(500)]}, "ab" * 90_000),
        ({"allOf": [{"pattern": "((a{100}){100}){100}" + "x" * n} for n in range(200)]}, "a"),
        ({"uniqueItems": True}, [[n] for n in range(30_000)]),
    ],
)
def test_a_check_has_a_limit(schema: object, value: object) -> None:
    begin = time.thread_time()
    [problem] = problems_of(schema, value)
    assert time.thread_time() - begin < 1.0
    assert "steps" in problem.message or "deeper" in problem.message


def test_a_pattern_takes_time_in_proportion_to_the_text() -> None:
    begin = time.thread_time()
    assert said({"pattern": "^(a+)+$"}, "a" * 190_000 + "b") == ["it must match the pattern ^(a+)+$"]
    assert time.thread_time() - begin < 0.5


def test_the_number_of_problems_is_limited_and_their_texts_are_short() -> None:
    required = [f"name{n}" * 100 for n in range(100)]
    found = problems_of({"required": required}, {})
    assert len(found) == PROBLEMS_MAX
    assert all(len(place_of(path)) < 100 for path, _, _ in found)
    assert len(said({"enum": ["x" * 5000]}, 1)[0]) < 300
    assert len(said({"items": {"type": "string"}}, list(range(5000)))) == PROBLEMS_MAX
