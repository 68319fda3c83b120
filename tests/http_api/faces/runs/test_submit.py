"""POST /runs: what is accepted, what is refused and where, and that nothing of it is echoed."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from pyoco_server.store.store import Store
from tests.conftest import NatsServer
from tests.http_api.serving import expect_error, serving, submit
from tests.worker.stage import Flows, config_on, ended_as, jobs_queued, lawful, one_task, working

SECRET = "hunter2-should-never-come-back"


async def test_a_run_is_stored_and_queued_when_it_is_answered(
    client: httpx.AsyncClient, store: Store
) -> None:
    asked = {"flow_name": "noop", "params": {"a": [1, "が", None]}, "tag": "cpu", "tags": ["x", "y"]}
    answer = await client.post("/runs", json=asked)
    assert answer.status_code == 200
    assert set(answer.json()) == {"run_id", "status"}
    assert answer.json()["status"] == "PENDING"
    run_id = answer.json()["run_id"]
    assert str(uuid.UUID(run_id)) == run_id
    stored = await lawful(store, run_id)
    assert (stored.status, stored.params, stored.tag, stored.tags) == (
        "PENDING",
        asked["params"],
        "cpu",
        ["x", "y"],
    )
    assert await jobs_queued(store) == 1


async def test_what_is_left_out_has_its_default(client: httpx.AsyncClient, store: Store) -> None:
    stored = await lawful(store, await submit(client))
    assert (stored.params, stored.tag, stored.tags) == ({}, "default", ["default"])


async def test_the_same_body_twice_is_two_runs(client: httpx.AsyncClient) -> None:
    assert await submit(client) != await submit(client)


async def test_unknown_members_are_ignored(client: httpx.AsyncClient) -> None:
    assert await submit(client, some_day="perhaps")


async def test_correlation_reaches_the_code(client: httpx.AsyncClient, store: Store) -> None:
    seen: list[Any] = []
    flows = Flows(look=one_task(lambda ctx: seen.append(ctx.run_context.metadata["correlation_id"])))
    async with working(store.config, flows) as worker:
        headers = {"X-Correlation-Id": "order-7", "traceparent": f"00-{'a' * 32}-{'b' * 16}-01"}
        answer = await client.post("/runs", json={"flow_name": "look"}, headers=headers)
        await worker.run_once(timeout=20.0)
    assert seen == ["order-7"]
    ended = await ended_as(store, answer.json()["run_id"], "COMPLETED")
    assert (ended.pyoco.correlation_id, ended.pyoco.traceparent) == ("order-7", headers["traceparent"])


MANY = [str(number) for number in range(33)]
BAD_BODIES: dict[str, tuple[Any, list[str], str]] = {
    "no JSON": (b"{flow_name: " + SECRET.encode(), ["body"], "json_invalid"),
    "empty": (b"", ["body"], "json_invalid"),
    "not UTF-8": (b'{"flow_name": "\xff"}', ["body"], "json_invalid"),
    "not a number": (b'{"flow_name": "f", "params": {"a": NaN}}', ["body"], "json_invalid"),
    "infinity": (b'{"flow_name": "f", "params": {"a": -Infinity}}', ["body"], "json_invalid"),
    "a number beyond all": (b'{"flow_name": "f", "params": {"a": 1e999}}', ["body", "params"], "value_error"),
    "nested too deeply": (
        b'{"flow_name": "f", "params": {"a": ' + b"[" * 10_000 + b"]" * 10_000 + b"}}",
        ["body"],
        "json_invalid",
    ),
    "a list": ([SECRET], ["body"], "value_error"),
    "no flow_name": ({"params": {}}, ["body", "flow_name"], "missing"),
    "flow_name a number": ({"flow_name": 7}, ["body", "flow_name"], "value_error"),
    "flow_name empty": ({"flow_name": " "}, ["body", "flow_name"], "value_error"),
    "flow_name too long": ({"flow_name": "f" * 257}, ["body", "flow_name"], "value_error"),
    "params a list": ({"flow_name": "f", "params": [SECRET]}, ["body", "params"], "value_error"),
    "params null": ({"flow_name": "f", "params": None}, ["body", "params"], "value_error"),
    "tag with a dot": ({"flow_name": "f", "tag": "a.b"}, ["body", "tag"], "routing_tag"),
    "tag empty": ({"flow_name": "f", "tag": ""}, ["body", "tag"], "routing_tag"),
    "tag a wildcard": ({"flow_name": "f", "tag": ">"}, ["body", "tag"], "routing_tag"),
    "tag a number": ({"flow_name": "f", "tag": 1}, ["body", "tag"], "value_error"),
    "tags a string": ({"flow_name": "f", "tags": "a"}, ["body", "tags"], "value_error"),
    "tags too many": (
        {"flow_name": "f", "tags": [str(n) for n in range(33)]},
        ["body", "tags"],
        "value_error",
    ),
    "a tag of tags too long": ({"flow_name": "f", "tags": ["t" * 65]}, ["body", "tags"], "value_error"),
}


@pytest.mark.parametrize(("body", "place", "kind"), BAD_BODIES.values(), ids=BAD_BODIES)
async def test_a_bad_body_is_refused_with_its_place_and_without_its_content(
    client: httpx.AsyncClient, store: Store, body: Any, place: list[str], kind: str
) -> None:
    content = body if isinstance(body, bytes) else json.dumps(body)
    answer = await client.post("/runs", content=content)
    refused = expect_error(answer, 422, "ERR-PYOCO-0002")
    assert refused["message"] == "The request is not valid"
    problem = refused["detail"][0]
    assert set(problem) == {"loc", "msg", "type"}
    assert problem["loc"][: len(place)] == place
    assert problem["type"] == kind
    assert SECRET not in answer.text
    assert await jobs_queued(store) == 0


@pytest.mark.parametrize("levels", [64, 100, 400, 900, 930, 950, 970, 990])
async def test_params_nested_deeper_than_we_promise_are_refused(
    client: httpx.AsyncClient, levels: int
) -> None:
    """Where a reader gives up depends on how deep in calls it stands: without a limit some would be lost."""
    refused = expect_error(await client.post("/runs", content=_nested(levels)), 422, "ERR-PYOCO-0002")
    assert refused["detail"][0]["loc"][0] == "body"


async def test_params_nested_as_deep_as_we_promise_are_executed(
    client: httpx.AsyncClient, store: Store
) -> None:
    answer = await client.post("/runs", content=_nested(63))
    assert answer.status_code == 200
    async with working(store.config) as worker:
        assert await worker.run_once(timeout=20.0) == answer.json()["run_id"]
        await ended_as(store, answer.json()["run_id"], "COMPLETED")
    assert (await client.get(f"/runs/{answer.json()['run_id']}")).status_code == 200


async def test_many_brackets_side_by_side_are_not_deep(client: httpx.AsyncClient) -> None:
    await submit(client, params={"a": [[n] for n in range(1000)]})


def _nested(levels: int) -> bytes:
    """Params are one level, and so many lists are in them."""
    return b'{"flow_name": "noop", "params": {"a": ' + b"[" * levels + b"]" * levels + b"}}"


async def test_params_over_their_limit_are_too_large(client: httpx.AsyncClient, store: Store) -> None:
    limit = store.config.params_max_bytes
    fits = {"a": "x" * (limit - len('{"a":""}'))}
    await submit(client, params=fits)
    answer = await client.post("/runs", json={"flow_name": "noop", "params": fits | {"b": 1}})
    refused = expect_error(answer, 413, "ERR-PYOCO-0002")
    assert str(limit) in refused["detail"]
    assert await jobs_queued(store) == 1


@pytest.fixture
async def narrow(nats_server: NatsServer) -> AsyncIterator[httpx.AsyncClient]:
    """Of a gateway that takes bodies of at most 1000 bytes."""
    async with serving(config_on(nats_server, http_max_body_bytes=1000)) as ready:
        yield ready


async def test_a_body_over_the_cap_is_refused_by_its_length(narrow: httpx.AsyncClient) -> None:
    expect_error(await narrow.post("/runs", content=b"x" * 1001), 413, "ERR-PYOCO-0002")
    expect_error(await narrow.post("/runs", content=b"x" * 1000), 422, "ERR-PYOCO-0002")


async def test_a_body_over_the_cap_is_refused_while_it_is_read(narrow: httpx.AsyncClient) -> None:
    sent: list[int] = []

    async def endless() -> AsyncIterator[bytes]:
        for number in range(1000):
            sent.append(number)
            yield b" " * 100

    expect_error(await narrow.post("/runs", content=endless()), 413, "ERR-PYOCO-0002")
    assert len(sent) < 20, "it is not read to its end first"


async def test_a_chunked_body_under_the_cap_is_taken(narrow: httpx.AsyncClient) -> None:
    async def parts() -> AsyncIterator[bytes]:
        yield b'{"flow_name"'
        yield b': "noop"}'

    assert (await narrow.post("/runs", content=parts())).status_code == 200


@pytest.mark.parametrize("letter", ["\n", "\x1b", "\x85", "\u2028", "\u202e"])
async def test_names_of_one_line_have_no_control_characters(client: httpx.AsyncClient, letter: str) -> None:
    bad = f"x{letter}y"
    for body in ({"flow_name": bad}, {"flow_name": "f", "tag": bad}, {"flow_name": "f", "tags": [bad]}):
        expect_error(await client.post("/runs", json=body), 422, "ERR-PYOCO-0002")
    job = await client.post("/jobs", json={"flow": bad})
    assert job.status_code == 422


async def test_a_correlation_id_that_cannot_be_carried_is_refused(client: httpx.AsyncClient) -> None:
    for wrong in (b"x" * 257, b"a\x85b"):
        answer = await client.post("/runs", json={"flow_name": "f"}, headers={b"X-Correlation-Id": wrong})
        assert "X-Correlation-Id" in str(expect_error(answer, 422, "ERR-PYOCO-0002")["detail"])
    ignored = await client.post("/runs", json={"flow_name": "f"}, headers={"traceparent": "zero"})
    run = (await client.get(f"/runs/{ignored.json()['run_id']}")).json()
    assert run.get("traceparent") is None
