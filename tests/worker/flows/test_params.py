"""What flows may be given, looked at before anything ran; and what a resolver may do meanwhile."""

from __future__ import annotations

import inspect
import os
import signal
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from pyoco import Flow, task
from pyoco.core.context import Context
from pyoco.core.models import Task

from pyoco_server import approval
from pyoco_server.worker.flows import params
from pyoco_server.worker.flows.params import inspect_params, params_by_flow, params_of


def orders() -> Flow:
    @task
    def fetch(ctx: Context, day: str, pages: int = 3, *more: int, **rest: int) -> list[int]:
        return [1]

    @task
    def check(fetch: list[int], day: str, strict: bool = True, seen: set[int] = set()) -> str:  # noqa: B006
        return "good"

    flow: Flow = Flow("orders") >> fetch >> approval("release", prompt={"question": "?"}) >> check
    return flow


def test_what_no_result_and_no_input_fills_is_told_with_its_default() -> None:
    numbers = {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}
    assert params_of(orders()) == [
        {"name": "day", "required": True, "type": "str", "schema": {"type": "string"}},
        {"name": "pages", "required": False, "default": 3, "type": "int", "schema": {"type": "integer"}},
        # JSON has no word for its default
        {"name": "seen", "required": False, "type": "set[int]", "schema": numbers},
        {"name": "strict", "required": False, "default": True, "type": "bool", "schema": {"type": "boolean"}},
    ]


def test_inputs_that_are_configured_are_not_asked_for() -> None:
    def add(a: int, b: int) -> int:
        return a + b

    flow = Flow("sum", tasks={Task(func=add, name="add", inputs={"a": 1})})
    assert [one["name"] for one in params_of(flow)] == ["b"]


def test_long_defaults_and_callables_that_do_not_tell_are_passed_over() -> None:
    def write(text: str = "x" * 1_000) -> None: ...

    flow = Flow("odd", tasks={Task(func=write, name="write"), Task(func=print, name="print")})
    told = params_of(flow)
    assert {"name": "text", "required": False, "type": "str", "schema": {"type": "string"}} in told


def test_a_resolver_that_fails_costs_only_what_it_could_have_told() -> None:
    def resolve(name: str) -> Flow:
        if name == "exits":
            raise SystemExit(3)
        if name == "broken":
            raise KeyError(name)
        return orders()

    assert list(params_by_flow(["exits", "good", "broken"], resolve)) == ["good"]


def test_what_a_resolver_does_while_it_is_looked_at_stays_there() -> None:
    done: list[str] = []

    def resolve(name: str) -> Flow:
        done.append(name)
        return orders()

    assert list(inspect_params(["one", "two"], resolve)) == ["one", "two"]
    assert done == []


def test_a_resolver_that_does_not_come_back_is_not_waited_for() -> None:
    def resolve(name: str) -> Flow:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})  # not even then
        while True:
            signal.pause()

    assert inspect_params(["for ever"], resolve) == {}


def test_a_type_that_cannot_be_described_in_time_costs_only_its_schema(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def schema_of(one: inspect.Parameter, func: Callable[..., object]) -> dict[str, object] | None:
        if one.name == "slow":
            signal.pause()  # until the time is up
        return {"type": "string"}

    def wait(slow: str) -> None: ...

    monkeypatch.setattr(params, "schema_of", schema_of)
    monkeypatch.setattr(params, "INSPECT_SEC_MAX", 2.0)
    flows = {"good": orders(), "slow": Flow("slow", tasks={Task(func=wait, name="wait")}), "late": orders()}
    told = inspect_params(flows, flows.__getitem__)
    assert told["good"] == params_of(orders())
    assert told["slow"] == [{"name": "slow", "required": True, "type": "str"}]
    assert told["late"] == params_of(orders(), with_schemas=False)


def test_of_no_flows_nothing_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "fork")
    assert inspect_params([], lambda _: orders()) == {}


def test_what_is_told_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(params, "REPORTED_BYTES_MAX", 500)
    told: dict[str, Any] = params_by_flow([f"flow {number}" for number in range(50)], lambda _: orders())
    assert 1 <= len(told) <= 2


def test_schemas_get_the_room_that_names_and_defaults_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"flow {number}" for number in range(5)]
    plain = sum(len(msgspec.json.encode(params_of(orders(), with_schemas=False))) + 6 for _ in names)
    monkeypatch.setattr(params, "REPORTED_BYTES_MAX", plain + 400)
    told = params_by_flow(names, lambda _: orders())
    assert list(told) == names
    with_schemas = [name for name in names if any("schema" in one for one in told[name])]
    assert with_schemas == names[: len(with_schemas)]
    assert 1 <= len(with_schemas) < len(names)
