"""Expressions: what may be written, what it is worth, and what it may cost."""

from __future__ import annotations

import dataclasses
import time
from collections import OrderedDict, UserDict
from decimal import Decimal
from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyoco.dsl.expressions import Expression, ExpressionEvaluationError

from pyoco_server.expressions import ExpressionError, environment_names, evaluate, parse

QUICK_SEC = 2.0


def worth(source: str, *, env: dict[str, str] | None = None, **data: Any) -> Any:
    return evaluate(source, data, (env or {}).get)


class Point(NamedTuple):
    x: int


@dataclasses.dataclass
class Tool:
    price: int = 7


class Inventive(dict[str, Any]):
    """Every key is there, if its own methods are asked."""

    def __missing__(self, key: str) -> str:
        return f"invented {key}"

    def __contains__(self, key: object) -> bool:
        return True

    def __getitem__(self, key: str) -> str:
        return f"computed {key}"


class Touched(Exception):
    pass


class Untouchable:
    """Whatever an operator would ask of it."""

    def _touched(self, *_: object) -> bool:
        raise Touched

    __eq__ = __lt__ = __gt__ = __le__ = __ge__ = __ne__ = _touched
    __add__ = __radd__ = __mul__ = __rmul__ = __mod__ = __rmod__ = __contains__ = _touched
    __str__ = __repr__ = _touched  # type: ignore[assignment]
    __hash__ = object.__hash__


class Colour(StrEnum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("$ctx.results.read.rows.1.price", 20),
        ("$ctx.pair.0", "a"),
        ("$ctx.ordered.x", 1),
        ("$ctx.view.x", 1),
        ("$ctx.user.x", 1),
        ("$ctx.n * 2 + 1 > 6 and 'yes' or 'no'", "yes"),
        ("not $ctx.none", True),
        ("1 < $ctx.n <= 3", True),
        ("1 < $ctx.n < 3", False),
        ("'a' in $ctx.pair", True),
        ("$ctx.n not in $ctx.pair", True),
        ("-$ctx.n ** 2 / 2 % 4", 3.5),
        ("'ab' * 2 + 'c'", "ababc"),
        ("$ctx.money >= 3", True),
        ("$ctx.colour == 'red' and $ctx.level > 2", True),
        ("$env.REGION == 'eu'", True),
        ("2 ** -1", 0.5),
        ("'b' * ($ctx.n >= 3)", "b"),
    ],
)
def test_an_expression_is_worth_what_it_says(source: str, value: Any) -> None:
    data = {
        "results": {"read": {"rows": [{"price": 10}, {"price": 20}]}},
        "pair": ("a", "b"),
        "ordered": OrderedDict(x=1),
        "view": MappingProxyType({"x": 1}),
        "user": UserDict(x=1),
        "n": 3,
        "none": None,
        "money": Decimal("3.50"),
        "colour": Colour.RED,
        "level": Level.HIGH,
    }
    found = worth(source, env={"REGION": "eu"}, **data)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    "source",
    [
        "$ctx.tool.price",
        "$ctx.point.x",
        "$ctx.text.upper",
        "$ctx.rows.append",
        "$ctx.rows.9",
        "$ctx.rows.²",
        "$ctx.rows.99999999999999999999999",
        "$ctx.empty.anything",
        "$ctx.n.real",
        "$ctx.missing",
        "$env.MISSING",
        "$env.REGION.upper",
    ],
)
def test_a_path_goes_through_mappings_and_lists_and_no_further(source: str) -> None:
    data = {"tool": Tool(), "point": Point(1), "text": "a", "rows": [1], "empty": Inventive(), "n": 1}
    with pytest.raises(LookupError, match="not found"):
        worth(source, env={"REGION": "eu"}, **data)


@pytest.mark.parametrize(
    "source",
    [
        "$ctx.loop.__class__.__init__.__globals__",
        "$ctx._hidden",
        "$ctx.results._x",
        "$ctx.results.a.__len__ > 1",
        "$env._SECRET",
        "$env.PYOCO_AUTH_PEPPER",
        "$env.pyoco_auth_pepper",
        "1 + (2 if $ctx.a else 3)",
        "$ctx.a.b()",
        "$ctx.a[0]",
        "($ctx.a).b",
        "[$ctx.a]",
        "f'{1}' == $ctx.a",
        "lambda: $ctx.a",
        "＿ctx('a.b')",
        "＿env('PYOCO_AUTH_PEPPER') == $ctx.a",
        "_env('HOME')",
        "open('x') == $ctx.a",
        "$ctx.a == 1j",
        "$ctx.a is 1",
        "$ctx.a == ...",
        "$ctx.",
        "$ctx.a $ctx.b",
        "",
        "a" * 5000,
        "-" * 400 + "$ctx.a",
        "(" * 300 + "$ctx.a" + ")" * 300,
        "+".join(["1"] * 400),
        "$ctx.a" + " or $ctx.a" * 300,
    ],
)
def test_what_is_no_expression_is_refused_before_anything_is_evaluated(source: str) -> None:
    with pytest.raises(ExpressionError):
        parse(source)


@pytest.mark.parametrize(
    "source",
    [
        "'Y' * 10**9",
        "10**9 * 'Y'",
        "$ctx.rows * 10**9",
        "9**9**9",
        "2 ** 5000",
        "(2 ** 4000) * (2 ** 4000)",
        "0.5 ** 10 ** 400",
        "$ctx.big + $ctx.big",
        "(-8) ** 0.5",
        "'%1000000000d' % 5",
        "'%s' % $ctx.tool",
        "b'%s' % $ctx.tool",
        "$ctx.a - 'x'",
        "1 / 0",
    ],
)
def test_a_result_that_is_too_large_or_means_nothing_is_an_error_at_once(source: str) -> None:
    began = time.monotonic()
    with pytest.raises((ValueError, TypeError, ArithmeticError)):
        worth(source, rows=[1], big="x" * 60_000, tool=Tool(), a=1)
    assert time.monotonic() - began < QUICK_SEC


@pytest.mark.parametrize("sign", ["==", "!=", "<", "<=", ">", ">=", "in", "not in", "+", "*", "%", "-"])
@pytest.mark.parametrize("places", ["$ctx.one {} 'b'", "'b' {} $ctx.one", "$ctx.rows {} $ctx.rows"])
def test_no_operator_asks_an_object_of_a_task(sign: str, places: str) -> None:
    with pytest.raises(TypeError):
        worth(places.format(sign), one=Untouchable(), rows=[{"deep": Untouchable()}])


def test_what_contains_itself_is_an_error_and_no_endless_comparison() -> None:
    rows: list[Any] = []
    rows.append(rows)
    with pytest.raises(TypeError, match="nested at most"):
        worth("$ctx.rows == $ctx.rows", rows=rows)


def test_an_expression_tells_which_variables_it_reads() -> None:
    assert set(environment_names("$env.A == $ctx.env and $env.B_C > '1'")) == {"A", "B_C"}


constants = st.one_of(st.integers(-5, 5), st.booleans(), st.text("ab", max_size=2), st.floats(-2, 2))
LEAVES = st.one_of(
    st.sampled_from(["$ctx.n", "$ctx.text", "$ctx.rows", "$ctx.map.key", "$ctx.map.none", "$ctx.missing"]),
    constants.map(lambda value: repr(value)),
)
BINARY = ["+", "-", "*", "/", "%", "**", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or"]
expressions = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(BINARY), inner).map(lambda parts: f"({' '.join(parts)})"),
        st.tuples(st.sampled_from(["not ", "-", "+"]), inner).map(lambda parts: f"({''.join(parts)})"),
    ),
    max_leaves=6,
)


@settings(max_examples=400, deadline=None)
@given(expressions)
def test_an_expression_is_worth_what_it_is_worth_in_pyoco(source: str) -> None:
    data: dict[str, Any] = {"n": 3, "text": "ab", "rows": ["a", 3], "map": {"key": 2.5, "none": None}}
    try:
        expected = Expression(source).evaluate(ctx=data)
    except ExpressionEvaluationError:
        with pytest.raises((LookupError, TypeError, ValueError, ArithmeticError)):
            worth(source, **data)
        return
    try:
        found = worth(source, **data)
    except (TypeError, ValueError) as error:
        reason = str(error)
    else:
        assert repr(found) == repr(expected)
        return
    assert any(word in reason for word in ("format text", "bits", "real number"))
