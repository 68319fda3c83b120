"""POST /runs/batch and /batches: many runs in one request, each once, cancelled and followed together."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from collections.abc import Sequence
from typing import Any

import httpx
import pytest
from msgspec.structs import replace

from pyoco_server.clock import elapsed
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import NotFound, Unavailable
from pyoco_server.housekeeping import cancelled_batches
from pyoco_server.http_api.faces.runs.batches import body
from pyoco_server.ids import new_uuid
from pyoco_server.operations.batches import cancel
from pyoco_server.operations.batches import submit as batch_submit
from pyoco_server.operations.batches.cancel import cancel_batch
from pyoco_server.operations.batches.records import change_batch
from pyoco_server.operations.runs.cancel import cancel_run
from pyoco_server.operations.runs.submit import submit as submit_run
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.store.batches import RunBatch
from pyoco_server.store.runs.stored_run import StoredRun
from pyoco_server.store.store import Store
from tests.conftest import NatsServer, until
from tests.http_api.serving import expect_error, serving
from tests.worker.stage import Flows, config_on, jobs_queued, lawful, one_task, working

NDJSON = {"Content-Type": "application/x-ndjson"}


@pytest.fixture
def config(nats_server: NatsServer) -> NatsBackendConfig:
    return config_on(nats_server, housekeeping_interval_sec=0.1)


def items(count: int, **members: Any) -> list[dict[str, Any]]:
    return [{"flow_name": "noop", "params": {"n": n}} | members for n in range(count)]


def lines_of(answer: httpx.Response) -> tuple[dict[str, Any], list[dict[str, Any]], dict[str, Any]]:
    """The first line, those of the items, and the last one."""
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/x-ndjson"
    first, *found, last = [json.loads(line) for line in answer.text.splitlines()]
    assert first["batch_id"] == last["batch_id"]
    assert [one["index"] for one in found] == list(range(first["total"]))
    return first, found, last


async def sent(
    client: httpx.AsyncClient, wanted: Sequence[object], key: str | None = None, **query: str
) -> httpx.Response:
    headers = {"Idempotency-Key": key} if key is not None else {}
    return await client.post("/runs/batch", json=wanted, headers=headers, params=query)


async def listed(client: httpx.AsyncClient, batch_id: str) -> list[dict[str, Any]]:
    answer = await client.get("/runs", params={"batch_id": batch_id, "limit": 200})
    runs: list[dict[str, Any]] = answer.json()["items"]
    return runs


async def test_every_item_is_a_run_of_the_batch(
    client: httpx.AsyncClient, config: NatsBackendConfig, store: Store
) -> None:
    first, found, last = lines_of(await sent(client, items(3)))
    assert first["total"] == 3
    assert last == {"batch_id": first["batch_id"], "total": 3, "accepted": 3, "refused": 0, "complete": True}
    assert {one["status"] for one in found} == {"PENDING"}
    assert await jobs_queued(store) == 3
    runs = {run["run_id"] for run in await listed(client, first["batch_id"])}
    assert runs == {one["run_id"] for one in found}
    flows = Flows(noop=one_task(lambda n: n))
    async with working(config, flows) as worker:
        for _ in range(3):
            await worker.run_once(timeout=20.0)
    for one in found:
        assert (await client.get(f"/runs/{one['run_id']}/result")).json() == one["index"]
        assert (await lawful(store, one["run_id"])).pyoco.batch_id == first["batch_id"]
    shown = (await client.get(f"/batches/{first['batch_id']}")).json()
    assert (shown["counts"]["COMPLETED"], shown["is_over"], shown["accepted"]) == (3, True, 3)
    assert [one["batch_id"] for one in (await client.get("/batches")).json()] == [first["batch_id"]]


async def test_lines_of_json_and_items_that_are_refused_by_themselves(client: httpx.AsyncClient) -> None:
    content = b'{"flow_name": "noop"}\n\n{"flow_name": ""}\n{"params": {}}\nnonsense\n{"flow_name": "noop"}'
    answer = await client.post("/runs/batch", content=content, headers=NDJSON)
    _, found, last = lines_of(answer)
    assert ["run_id" in one for one in found] == [True, False, False, False, True]
    assert [one["error"]["detail"][0]["loc"] for one in found[1:4]] == [
        ["body", "flow_name"],
        ["body", "flow_name"],
        ["body"],
    ]
    assert (last["accepted"], last["refused"], last["complete"]) == (2, 3, True)


async def test_an_atomic_batch_with_an_invalid_item_submits_nothing(
    client: httpx.AsyncClient, store: Store
) -> None:
    wanted = [*items(2), {"flow_name": "noop", "tag": "a tag"}]
    answer = await sent(client, wanted, atomic="true")
    assert answer.status_code == 422
    assert [one["loc"] for one in answer.json()["detail"]] == [["body", 2, "tag"]]
    assert await jobs_queued(store) == 0
    assert (await client.get("/batches")).json() == []
    assert lines_of(await sent(client, wanted[:2], atomic="true"))[2]["accepted"] == 2


@pytest.mark.parametrize(
    ("content", "headers", "status"),
    [
        (b"[]", {}, 422),
        (b"\n\n", NDJSON, 422),
        (b'{"flow_name": "noop"}', {}, 422),
        (b"[" * 100_000, {}, 422),
        (b"[1", {}, 422),
        (b"a=b", {"Content-Type": "application/x-www-form-urlencoded"}, 415),
        (b"{}\n" * 10_001, NDJSON, 413),
    ],
)
async def test_what_is_no_batch_is_refused(
    client: httpx.AsyncClient, content: bytes, headers: dict[str, str], status: int
) -> None:
    given = headers or {"Content-Type": "application/json"}
    answer = await client.post("/runs/batch", content=content, headers=given)
    assert answer.status_code == status, answer.text
    assert (await client.get("/batches")).json() == []


async def test_a_body_that_is_too_large_is_refused_while_it_is_read(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(body, "BODY_BYTES_MAX", 1000)
    expect_error(await sent(client, items(100)), 413, "ERR-PYOCO-0002")


@pytest.mark.parametrize(
    ("content", "headers"),
    [
        (b"11\n" * (body.BODY_BYTES_MAX // 3), NDJSON),
        (b"[" + b"1," * (body.BODY_BYTES_MAX // 2 - 1) + b"1]", {"Content-Type": "application/json"}),
    ],
    ids=["lines", "array"],
)
async def test_very_many_items_are_refused_in_little_memory(
    client: httpx.AsyncClient, content: bytes, headers: dict[str, str]
) -> None:
    """As objects they would take up to two gigabytes."""
    tracemalloc.start()
    try:
        answer = await client.post("/runs/batch", content=content, headers=headers)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    expect_error(answer, 413, "ERR-PYOCO-0002")
    assert most < 5 * body.BODY_BYTES_MAX


async def test_an_item_that_is_certain_to_be_too_large_is_not_parsed(client: httpx.AsyncClient) -> None:
    large = b'{"flow_name": "noop", "params": {"a": [' + b"1," * 5_000_000 + b"1]}}"
    content = b'{"flow_name": "noop"}\n' + large
    tracemalloc.start()
    try:
        answer = await client.post("/runs/batch", content=content, headers=NDJSON)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    _, found, last = lines_of(answer)
    assert "PYOCO_PARAMS_MAX_BYTES" in found[1]["error"]["detail"]
    assert (last["accepted"], last["refused"]) == (1, 1)
    assert most < 6 * len(content)


async def test_commas_within_items_are_no_items(client: httpx.AsyncClient) -> None:
    params = {"numbers": list(range(20)), "text": 'a,"[{\\",' * 50, "nested": [{"a": [1, 2]}, {}]}
    wanted = [{"flow_name": "noop", "params": params}] * 300
    assert json.dumps(wanted).count(",") < body.COMMAS_MAX
    with pytest.MonkeyPatch.context() as counted:
        counted.setattr(body, "COMMAS_MAX", 10)
        counted.setattr(body, "ITEMS_MAX", 300)
        assert lines_of(await sent(client, wanted))[2]["accepted"] == 300
        expect_error(await sent(client, [*wanted, wanted[0]]), 413, "ERR-PYOCO-0002")


async def test_a_repeated_request_makes_no_second_run(client: httpx.AsyncClient, store: Store) -> None:
    wanted = [*items(2), {"flow_name": ""}]
    once = await sent(client, wanted, "key")
    again = await sent(client, wanted, "key")
    assert once.text == again.text
    assert (once.headers.get("idempotency-replayed"), again.headers["idempotency-replayed"]) == (None, "true")
    assert await jobs_queued(store) == 2
    assert (await sent(client, items(2), "key")).status_code == 409


async def test_after_an_interruption_the_same_request_submits_the_rest(
    client: httpx.AsyncClient, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answers of the broker are lost from the third item on, one run exists all the same."""
    monkeypatch.setattr(body, "PORTION", 2)
    begun: list[str] = []

    async def losing(store: Store, wanted: Any, **how: Any) -> StoredRun:
        begun.append(wanted.run_id)
        number = len(begun)
        if number == 4:
            raise Unavailable("The broker did not answer.")
        stored = await submit_run(store, wanted, **how)
        if number == 3:
            raise Unavailable("The answer of the broker was lost.")
        return stored

    with monkeypatch.context() as lost:
        lost.setattr(batch_submit, "submit", losing)
        first, found, last = lines_of(await sent(client, items(6), "key"))
    assert ["error" in one for one in found] == [False, False, True, True, True, True]
    assert (last["accepted"], last["complete"]) == (2, False)
    assert (await client.get(f"/batches/{first['batch_id']}")).json()["submitted_at"] is None

    second, again, end = lines_of(await sent(client, items(6), "key"))
    assert second == first
    assert (end["accepted"], end["complete"]) == (6, True)
    assert [one["run_id"] for one in again[:4]] == begun[:4]
    assert await jobs_queued(store) == 6
    for one in again:
        stored = await store.runs.load(one["run_id"], at_leader=True)
        assert stored is not None
        assert stored.commits == 1


async def test_a_cancel_ends_every_run_of_the_batch(client: httpx.AsyncClient) -> None:
    first, found, _ = lines_of(await sent(client, items(5)))
    path = f"/batches/{first['batch_id']}"
    cancelled = await client.post(f"{path}/cancel", json={"reason": "enough"})
    assert cancelled.status_code == 200
    assert cancelled.json()["cancel_reason"] == "enough"
    for one in found:
        shown = (await client.get(f"/runs/{one['run_id']}", params={"wait": 20})).json()
        assert (shown["status"], shown["cancel_reason"]) == ("CANCELLED", "enough")
    assert (await client.get(path)).json()["is_over"]
    again = (await client.post(f"{path}/cancel", json={"reason": "other"})).json()
    assert (again["cancel_reason"], again["cancelled_at"]) == ("enough", cancelled.json()["cancelled_at"])


async def test_a_retry_of_a_cancelled_item_does_not_belong_to_the_batch(client: httpx.AsyncClient) -> None:
    first, [one], _ = lines_of(await sent(client, items(1)))
    await client.post(f"/batches/{first['batch_id']}/cancel")
    await client.get(f"/runs/{one['run_id']}", params={"wait": 20})
    again = (await client.post(f"/runs/{one['run_id']}/retry")).json()
    assert "batch_id" not in (await client.get(f"/runs/{again['run_id']}")).json()


async def test_a_cancel_during_the_submission_also_ends_runs_that_it_could_not_see(
    client: httpx.AsyncClient, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cancel is accepted while the second portion is being created."""
    monkeypatch.setattr(body, "PORTION", 2)
    begun: list[str] = []

    async def cancelling(store: Store, wanted: Any, **how: Any) -> StoredRun:
        begun.append(wanted.run_id)
        if len(begun) == 3:
            await cancel_batch(store, wanted.batch_id, by=None, reason=None, tenant_id=None)
        return await submit_run(store, wanted, **how)

    monkeypatch.setattr(batch_submit, "submit", cancelling)
    first, found, last = lines_of(await sent(client, items(6), "key"))
    assert ["error" in one for one in found] == [False] * 4 + [True] * 2
    assert (last["accepted"], last["refused"], last["complete"]) == (4, 2, True)
    for run_id in begun:
        shown = (await client.get(f"/runs/{run_id}", params={"wait": 20})).json()
        assert shown["status"] == "CANCELLED"
    assert lines_of(await sent(client, items(6), "key")) == (first, found, last)
    assert len(begun) == 4


async def test_a_cancel_survives_the_gateway_that_accepted_it(
    client: httpx.AsyncClient, config: NatsBackendConfig, store: Store
) -> None:
    """The gateway ends after the cancel was stored. Housekeeping, here or there, does the rest."""
    first, found, _ = lines_of(await sent(client, items(3)))
    await cancel_batch(store, first["batch_id"], by="ann", reason=None, tenant_id=None)
    async with serving(config) as other:
        for one in found:
            shown = (await other.get(f"/runs/{one['run_id']}", params={"wait": 20})).json()
            assert shown["status"] == "CANCELLED"

    async def is_done() -> bool:
        return await store.cancelled_batches.oldest(1) == []

    await until(is_done)


async def test_an_accepted_cancel_has_its_note_also_if_it_took_long(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gateway is paused before it writes the record, and housekeeping removes the note meanwhile."""
    batch_id = new_uuid()
    await store.batches.put(RunBatch(batch_id=batch_id, created_at=1.0, total=1), revision=0)

    async def after_a_pause(*asked: Any) -> RunBatch:
        [noted] = await store.cancelled_batches.oldest(1)
        await store.cancelled_batches.remove(batch_id, noted.revision)
        return await change_batch(*asked)

    monkeypatch.setattr(cancel, "change_batch", after_a_pause)
    await cancel_batch(store, batch_id, by=None, reason=None, tenant_id=None)
    assert [one.run_id for one in await store.cancelled_batches.oldest(1)] == [batch_id]


async def test_a_run_that_cannot_be_cancelled_does_not_keep_the_cancel_of_its_batch_busy(
    client: httpx.AsyncClient, store: Store, read_model: ReadModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is in the list of runs, and its log is gone."""
    first, [one, _], _ = lines_of(await sent(client, items(2)))
    batch = await cancel_batch(store, first["batch_id"], by=None, reason=None, tenant_id=None)

    async def gone(store: Store, run_id: str, **how: Any) -> object:
        if run_id == one["run_id"]:
            raise NotFound("There is no such run.")
        return await cancel_run(store, run_id, **how)

    monkeypatch.setattr(cancel, "cancel_run", gone)
    assert await asyncio.wait_for(cancel.cancel_its_runs(store, read_model, batch), 20) <= 2


async def test_a_batch_is_followed_until_it_is_over(
    client: httpx.AsyncClient, config: NatsBackendConfig
) -> None:
    first, _, _ = lines_of(await sent(client, items(2)))
    path = f"/batches/{first['batch_id']}/watch"

    async def followed() -> list[dict[str, Any]]:
        text = (await client.get(path, params={"timeout_sec": 60})).text
        return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]

    following = asyncio.create_task(followed())
    async with working(config, Flows(noop=one_task(lambda n: n))) as worker:
        for _ in range(2):
            await worker.run_once(timeout=20.0)
    states = await following
    assert (states[0]["is_over"], states[-1]["is_over"]) == (False, True)
    assert states[-1]["counts"]["COMPLETED"] == 2


async def test_a_cancel_also_ends_runs_of_a_request_that_was_overtaken_by_its_repetition(
    client: httpx.AsyncClient, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first request is paused, the second is processed to the end, the batch is cancelled. Then the first
    one creates a run and its process ends before it reads the cancel."""

    async def away(*_: object, **__: object) -> StoredRun:
        raise Unavailable("The broker did not answer.")

    with monkeypatch.context() as lost:
        lost.setattr(batch_submit, "submit", away)
        first, _, _ = lines_of(await sent(client, items(2), "key"))
    _, found, last = lines_of(await sent(client, items(2), "key"))
    assert last["complete"]
    batch_id = first["batch_id"]
    await client.post(f"/batches/{batch_id}/cancel")
    looks: list[float] = []

    def counted() -> float:
        looks.append(elapsed())
        return looks[-1] + 1_000.0 * len(looks)  # so each round looks

    monkeypatch.setattr(cancelled_batches, "elapsed", counted)
    await until(lambda: len(looks) >= 8)
    of_first = await store.runs.submission(found[0]["run_id"])
    assert of_first is not None
    late = replace(of_first, run_id=batch_submit.run_id_of(batch_id, 2))
    await submit_run(store, late)

    async def is_cancelled() -> bool:
        return bool((await client.get(f"/runs/{late.run_id}")).json()["status"] == "CANCELLED")

    await until(is_cancelled)


async def followed(client: httpx.AsyncClient, batch_id: str) -> list[dict[str, Any]]:
    text = (await client.get(f"/batches/{batch_id}/watch", params={"timeout_sec": 60})).text
    return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]


async def test_a_batch_that_is_followed_while_it_is_submitted_ends(
    client: httpx.AsyncClient, config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is shown is of the record as it is now, not as it was when the stream began."""
    begun: list[str] = []
    may_go_on = asyncio.Event()

    async def waiting(store: Store, wanted: Any, **how: Any) -> StoredRun:
        begun.append(wanted.batch_id)
        await may_go_on.wait()
        return await submit_run(store, wanted, **how)

    monkeypatch.setattr(batch_submit, "submit", waiting)
    submitting = asyncio.create_task(sent(client, items(2)))
    await until(lambda: bool(begun))
    following = asyncio.create_task(followed(client, begun[0]))
    async with working(config, Flows(noop=one_task(lambda n: n))) as worker:
        may_go_on.set()
        await submitting
        for _ in range(2):
            await worker.run_once(timeout=20.0)
        states = await asyncio.wait_for(following, timeout=20.0)
    assert (states[0]["submitted_at"], states[0]["is_over"]) == (None, False)
    assert (states[-1]["accepted"], states[-1]["is_over"]) == (2, True)


async def test_a_stream_shows_the_cancel_of_its_batch(client: httpx.AsyncClient) -> None:
    first, _, _ = lines_of(await sent(client, items(2)))
    following = asyncio.create_task(followed(client, first["batch_id"]))
    await client.post(f"/batches/{first['batch_id']}/cancel", json={"reason": "enough"})
    states = await asyncio.wait_for(following, timeout=20.0)
    assert (states[-1]["counts"]["CANCELLED"], states[-1]["is_over"]) == (2, True)


async def test_an_unknown_batch_is_not_found(client: httpx.AsyncClient) -> None:
    for path in ("nonsense", "00000000-0000-4000-8000-000000000000", "a*b"):
        assert (await client.get(f"/batches/{path}")).status_code == 404
        assert (await client.post(f"/batches/{path}/cancel")).status_code == 404
