"""A gateway dies between two writes of a keyed request; whoever comes with the key again doubles nothing."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections import Counter
from collections.abc import Coroutine
from typing import Any

import pytest
from msgspec.structs import replace

from pyoco_server.errors import Unavailable
from pyoco_server.lifecycle.commands import AddTag, CancelRun, Command, RemoveTag, RequeueRun
from pyoco_server.lifecycle.events import RunSubmitted, TaskStarted, TaskSucceeded
from pyoco_server.operations.idempotency import keyed_request
from pyoco_server.operations.idempotency.apply_once import applied_before, apply_once
from pyoco_server.operations.idempotency.key_scope import IdempotencyKey
from pyoco_server.operations.idempotency.keyed_request import KeyedAnswer, RecordedAnswer, Reservation
from pyoco_server.operations.identity.callers import ANONYMOUS
from pyoco_server.operations.runs.apply import Applied, apply
from pyoco_server.operations.runs.cancel import as_requested, cancel_run
from pyoco_server.operations.runs.retry import RetryRequest, retry
from pyoco_server.operations.runs.submit import Submission, submit, validate
from pyoco_server.store.store import Store
from tests.operations.idempotency.keyed import once
from tests.store.making import Mishap
from tests.worker.stage import (
    Flows,
    a_submission,
    commits_of,
    history,
    jobs_queued,
    lawful,
    submitted,
    the_run,
    working,
)

KEY = IdempotencyKey(tenant=None, principal=None, method="POST", path="/x", key="k")
WANTED = Submission(flow_name="noop", params={"n": 1}, correlation_id="first")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyed_request, "TAKE_OVER_AFTER_SEC", 0.2)
    monkeypatch.setattr(keyed_request, "WAIT_SEC_MAX", 30.0)


class Death:
    """Whoever calls this method of the store gets no further, and is ended there."""

    def __init__(self, patch: pytest.MonkeyPatch, place: object, method: str, *, after: int = 0) -> None:
        self._real = getattr(place, method)
        self._calls_left = after
        self._reached = asyncio.Event()
        patch.setattr(place, method, self)

    async def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._calls_left:
            self._calls_left -= 1
            return await self._real(*args, **kwargs)
        self._reached.set()
        return await asyncio.Event().wait()

    async def of(self, request: Coroutine[Any, Any, Any]) -> None:
        dying = asyncio.ensure_future(request)
        async with asyncio.timeout(20):
            await self._reached.wait()
        dying.cancel()
        await asyncio.wait([dying])


async def submit_once(store: Store, wanted: Submission = WANTED) -> KeyedAnswer:
    valid = validate(wanted, store.config)

    async def do(reservation: Reservation) -> RecordedAnswer:
        named = replace(valid, run_id=reservation.resource_id)
        stored = await submit(store, named, commit_id=reservation.command_id)
        return RecordedAnswer(status=200, body=stored.run.run_id.encode())

    return await once(store, KEY, b"{}", do)


async def command_once(store: Store, run_id: str, asked: Command) -> tuple[KeyedAnswer, Applied | None]:
    seen: list[Applied] = []

    async def do(reservation: Reservation) -> RecordedAnswer:
        seen.append(await apply_once(store, reservation, run_id, asked))
        return RecordedAnswer(status=200, body=b"{}")

    return await once(store, KEY, b"{}", do, resource_id=run_id), seen[0] if seen else None


async def test_a_submission_that_was_not_noted_down_is_found_again(
    store: Store, other_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await Death(monkeypatch, store.ledger, "put_done").of(submit_once(store))
    assert await jobs_queued(store) == 1
    again = await submit_once(other_store, replace(WANTED, correlation_id="second"))
    assert not again.replayed
    assert await commits_of(store, again.resource_id) == [["RunSubmitted"]]
    assert await jobs_queued(store) == 1
    assert (await the_run(store, again.resource_id)).correlation_id == "first"
    await lawful(store, again.resource_id)


async def test_a_submission_without_its_job_gets_it_and_can_be_executed(
    store: Store, other_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await Death(monkeypatch, store.queue, "publish").of(submit_once(store))
    assert await jobs_queued(store) == 0
    again = await submit_once(other_store, replace(WANTED, correlation_id="second"))
    assert await jobs_queued(store) == 1
    async with working(store.config, Flows()) as worker:
        assert await worker.run_once(timeout=10.0) == again.resource_id
    assert (await lawful(store, again.resource_id)).status == "COMPLETED"
    assert (await the_run(store, again.resource_id)).correlation_id == "first"


async def test_a_run_that_is_over_by_then_gets_no_second_job(
    store: Store, other_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await Death(monkeypatch, store.ledger, "put_done").of(submit_once(store))
    async with working(store.config, Flows()) as worker:
        run_id = await worker.run_once(timeout=10.0)
    assert (await submit_once(other_store)).resource_id == run_id
    assert await jobs_queued(store) == 0
    assert [names for names in await commits_of(store, str(run_id)) if "RunSubmitted" in names] == [
        ["RunSubmitted"]
    ]


async def test_a_delayed_run_waits_for_its_time_also_when_it_is_found_again(
    store: Store, other_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    valid = validate(replace(WANTED, start_at=time.time() + 3600), store.config)
    first = await submit(store, valid, commit_id="c1")
    again = await submit(other_store, replace(valid, at=valid.at + 1), commit_id="c1")
    assert again.run == first.run
    assert await jobs_queued(store) == 0


async def test_trouble_with_the_job_discards_nothing_that_the_next_try_can_end(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    mishap = Mishap(monkeypatch, store, store.config.work_subject_prefix, times=99, sent=False)
    with pytest.raises(Unavailable):
        await submit_once(store)
    mishap.left = 0
    again = await submit_once(store)
    assert await commits_of(store, again.resource_id) == [["RunSubmitted"]]
    assert await jobs_queued(store) == 1


async def test_a_command_that_was_not_noted_down_is_not_given_twice(
    store: Store, other_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = await submitted(store)
    tag = AddTag(tag="seen", tags_max=9)
    await Death(monkeypatch, store.ledger, "put_done").of(command_once(store, run_id, tag))
    await apply(store, run_id, RemoveTag(tag="seen"))
    once_more, applied = await command_once(other_store, run_id, tag)
    assert not once_more.replayed
    assert applied is not None
    assert [type(event).__name__ for event in applied.events] == ["TagAdded"]
    assert applied.before is not None
    assert applied.after is not None
    assert "seen" not in applied.before.run.tags
    assert "seen" in applied.after.run.tags
    assert (await the_run(store, run_id)).tags == ("default",)


async def test_a_command_that_had_no_effect_before_the_death_has_it_now(
    store: Store, other_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = await submitted(store)
    tag = AddTag(tag="seen", tags_max=9)
    await Death(monkeypatch, store.runs, "append").of(command_once(store, run_id, tag))
    await command_once(other_store, run_id, tag)
    assert (await the_run(store, run_id)).tags == ("default", "seen")


async def test_who_was_slow_finds_what_the_one_who_took_over_did(
    store: Store, other_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had read nothing yet: on what it reads now, its command would be accepted a second time."""
    run_id = await submitted(store)
    tag, go_on, begun = AddTag(tag="seen", tags_max=9), asyncio.Event(), asyncio.Event()
    load = store.runs.load

    async def slowly(*args: Any, **kwargs: Any) -> Any:
        begun.set()
        await go_on.wait()
        return await load(*args, **kwargs)

    monkeypatch.setattr(store.runs, "load", slowly)
    slow = asyncio.create_task(command_once(store, run_id, tag))
    await begun.wait()
    taken, _ = await command_once(other_store, run_id, tag)
    await apply(other_store, run_id, RemoveTag(tag="seen"))
    go_on.set()
    answer, applied = await slow
    assert (taken.replayed, answer.replayed) == (False, True)
    assert applied is not None
    assert len(applied.events) == 1
    assert Counter(type(event).__name__ for event in await history(store, run_id))["TagAdded"] == 1


async def test_a_cancel_that_is_found_again_is_shown_as_it_was_asked(
    store: Store, other_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = await submitted(store)

    async def cancelled(at: Store) -> KeyedAnswer:
        async def do(reservation: Reservation) -> RecordedAnswer:
            applied = await cancel_run(at, run_id, by="me", reason="enough", reservation=reservation)
            return RecordedAnswer(status=200, body=as_requested(applied).run.status.encode())

        return await once(at, KEY, b"{}", do)

    await Death(monkeypatch, store.ledger, "put_done").of(cancelled(store))
    assert (await cancelled(other_store)).body == b"CANCELLING"
    assert (await the_run(store, run_id)).status == "CANCELLED"
    names = [type(event).__name__ for event in await history(store, run_id)]
    assert names.count("CancelRequested") == 1


async def test_a_commit_whose_job_was_not_published_gets_it(
    store: Store, other_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = await submitted(store)
    requeue = RequeueRun(job_no=1, reason="test")
    await Death(monkeypatch, store.queue, "publish").of(command_once(store, run_id, requeue))
    assert await jobs_queued(store) == 1
    await command_once(other_store, run_id, requeue)
    assert await jobs_queued(store) == 2
    assert (await the_run(store, run_id)).job_no == 2


async def test_results_that_a_retry_carries_over_are_there_once(
    store: Store, other_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = a_submission()
    await submit(store, old, [_results("a", "b", "c", size=100_000)])
    await apply(store, old.run_id, CancelRun())
    small = dataclasses.replace(store.config, commit_max_bytes=120_000, params_max_bytes=1000)
    for one in (store, other_store):
        monkeypatch.setattr(one, "config", small)

    async def retried(at: Store) -> KeyedAnswer:
        async def do(reservation: Reservation) -> RecordedAnswer:
            stored = await retry(at, old.run_id, RetryRequest(), ANONYMOUS, reservation=reservation)
            return RecordedAnswer(status=200, body=stored.run.run_id.encode())

        return await once(at, KEY, b"", do)

    # The first commit and one of the next ones are written; then it is over.
    await Death(monkeypatch, store.runs, "append", after=1).of(retried(store))
    new = (await retried(other_store)).resource_id
    counts = Counter(
        (type(event).__name__, getattr(event, "task", "")) for event in await history(store, new)
    )
    expected = {(kind, task) for kind in ("TaskStarted", "TaskSucceeded") for task in "abc"}
    assert counts == Counter({("RunSubmitted", "")} | expected)
    assert len(await commits_of(store, new)) > 2
    assert await jobs_queued(store) == 2
    await lawful(store, new)


async def test_a_commit_that_is_not_there_is_not_found(store: Store) -> None:
    run_id = await submitted(store)
    assert await applied_before(store, run_id, "nobodys") is None
    assert await store.runs.find_commit("nobody.*", "x") is None


async def test_the_first_commit_has_no_state_before_it(store: Store) -> None:
    again = await submit_once(store)
    record = (await store.ledger.get(KEY.address)).record
    assert record is not None
    applied = await applied_before(store, again.resource_id, record.command_id)
    assert applied is not None
    assert (applied.before, len(applied.events)) == (None, 1)
    assert isinstance(applied.events[0], RunSubmitted)


def _results(*tasks: str, size: int) -> list[TaskStarted | TaskSucceeded]:
    found: list[TaskStarted | TaskSucceeded] = []
    for task in tasks:
        found.append(TaskStarted(at=1.0, task=task, attempt=1, inputs={"x": 1}))
        found.append(TaskSucceeded(at=2.0, task=task, attempt=1, started_at=1.0, output=task * size))
    return found
