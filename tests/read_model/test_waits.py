"""What waits for an answer, as lists have it: oldest first, one tenant's only, the same after a restart."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from pyoco_server.flows import waits as flow_waits
from pyoco_server.lifecycle.events import (
    CancelRequested,
    Event,
    RunErased,
    RunFailed,
    RunParked,
    TaskCancelled,
    TaskFailed,
    TaskResumed,
    TaskSucceeded,
    TaskWaiting,
)
from pyoco_server.lifecycle.status import SLEEP_KEY_PREFIX
from pyoco_server.read_model.run_table import RunTable
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.read_model.waits import OpenWait, WaitPlace, WaitRow
from pyoco_server.store.runs.log import StoredRun
from pyoco_server.store.store import Store
from tests.read_model.test_runs import replaced
from tests.store.making import START, begun, claimed, committed


def waiting(task: str, at: float = START + 2, key: str | None = None) -> TaskWaiting:
    prompt: dict[str, object] = {"ask": task}
    return TaskWaiting(at=at, task=task, attempt=1, wait_key=key or task, prompt=prompt, deadline_at=at + 60)


async def parked(store: Store, *tasks: str, **changes: object) -> StoredRun:
    at = await begun(store, **changes)
    events: list[Event] = [waiting(task) for task in tasks]
    return await committed(store, at, claimed(), *events, RunParked(at=START + 3))


async def shown(model: ReadModel, tenant: str | None = None, limit: int = 100) -> list[tuple[str, str]]:
    await model.catch_up()
    return [(wait.run_id, wait.task) for _, wait in model.runs.waiting(tenant, limit)]


async def test_a_wait_is_listed_with_what_is_needed_to_answer_it(store: Store, read_model: ReadModel) -> None:
    at = await parked(store, "release", flow_name="shipping", tag="gpu")
    await read_model.catch_up()
    [(_, wait)] = read_model.runs.waiting(None, 10)
    assert wait == OpenWait(
        run_id=at.run.run_id,
        task="release",
        wait_key="release",
        prompt={"ask": "release"},
        since=START + 2,
        deadline_at=START + 62,
        flow_name="shipping",
        tag="gpu",
    )


async def test_the_longest_waiting_comes_first_and_pages_lose_none_and_repeat_none(
    store: Store, read_model: ReadModel
) -> None:
    first = await parked(store, "b", "a", "c")
    second = await parked(store, "a")
    expected = [(first.run.run_id, task) for task in "bac"] + [(second.run.run_id, "a")]
    assert await shown(read_model) == expected
    page = read_model.runs.waiting(None, 2)
    await committed(store, first, _succeeded("b"))
    third = await parked(store, "z")
    await read_model.catch_up()
    rest = read_model.runs.waiting(None, 10, page[-1][0])
    assert [(wait.run_id, wait.task) for _, wait in rest] == [*expected[2:], (third.run.run_id, "z")]


@pytest.mark.parametrize(
    "ending",
    [
        (TaskResumed(at=START + 4, task="a"),),
        (TaskSucceeded(at=START + 4, task="a", attempt=1, started_at=START),),
        (TaskFailed(at=START + 4, task="a", attempt=1, started_at=START, error="no"),),
        (TaskCancelled(at=START + 4, task="a"),),
        (CancelRequested(at=START + 4),),
        (RunFailed(at=START + 4, reason="x", error="x"),),
        (RunErased(at=START + 4),),
    ],
    ids=lambda events: type(events[0]).__name__,
)
async def test_what_has_ended_or_can_be_answered_no_more_is_gone_from_the_list(
    store: Store, read_model: ReadModel, ending: tuple[Event, ...]
) -> None:
    at = await parked(store, "a")
    assert len(await shown(read_model)) == 1
    await committed(store, at, *ending)
    assert await shown(read_model) == []


async def test_a_wait_that_was_over_before_it_was_written_down_is_not_listed(
    store: Store, read_model: ReadModel
) -> None:
    at = await parked(store, "a")
    await committed(store, at, _succeeded("a"))
    assert await shown(read_model) == []


async def test_a_sleep_needs_no_answer(store: Store, read_model: ReadModel) -> None:
    at = await begun(store)
    await committed(store, at, claimed(), waiting("nap", key=f"{SLEEP_KEY_PREFIX}nap"), waiting("a"))
    assert await shown(read_model) == [(at.run.run_id, "a")]
    assert flow_waits.SLEEP_KEY_PREFIX == SLEEP_KEY_PREFIX


async def test_a_tenant_sees_its_own_only(store: Store, read_model: ReadModel) -> None:
    ours, theirs = await parked(store, "a", tenant_id="ours"), await parked(store, "a", tenant_id="theirs")
    assert await shown(read_model, "ours") == [(ours.run.run_id, "a")]
    assert await shown(read_model, "theirs") == [(theirs.run.run_id, "a")]
    assert await shown(read_model, "nobody") == []
    assert len(await shown(read_model)) == 2


async def test_a_restart_goes_on_with_the_waits_it_had(store: Store, tmp_path: Path) -> None:
    config = replaced(store.config, read_model_path=str(tmp_path / "runs.db"))
    model = ReadModel(store.client, store.jetstream, config)
    await model.start()
    at, other = await parked(store, "a", "b"), await parked(store, "c")
    assert len(await shown(model)) == 3
    await model.stop()
    await committed(store, at, _succeeded("a"))
    model = ReadModel(store.client, store.jetstream, config)
    await model.start()
    assert await shown(model) == [(at.run.run_id, "b"), (other.run.run_id, "c")]
    model.wipe()
    assert await shown(model) == [(at.run.run_id, "b"), (other.run.run_id, "c")]
    await model.stop()


@pytest.mark.parametrize("tenant", [None, "t"])
def test_a_page_is_read_from_an_index_and_costs_its_size(tenant: str | None) -> None:
    table = RunTable(None)
    rows = {("r", str(n)): WaitRow("r", str(n), "t", n, 0, _state(n)) for n in range(1, 2001)}
    table.write([], [], {}, waits=rows)
    assert [wait.task for _, wait in table.waiting(tenant, 3, WaitPlace(1000, 0))] == ["1001", "1002", "1003"]
    term = "" if tenant is None else "tenant = 't' AND "
    plan = table._db.execute(
        f"EXPLAIN QUERY PLAN SELECT state FROM waits WHERE {term}(seq, number) > (5, 0) ORDER BY seq, number"
    ).fetchall()
    assert all("SEARCH" in row[-1] and "TEMP B-TREE" not in row[-1] for row in plan), plan


def _succeeded(task: str) -> TaskSucceeded:
    return TaskSucceeded(at=START + 4, task=task, attempt=1, started_at=START)


def _state(number: int) -> bytes:
    wait = OpenWait(
        run_id="r",
        task=str(number),
        wait_key="k",
        prompt=None,
        since=START,
        deadline_at=None,
        flow_name="f",
        tag="t",
    )
    return msgspec.json.encode(wait)
