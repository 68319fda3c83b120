"""What happened, as it was at every point, live and again: lists, states, streams, and why."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api.faces.executions.state import state_at
from pyoco_server.http_api.faces.executions.why_texts import CATALOGUES
from tests.conftest import until
from tests.http_api.faces.executions.driving import Driver, expect_refusal
from tests.http_api.live import Event, Live, events, live
from tests.http_api.serving import serving


@pytest.fixture
def drive(client: httpx.AsyncClient) -> Driver:
    return Driver(client)


async def story(drive: Driver) -> str:
    """An execution in which nearly everything happens that can."""
    execution_id = await drive.started(
        {"id": "a", "retry": {"max_attempts": 2}},
        {"id": "w", "type": "wait", "after": ["a"]},
        {"id": "no", "after": ["a"]},
        {"id": "never", "after": ["no"]},
        {"id": "end", "after": ["w", "no"], "join": "any_success"},
    )
    await drive.take(execution_id, "a")
    await drive.ok(execution_id, "a/progress", progress=12.5, message="half of a quarter")
    await drive.ok(execution_id, "a/fail", error={"code": "E1", "message": "first"})
    await drive.take(execution_id, "a", 2)
    await drive.ok(execution_id, "a/wait", waitKey="k", prompt={"q": 1})
    await drive.ok(execution_id, "a/resume", resumeKey="k", payload=[1, 2])
    await drive.ok(execution_id, "a/success", output={"x": "ü"})
    await drive.take(execution_id, "no")
    await drive.ok(execution_id, "no/fail", error={"code": "E2", "message": "second"})
    await drive.ok(execution_id, "w/resume", resumeKey="w", payload="go")
    await drive.do(execution_id, "end")
    await drive.ok(execution_id, "archive")
    return execution_id


async def test_the_state_at_every_point_is_the_fold_of_what_was_listed(drive: Driver) -> None:
    execution_id = await story(drive)
    listed = await drive.events(execution_id)
    for at_seq in range(1, len(listed) + 1):
        shown = await drive.get(execution_id, f"/state?atSeq={at_seq}")
        assert shown == state_at(listed[:at_seq]) | {"atSeq": at_seq}
    now = await drive.get(execution_id)
    assert await drive.get(execution_id, "/state") == now | {"atSeq": len(listed)}
    assert (now["status"], now["archived"]) == ("COMPLETED", True)
    for wrong in (0, len(listed) + 1, -1, "x", 10**20):
        answer = await drive.client.get(f"/executions/{execution_id}/state?atSeq={wrong}")
        expect_refusal(answer, 422, "INVALID_REQUEST")


async def test_events_are_listed_in_pages_without_a_gap(drive: Driver) -> None:
    execution_id = await story(drive)
    whole = await drive.events(execution_id)
    assert [event["seq"] for event in whole] == list(range(1, len(whole) + 1))
    for limit in (1, 7, len(whole)):
        found: list[object] = []
        more = True
        while more:
            page = await drive.get(execution_id, f"/events?afterSeq={len(found)}&limit={limit}")
            assert (page["executionId"], len(page["events"]) <= limit) == (execution_id, True)
            found += page["events"]
            more = page["hasMore"]
        assert found == whole
    assert (await drive.get(execution_id, "/events?afterSeq=999"))["events"] == []
    for wrong in ("limit=2001", "limit=0", "limit=x", "afterSeq=-1", "afterSeq=1e3"):
        answer = await drive.client.get(f"/executions/{execution_id}/events?{wrong}")
        expect_refusal(answer, 422, "INVALID_REQUEST")


async def test_another_gateway_lists_the_same_to_the_byte(config: NatsBackendConfig, drive: Driver) -> None:
    execution_id = await story(drive)
    path = f"/executions/{execution_id}/events"
    async with serving(config) as other:
        assert (await other.get(path)).content == (await drive.client.get(path)).content
        assert (await other.get(path)).json()["events"][-1]["hash"] == (
            await drive.get(execution_id, "/verify")
        )["head"]


@asynccontextmanager
async def streamed(stage: Live, execution_id: str, after: int | None = None) -> AsyncIterator[httpx.Response]:
    headers = {} if after is None else {"Last-Event-ID": str(after)}
    async with stage.client.stream("GET", f"/executions/{execution_id}/stream", headers=headers) as answer:
        yield answer


async def test_a_reader_that_breaks_off_anywhere_goes_on_without_a_gap(config: NatsBackendConfig) -> None:
    async with live(config) as stage:
        drive = Driver(stage.client)
        execution_id = await story(drive)
        whole = await drive.events(execution_id)
        for cut in range(len(whole) + 1):
            seen: list[Event] = []
            if cut:
                async with streamed(stage, execution_id) as answer:
                    async for event in events(answer):
                        seen.append(event)
                        if len(seen) == cut:
                            break
            async with streamed(stage, execution_id, after=cut or None) as answer:
                if cut == len(whole):
                    assert answer.status_code == 204
                else:
                    seen += [event async for event in events(answer)]
            assert [event.data for event in seen] == whole
            assert [event.id for event in seen] == [str(event["seq"]) for event in whole]
        path = f"/executions/{execution_id}/stream"
        assert (await stage.client.get(f"{path}?afterSeq=999")).status_code == 204
        live_one = await drive.create()
        for wrong, where in (("x", execution_id), ("-1", execution_id), ("999", live_one)):
            headers = {"Last-Event-ID": wrong}
            answer = await stage.client.get(f"/executions/{where}/stream", headers=headers)
            expect_refusal(answer, 422, "INVALID_REQUEST")
        await until(lambda: len(stage.gateway.streams) == 0)


async def test_what_happens_while_somebody_reads_is_sent_at_once_by_every_gateway(
    config: NatsBackendConfig,
) -> None:
    async with live(config) as here, live(config) as there:
        drive = Driver(there.client)
        execution_id = await drive.started("a")
        got: list[Event] = []

        async def read(stage: Live) -> list[Event]:
            async with streamed(stage, execution_id) as answer:
                assert answer.headers["cache-control"] == "no-store"
                found = []
                async for event in events(answer):
                    found.append(event)
                    got.append(event)
                return found

        readers = [asyncio.create_task(read(stage)) for stage in (here, there)]
        await until(lambda: len(got) == 8)  # what was there when they came
        for number in range(30):
            if number == 0:
                await drive.take(execution_id, "a")
            await drive.ok(execution_id, "a/progress", progress=number)
        await drive.ok(execution_id, "a/success")
        async with asyncio.timeout(30):
            first, second = await asyncio.gather(*readers)
        whole = await drive.events(execution_id)
        assert [event.data for event in first] == [event.data for event in second] == whole


async def test_lists_show_what_stands_so_in_pages(drive: Driver) -> None:
    await drive.graph("a")
    await drive.graph("a", graph_id="h")
    active = [await drive.create() for _ in range(5)]
    other = await drive.create("h")
    flow = await drive.create("flow:g")
    done = await drive.create()
    await drive.ok(done, "start")
    await drive.do(done, "a")
    await drive.ok(active[0], "cancel")

    async def listed(query: str) -> list[str]:
        found: list[str] = []
        cursor = ""
        while True:
            page = (await drive.client.get(f"/executions?limit=2&{query}{cursor}")).json()
            found += [one["executionId"] for one in page["executions"]]
            if "nextCursor" not in page:
                return found
            cursor = f"&cursor={page['nextCursor']}"

    assert await listed("") == [active[0], done, flow, other, *reversed(active[1:])]
    assert await listed("status=ACTIVE") == [flow, other, *reversed(active[1:])]
    assert await listed("status=CANCELED") == [active[0]]
    assert await listed("status=COMPLETED&graphId=g") == [done]
    assert await listed("graphId=h&status=ACTIVE") == [other]
    assert await listed("graphId=flow:g") == [flow]
    assert await listed("graphId=nothing") == []
    await drive.ok(done, "archive")
    assert await listed("status=COMPLETED") == []
    for wrong in ("status=RUNNING", "limit=201", "limit=0", "cursor=x"):
        expect_refusal(await drive.client.get(f"/executions?{wrong}"), 422, "INVALID_REQUEST")
    page = (await drive.client.get("/executions?limit=1")).json()
    moved = await drive.client.get(f"/executions?limit=1&status=ACTIVE&cursor={page['nextCursor']}")
    expect_refusal(moved, 422, "INVALID_REQUEST")


async def test_why_says_what_it_waits_for_and_then_what_was_refused(drive: Driver) -> None:
    await drive.graph("a", {"id": "b", "after": ["a"]})
    execution_id = await drive.create()

    async def why(language: str = "en") -> dict[str, Any]:
        headers = {"Accept-Language": language}
        answer = await drive.client.get(f"/executions/{execution_id}/why", headers=headers)
        body: dict[str, Any] = answer.json()
        assert set(body) == {"summary", "reasons", "refused"}
        return body

    assert "not started" in str((await why())["summary"])
    await drive.ok(execution_id, "start")
    told = await why()
    assert told["reasons"] == [
        {
            "reason": "READY",
            "message": "Node a is READY: its driver may start attempt 1.",
            "nodeId": "a",
        },
        {"reason": "AFTER", "message": "Node b comes after a.", "nodeId": "b"},
    ]
    await drive.take(execution_id, "a", worker="w7")
    assert "w7" in str((await why())["summary"])
    await drive.ok(execution_id, "cancel")
    await drive.on(execution_id, "a/success", {"output": 1})
    told = await why()
    assert "CANCELED" in str(told["summary"])
    (refused,) = told["refused"]
    assert (refused["command"], refused["reason"], refused["nodeId"]) == (
        "SucceedNode",
        "EXECUTION_TERMINAL",
        "a",
    )
    assert "CANCELED です" in str((await why("ja"))["summary"])
    for _ in range(25):
        await drive.on(execution_id, "start")
    assert len((await why())["refused"]) == 20


def test_both_languages_have_every_sentence_with_the_same_places() -> None:
    def places(text: str) -> set[str]:
        return {part.partition("}")[0] for part in text.split("{")[1:]}

    english, japanese = CATALOGUES["en"], CATALOGUES["ja"]
    assert {name: places(text) for name, text in english.items()} == {
        name: places(text) for name, text in japanese.items()
    }


async def test_a_run_is_the_same_on_the_runs_face(drive: Driver) -> None:
    execution_id = await drive.started("a", {"id": "w", "type": "wait"})
    run = (await drive.client.get(f"/runs/{execution_id}?include=records")).json()
    assert (run["status"], run["flow_name"]) == ("RUNNING", "graph:g")
    assert run["tasks"] == {"a": "PENDING", "w": "RUNNING"}
    cancelled = await drive.client.post(f"/runs/{execution_id}/cancel")
    assert cancelled.status_code == 200
    assert (await drive.statuses(execution_id))[0] == "CANCELED"
    assert json.loads((await drive.client.get(f"/runs/{execution_id}")).content)["status"] == "CANCELLED"
