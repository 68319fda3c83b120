"""POST /runs/{id}/cancel: always accepted, CANCELLING in the answer, CANCELLED in the end."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import httpx
import pytest

from pyoco_server.store.store import Store
from tests.conftest import until
from tests.engine.building import raising
from tests.http_api.serving import expect_error, submit
from tests.worker.stage import Flows, count_of, ended_as, one_task, working

NOBODY = "0e2f3b5c-5d59-4f2a-9b40-b1c7a3b6a7d0"


async def cancel(client: httpx.AsyncClient, run_id: str, **request: Any) -> dict[str, Any]:
    answer = await client.post(f"/runs/{run_id}/cancel", **request)
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def test_a_pending_run_is_cancelled_without_a_worker(client: httpx.AsyncClient, store: Store) -> None:
    run_id = await submit(client)
    answer = await cancel(client, run_id)
    assert (answer["run_id"], answer["status"]) == (run_id, "CANCELLING")
    assert answer["cancel_requested_at"]
    assert answer["end_time"] is None
    shown = (await client.get(f"/runs/{run_id}")).json()
    assert (shown["status"], shown["cancel_requested_at"]) == ("CANCELLED", answer["cancel_requested_at"])
    await ended_as(store, run_id, "CANCELLED")
    assert [run["run_id"] for run in (await client.get("/runs?status=CANCELLED")).json()] == [run_id]


async def test_the_reason_of_a_cancel_is_shown(client: httpx.AsyncClient) -> None:
    run_id, other = await submit(client), await submit(client)
    answer = await cancel(client, run_id, json={"reason": "the wrong day"})
    assert answer["cancel_reason"] == "the wrong day"
    shown = (await client.get(f"/runs/{run_id}")).json()
    assert shown["cancel_reason"] == "the wrong day"
    # Without a reason there is no such member.
    assert "cancel_reason" not in await cancel(client, other)


async def test_a_running_run_is_cancelling_until_its_code_has_stopped(
    client: httpx.AsyncClient, store: Store
) -> None:
    started, go_on = threading.Event(), threading.Event()

    def stops_late(ctx: Any) -> None:
        started.set()
        go_on.wait(20)
        assert ctx.is_cancelled

    async with working(store.config, Flows(slow=one_task(stops_late))) as worker:
        run_id = await submit(client, "slow")
        running = asyncio.create_task(worker.run_once(timeout=20.0))
        await until(started.is_set)
        assert (await cancel(client, run_id))["status"] == "CANCELLING"
        assert (await client.get(f"/runs/{run_id}")).json()["status"] == "CANCELLING"
        again = await cancel(client, run_id)
        assert again["status"] == "CANCELLING"
        assert await count_of(store, run_id, "CancelRequested") == 1
        go_on.set()
        await running
    assert (await client.get(f"/runs/{run_id}")).json()["status"] == "CANCELLED"
    await ended_as(store, run_id, "CANCELLED")


async def test_a_run_that_is_over_is_answered_as_it_ended(client: httpx.AsyncClient, store: Store) -> None:
    async with working(store.config, Flows(fails=one_task(raising(ValueError("no"))))) as worker:
        completed, failed = await submit(client), await submit(client, "fails")
        for _ in range(2):
            await worker.run_once(timeout=20.0)
    for run_id, status in ((completed, "COMPLETED"), (failed, "FAILED")):
        before = (await client.get(f"/runs/{run_id}")).json()
        assert await cancel(client, run_id) == before
        assert (await ended_as(store, run_id, status)).cancel_requested_at is None


async def test_a_second_cancel_answers_cancelled(client: httpx.AsyncClient) -> None:
    run_id = await submit(client)
    await cancel(client, run_id)
    assert (await cancel(client, run_id))["status"] == "CANCELLED"


async def test_a_reason_may_be_given(client: httpx.AsyncClient, store: Store) -> None:
    run_id = await submit(client)
    await cancel(client, run_id, json={"reason": "too expensive", "unknown": 1})
    assert (await ended_as(store, run_id, "CANCELLED")).pyoco.cancel_reason == "too expensive"


@pytest.mark.parametrize("body", [b"", b"  ", b"{}", b"null", b"[]", b'{"reason": 7}'])
async def test_a_body_without_a_reason_is_as_good(client: httpx.AsyncClient, body: bytes) -> None:
    assert (await cancel(client, await submit(client), content=body))["status"] == "CANCELLING"


@pytest.mark.parametrize("body", [b"{", b"\xff", b"[" * 10_000])
async def test_a_body_that_is_no_json_is_refused_and_cancels_nothing(
    client: httpx.AsyncClient, body: bytes
) -> None:
    run_id = await submit(client)
    expect_error(await client.post(f"/runs/{run_id}/cancel", content=body), 422, "ERR-PYOCO-0002")
    assert (await client.get(f"/runs/{run_id}")).json()["status"] == "PENDING"


@pytest.mark.parametrize("run_id", ["nope", NOBODY, "a.b", "*"])
async def test_a_run_that_is_not_there_is_not_found(client: httpx.AsyncClient, run_id: str) -> None:
    expect_error(await client.post(f"/runs/{run_id}/cancel"), 404, "ERR-PYOCO-0005")


async def test_an_accepted_cancel_is_never_lost_among_many(client: httpx.AsyncClient, store: Store) -> None:
    run_id = await submit(client)
    answers = await asyncio.gather(*(cancel(client, run_id) for _ in range(20)))
    assert {answer["status"] for answer in answers} <= {"CANCELLING", "CANCELLED"}
    await ended_as(store, run_id, "CANCELLED")
    assert await count_of(store, run_id, "CancelRequested") == 1
