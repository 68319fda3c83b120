"""`task_records_truncated`: true in every answer that lacks something the run has, and else false."""

from __future__ import annotations

from typing import Any

import httpx
import msgspec
import pytest
from hypothesis import given

from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api.faces.runs import wire
from pyoco_server.lifecycle.run import Lack
from pyoco_server.lifecycle.snapshot import run_of, snapshot_of
from pyoco_server.lifecycle.status import OutputKept
from pyoco_server.nats_client import PyocoNatsClient
from pyoco_server.store.runs.log import StoredRun
from pyoco_server.store.store import Store
from tests.conftest import NatsServer
from tests.http_api.serving import serving, submit
from tests.lifecycle.support.random_graphs import client_histories
from tests.lifecycle.support.random_runs import QUICK, Commit, Limit, limits, play, wishes
from tests.worker.stage import Flows, chain, config_on, one_task, working

TASKS = 12
FLOWS = Flows(
    many=chain(*[lambda **_: "x" * 400] * TASKS),
    large=one_task(lambda: "x" * 100_000),
    small=one_task(lambda: 1),
)
LIMITS = {Lack.NOTHING: 262_144, Lack.PAYLOADS: 6_000, Lack.RECORDS: 1_600, Lack.TASKS: 1_000}
FLAG = "task_records_truncated"
histories = wishes.map(play) | client_histories


@QUICK
@given(histories, limits)
def test_what_is_shown_of_a_copy_is_the_whole_or_says_that_it_is_not(
    commits: list[Commit], limit: Limit
) -> None:
    run = commits[-1].after
    copy = run_of(snapshot_of(run, max_bytes=limit.of(commits)))
    elsewhere = any(
        record.kept in (OutputKept.REFERENCED, OutputKept.TOO_LARGE) for record in run.tasks.values()
    )
    for make in (_plain, _with_records, wire.tasks):
        shown, whole = make(_stored(copy)), make(_stored(run))
        assert shown.pop(FLAG, False) or {**shown, FLAG: False} == {**whole, FLAG: False}
        if copy.lacks is Lack.NOTHING and not elsewhere:
            assert not whole.get(FLAG, False)


def _stored(run: Any) -> StoredRun:
    return StoredRun(run=run, commits=1, log_seq=1, revision=1)


def _plain(stored: StoredRun) -> dict[str, Any]:
    return wire.snapshot(stored, records=False)


def _with_records(stored: StoredRun) -> dict[str, Any]:
    return wire.snapshot(stored, records=True)


@pytest.mark.parametrize("step", list(LIMITS))
async def test_every_answer_about_a_run_is_whole_or_says_that_it_is_not(
    nats_server: NatsServer, step: Lack
) -> None:
    config = config_on(nats_server, max_run_snapshot_bytes=LIMITS[step])
    async with serving(config) as client, working(config, FLOWS) as worker:
        run_id = await submit(client, "many")
        assert await worker.run_once(timeout=10.0) == run_id
        store = await Store.connect(config, name="test")
        snapshot = await store.runs.snapshots.get(run_id)
        await store.close()
        assert snapshot is not None
        assert snapshot.pyoco.lacks is step
        shown = await _shown(client, config, run_id)
    for name, one in shown.items():
        assert len(one["tasks"]) == TASKS or one[FLAG], name
        if "task_records" in one:
            outputs = [record["output"] for record in one["task_records"].values()]
            assert one[FLAG] is (outputs != ["x" * 400] * TASKS), name
    in_lists = {name for name, one in shown.items() if one.get(FLAG)}
    assert in_lists == (set() if step is Lack.NOTHING else {"list", "page"} | _cancelled(step))


def _cancelled(step: Lack) -> set[str]:
    """The answer to a cancel is made of the snapshot: of its tasks, if it has them."""
    return {"cancel"} if step is Lack.TASKS else set()


async def test_a_result_outside_the_record_is_not_in_the_answer(
    client: httpx.AsyncClient, config: NatsBackendConfig, store: Store
) -> None:
    async with working(config, FLOWS) as worker:
        large, small = await submit(client, "large"), await submit(client, "small")
        assert {await worker.run_once(timeout=10.0), await worker.run_once(timeout=10.0)} == {large, small}
    snapshot = await store.runs.snapshots.get(large)
    assert snapshot is not None
    assert snapshot.task_records_truncated
    for run_id, flag in ((large, True), (small, False)):
        shown = await _shown(client, config, run_id)
        assert {one[FLAG] for one in shown.values() if "task_records" in one} == {flag}


async def _shown(
    client: httpx.AsyncClient, config: NatsBackendConfig, run_id: str
) -> dict[str, dict[str, Any]]:
    """The run in every answer that shows its tasks."""

    async def get(path: str, **query: Any) -> Any:
        answer = await client.get(path, params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    watched = await client.get(f"/runs/{run_id}/watch", params={"include": "full"})
    page = await get("/runs", include="all", updated_after=0)
    async with await PyocoNatsClient.connect(config) as nats_client:
        straight = await nats_client.get_run(run_id)
    return {
        "plain": await get(f"/runs/{run_id}"),
        "records": await get(f"/runs/{run_id}", include="records"),
        "full": await get(f"/runs/{run_id}", include="full"),
        "waited": await get(f"/runs/{run_id}", include="all", wait=1),
        "tasks": await get(f"/runs/{run_id}/tasks"),
        "list": _one(await get("/runs", include="full"), run_id),
        "page": _one(page["items"], run_id),
        "watch": msgspec.json.decode(_data(watched.text))["snapshot"],
        "cancel": (await client.post(f"/runs/{run_id}/cancel")).json(),
        "nats": straight,
    }


def _one(listed: list[dict[str, Any]], run_id: str) -> dict[str, Any]:
    return next(one for one in listed if one["run_id"] == run_id)


def _data(stream: str) -> str:
    return next(line.removeprefix("data: ") for line in stream.splitlines() if line.startswith("data: "))
