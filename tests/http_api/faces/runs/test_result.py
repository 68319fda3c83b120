"""GET /runs/{id}/result: what a run has come to, whole at any size; and what there is instead."""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from pyoco_server.lifecycle.commands import ClaimRun, CompleteRun, PlanTasks, SucceedTask
from pyoco_server.lifecycle.status import OutputKept
from pyoco_server.operations.runs import result as result_module
from pyoco_server.operations.runs.apply import apply
from pyoco_server.store.store import Store
from tests.conftest import until
from tests.engine.building import raising
from tests.http_api.serving import expect_error, submit
from tests.worker.stage import Flows, chain, one_task, output_of, the_run, waiting, working

NOBODY = "00000000-0000-0000-0000-000000000000"
LARGE = [f"line {number} of many" for number in range(100_000)]


async def done(client: httpx.AsyncClient, store: Store, build: Any, **wanted: Any) -> str:
    async with working(store.config, Flows(it=build)) as worker:
        run_id = await submit(client, "it", **wanted)
        await worker.run_once(timeout=10.0)
    return run_id


async def written(store: Store, client: httpx.AsyncClient, *last: str, **outputs: Any) -> str:
    """A run whose worker said which of its tasks are the last."""
    run_id = await submit(client, tag="nobody")
    commands = [
        SucceedTask(fence=1, task=name, attempt=1, started_at=1.0, ended_at=2.0, output=output)
        for name, output in outputs.items()
    ]
    await apply(
        store,
        run_id,
        ClaimRun(worker_id="w", instance_id="w.1", job_no=1),
        PlanTasks(fence=1, tasks=list(outputs), last=list(last)),
        *commands,
        CompleteRun(fence=1),
    )
    return run_id


async def result(client: httpx.AsyncClient, run_id: str, **query: str | float) -> httpx.Response:
    return await client.get(f"/runs/{run_id}/result", params=query)


@pytest.mark.parametrize("output", [None, 0, "text", [1, {"a": "ü"}], {"b": None}], ids=str)
async def test_the_result_is_the_output_of_the_last_task(
    client: httpx.AsyncClient, store: Store, output: Any
) -> None:
    run_id = await done(client, store, chain(lambda: "first", lambda: output))
    answer = await result(client, run_id)
    assert (answer.status_code, answer.json()) == (200, output)
    assert answer.headers["content-type"] == "application/json"


async def test_several_last_tasks_are_answered_by_name(client: httpx.AsyncClient, store: Store) -> None:
    run_id = await written(store, client, "b", 'c"', a=1, b=[2], **{'c"': None})
    assert (await result(client, run_id)).json() == {"b": [2], 'c"': None}
    alone = await written(store, client, "a", a=1, b=2)
    assert (await result(client, alone)).json() == 1


async def test_a_large_result_comes_whole(client: httpx.AsyncClient, store: Store) -> None:
    run_id = await done(client, store, one_task(lambda: LARGE))
    shown = (await client.get(f"/runs/{run_id}", params={"include": "records"})).json()
    assert shown["task_records"]["only"]["kept"] == "referenced"
    answer = await result(client, run_id)
    assert answer.json() == LARGE
    assert answer.content == json.dumps(LARGE, separators=(",", ":")).encode()


async def test_large_results_of_an_earlier_version_come_whole(
    client: httpx.AsyncClient, store: Store
) -> None:
    """Their references have no digest, and their names no fence."""
    run_id = await submit(client, tag="nobody")
    for name in ("a", "b"):
        await store.results.earlier.put(f"{run_id}/{name}/1", json.dumps([name, LARGE]).encode())
    claim = ClaimRun(worker_id="w", instance_id="w.1", job_no=1)
    done = [
        SucceedTask(
            fence=1, task=name, attempt=1, started_at=1.0, ended_at=2.0, kept=OutputKept.REFERENCED,
            output={"object": f"{run_id}/{name}/1", "bytes": 1},
        )
        for name in ("a", "b")
    ]  # fmt: skip
    plan = PlanTasks(fence=1, tasks=["a", "b"], last=["a", "b"])
    await apply(store, run_id, claim, plan, *done, CompleteRun(fence=1))
    assert (await result(client, run_id)).json() == {"a": ["a", LARGE], "b": ["b", LARGE]}
    await store.results.earlier.delete(f"{run_id}/b/1")
    assert "task b" in expect_error(await result(client, run_id), 404, None)["detail"]


@pytest.mark.parametrize(
    ("output", "why"), [(object(), "cannot be written as JSON"), (float("nan"), "cannot be written as JSON")]
)
async def test_a_result_that_is_no_json_is_not_there(
    client: httpx.AsyncClient, store: Store, output: object, why: str
) -> None:
    run_id = await done(client, store, one_task(lambda: output))
    assert why in expect_error(await result(client, run_id), 404, None)["detail"]


async def test_a_failed_run_says_why_it_has_none(client: httpx.AsyncClient, store: Store) -> None:
    run_id = await done(client, store, one_task(raising(ValueError("on purpose"))))
    answer = await result(client, run_id)
    assert answer.status_code == 409
    body = answer.json()
    assert (body["run_id"], body["status"]) == (run_id, "FAILED")
    assert "on purpose" in body["error"]
    assert "FAILED" in body["detail"]


async def test_a_cancelled_run_has_none(client: httpx.AsyncClient) -> None:
    run_id = await submit(client, tag="nobody")
    await client.post(f"/runs/{run_id}/cancel")
    answer = await result(client, run_id, wait=30)
    assert (answer.status_code, answer.json()["status"]) == (409, "CANCELLED")


async def test_a_run_that_is_not_over_has_none_yet(client: httpx.AsyncClient) -> None:
    run_id = await submit(client, tag="nobody")
    for wait in (0, 0.05):
        answer = await result(client, run_id, wait=wait)
        assert (answer.status_code, answer.json()["status"]) == (409, "PENDING")
        assert answer.json()["error"] is None


async def test_whoever_waits_is_answered_at_the_end(client: httpx.AsyncClient, store: Store) -> None:
    started, go_on = threading.Event(), threading.Event()
    async with working(store.config, Flows(waits=one_task(waiting(started, go_on)))) as worker:
        run_id = await submit(client, "waits")
        working_on = asyncio.create_task(worker.run_once(timeout=20.0))
        asking = asyncio.create_task(result(client, run_id, wait=30))
        await until(started.is_set)
        assert not asking.done()
        go_on.set()
        async with asyncio.timeout(10):
            assert (await asking).status_code == 200
        await working_on


@pytest.mark.parametrize("wait", ["-1", "61", "nan", "soon"])
async def test_a_wait_out_of_bounds_is_refused(client: httpx.AsyncClient, wait: str) -> None:
    run_id = await submit(client)
    expect_error(await result(client, run_id, wait=wait), 422, "ERR-PYOCO-0002")


async def test_a_run_that_is_not_there_has_no_result(client: httpx.AsyncClient) -> None:
    expect_error(await result(client, NOBODY), 404, "ERR-PYOCO-0005")


async def replaced(store: Store, run_id: str, task: str = "only") -> None:
    """Its object has other bytes than those that were recorded."""
    run = await the_run(store, run_id)
    await store.results.objects.put(output_of(run, task)["object"], b'"something else"')


async def without_chunks(store: Store, run_id: str, task: str = "only") -> None:
    bucket = store.config.results_object_bucket
    await store.jetstream.api(f"STREAM.PURGE.OBJ_{bucket}", {"filter": f"$O.{bucket}.C.{run_id}.>"})


@pytest.mark.parametrize("in_memory_max", [result_module.IN_MEMORY_BYTES_MAX, 0], ids=["kept", "read twice"])
@pytest.mark.parametrize("damage", [replaced, without_chunks])
async def test_a_result_that_is_not_what_was_recorded_is_an_error_that_names_run_and_task(
    client: httpx.AsyncClient,
    store: Store,
    damage: Callable[[Store, str], Awaitable[None]],
    in_memory_max: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(result_module, "IN_MEMORY_BYTES_MAX", in_memory_max)
    run_id = await done(client, store, one_task(lambda: LARGE))
    assert (await result(client, run_id)).json() == LARGE
    await damage(store, run_id)
    answer = await result(client, run_id)
    assert answer.status_code == 500
    assert run_id in answer.json()["detail"]
    assert "task only" in answer.json()["detail"]


async def test_the_record_of_a_large_result_has_its_size_and_digest(
    client: httpx.AsyncClient, store: Store
) -> None:
    run_id = await done(client, store, one_task(lambda: LARGE))
    data = (await result(client, run_id)).content
    for path in (f"/runs/{run_id}?include=records", f"/runs/{run_id}/tasks"):
        shown = (await client.get(path)).json()["task_records"]["only"]
        assert shown["kept"] == "referenced"
        assert shown["output"]["bytes"] == len(data)
        assert shown["output"]["sha256"] == hashlib.sha256(data).hexdigest()
