"""Routes are declared once: what a parameter reads is what the document says of it."""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import urlencode

import pytest
from starlette.requests import Request

from pyoco_server.errors import Invalid
from pyoco_server.http_api.app import FACES
from pyoco_server.http_api.faces.recheck.routes import FACE as RECHECKS
from pyoco_server.http_api.routing.kinds import (
    LENIENT_WORDS,
    ChoiceKind,
    FlagKind,
    IntegerKind,
    NumberKind,
    TextKind,
    lowered,
)
from pyoco_server.http_api.routing.operation import Operation
from pyoco_server.http_api.routing.params import AnyParam, ListParam, Param
from pyoco_server.http_api.routing.path_table import PathTable

OPERATIONS = [operation for face in (*FACES, RECHECKS) for operation in face.operations]


def asked(query: str) -> Request:
    return Request({"type": "http", "query_string": query.encode(), "headers": [], "path": "/"})


LIMIT = Param("limit", IntegerKind(1, 200), 50, "How many at most.", err_id="ERR-X")
LENIENT = Param("on", FlagKind(LENIENT_WORDS, lowered), False)
STATE = Param[str | None]("state", ChoiceKind(("a", "b")), None, skips="empty")
SINCE = Param[float | None]("since", NumberKind("must be an instant."), None)


@pytest.mark.parametrize(
    ("param", "query", "value"),
    [
        (LIMIT, "", 50),
        (LIMIT, "limit=200", 200),
        (LIMIT, "limit=7&limit=8", 8),
        (LENIENT, "on=%20YES", True),
        (STATE, "state=", None),
        (STATE, "state=b", "b"),
        (SINCE, "since=1.5", 1.5),
        (ListParam("tag", TextKind()), "tag=x&tag=y&tag=x", ("x", "y", "x")),
    ],
)
def test_a_parameter_is_read(param: AnyParam, query: str, value: Any) -> None:
    assert param.read(asked(query)) == value


@pytest.mark.parametrize("text", ["", "0", "201", "0001", "-1", "1.0", " 1", "\u0661", "9" * 5000])
def test_a_number_beyond_its_limits_is_refused_in_one_form(text: str) -> None:
    with pytest.raises(Invalid) as refused:
        LIMIT.parse(text)
    message = "limit must be a whole number from 1 to 200."
    assert (refused.value.message, refused.value.err_id) == (message, "ERR-X")
    assert refused.value.details == [{"loc": ["query", "limit"], "msg": message, "type": "value_error"}]


@pytest.mark.parametrize(
    ("param", "text"),
    [(SINCE, "nan"), (SINCE, "inf"), (SINCE, ""), (STATE, " "), (STATE, "c"), (LENIENT, "maybe")],
)
def test_what_is_not_of_its_kind_is_refused(param: Param[Any], text: str) -> None:
    with pytest.raises(Invalid):
        param.read(asked(urlencode({param.name: text})))


def test_a_parameter_describes_its_limits_and_its_default() -> None:
    assert LIMIT.describe() == {
        "name": "limit",
        "in": "query",
        "required": False,
        "schema": {"type": "integer", "minimum": 1, "maximum": 200, "default": 50},
        "description": "How many at most.",
    }


class Place(NamedTuple):
    method: str
    path: str


def test_a_table_finds_fixed_paths_first_and_fills_no_parameter_with_nothing() -> None:
    places = [Place("GET", "/a/{id}"), Place("GET", "/a/stats"), Place("PUT", "/a/{id}"), Place("GET", "/a")]
    table = PathTable(places)
    assert table.find("GET", "/a/stats") == (places[1], {})
    assert table.find("GET", "/a/7") == (places[0], {"id": "7"})
    assert table.find("PUT", "/a/stats") == (places[2], {"id": "stats"})
    assert [table.find("GET", path) for path in ("/a/", "/a/7/", "/b/7", "")] == [None] * 4
    assert table.methods_at("/a/7") == ("GET", "PUT")


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: f"{one.method} {one.path}")
def test_what_needs_credentials_says_that_it_may_refuse_them(operation: Operation) -> None:
    (face,) = (face for face in (*FACES, RECHECKS) if operation in face.operations)
    (described,) = (
        one for path, method, one in face.describe()
        if (path, method) == (operation.path.replace(":path}", "}"), operation.method.lower())
    )  # fmt: skip
    # A signed address is its own credential: nothing has to be sent with it.
    assert operation.never == ([401] if operation.path == "/gui/artifacts/{artifact_id}/content" else ())
    wanted = {"401", "403"}.difference(map(str, operation.never))
    assert operation.is_public is not (wanted <= described["responses"].keys())
    assert not set(map(str, operation.never)) & described["responses"].keys()


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: f"{one.method} {one.path}")
def test_no_parameter_is_declared_twice(operation: Operation) -> None:
    declared = [(param.describe()["in"], param.name) for param in operation.params]
    assert len(set(declared)) == len(declared)


def test_logs_can_be_had_in_parts_on_the_condition_that_they_are_the_same() -> None:
    logs = [one for one in OPERATIONS if one.path.endswith("/logs")]
    assert len(logs) == 2
    for operation in logs:
        assert {"Range", "If-Range", "If-None-Match"} <= {param.name for param in operation.params}


def test_keys_say_which_members_are_not_compared() -> None:
    keys = [param for one in OPERATIONS for param in one.params if param.name.endswith("Idempotency-Key")]
    assert len(keys) > 10
    for param in keys:
        assert "`trace_id` and `idempotency_key` are left out" in param.description
