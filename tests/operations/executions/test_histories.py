"""Histories are read once and then read on, for all who ask; runs at hand are held within bounds."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from msgspec.structs import replace

from pyoco_server.errors import NotFound
from pyoco_server.lifecycle.commands import AddTag
from pyoco_server.lifecycle.reduce import fold
from pyoco_server.lifecycle.run import Lack, Run
from pyoco_server.operations.executions import histories
from pyoco_server.operations.executions.histories import Histories
from pyoco_server.operations.executions.run_cache import RunCache
from pyoco_server.operations.runs.apply import apply
from pyoco_server.operations.runs.submit import Submission, submit
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.store.runs.codec import Commit
from pyoco_server.store.runs.log import StoredRun
from pyoco_server.store.store import Store
from tests.conftest import until
from tests.lifecycle.support.alphabet import submitted


class Counted:
    """What a face would make of a history; remembers how it grew."""

    def __init__(self) -> None:
        self.run: Run | None = None
        self.numbers: list[int] = []

    @property
    def size_bytes(self) -> int:
        return 100 * len(self.numbers)

    def add(self, commit: Commit) -> None:
        self.run = fold(self.run, commit.events)
        self.numbers.append(commit.number)


async def _run(store: Store, tags: int = 0) -> str:
    run_id = (await submit(store, Submission(flow_name="f"))).run.run_id
    for number in range(tags):
        await _tag(store, run_id, number)
    return run_id


async def _tag(store: Store, run_id: str, number: int) -> None:
    await apply(store, run_id, AddTag(tag=f"t{number}", tags_max=1000))


async def test_a_history_is_read_on_and_never_twice(store: Store, read_model: ReadModel) -> None:
    kept = Histories(store, read_model, Counted)
    run_id = await _run(store, 2)
    first = await kept.read(run_id)
    assert first.numbers == [1, 2, 3]
    await _tag(store, run_id, 9)
    again, others = await kept.read(run_id), await asyncio.gather(*(kept.read(run_id) for _ in range(5)))
    assert {id(again), *map(id, others)} == {id(first)}
    assert first.numbers == [1, 2, 3, 4]


async def test_a_reader_that_is_cancelled_while_a_thread_adds_to_it_leaves_it_whole(
    store: Store, read_model: ReadModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(histories, "ASIDE_BYTES", 0)
    begun, go_on = threading.Event(), threading.Event()

    class Slow(Counted):
        def add(self, commit: Commit) -> None:
            begun.set()
            assert go_on.wait(20)
            super().add(commit)

    kept = Histories(store, read_model, Slow)
    run_id = await _run(store, 2)
    leaving = asyncio.ensure_future(kept.read(run_id))
    await until(begun.is_set)
    for _ in range(2):
        leaving.cancel()
        await asyncio.sleep(0)
    other = asyncio.ensure_future(kept.read(run_id))
    go_on.set()
    assert (await other).numbers == [1, 2, 3]
    assert leaving.cancelled()


async def test_what_is_not_there_or_not_the_tenants_is_not_found_and_not_kept(
    store: Store, read_model: ReadModel
) -> None:
    kept = Histories(store, read_model, Counted)
    with pytest.raises(NotFound):
        await kept.read("nobody")
    with pytest.raises(NotFound):
        await kept.read("a.>")
    assert len(kept) == 0
    run_id = await _run(store)
    with pytest.raises(NotFound):
        await kept.read(run_id, tenant_id="red")


async def test_a_follower_is_told_of_everything_and_of_nothing_after(
    store: Store, read_model: ReadModel
) -> None:
    kept = Histories(store, read_model, Counted)
    run_id = await _run(store)
    rung: list[int] = []
    history = await kept.follow(run_id, lambda: rung.append(len(history.projection.numbers)))
    for number in range(10):
        await _tag(store, run_id, number)
    await until(lambda: rung and rung[-1] == 11)
    assert history.projection.numbers == list(range(1, 12))

    def ring() -> None:
        rung.append(-1)

    other = await kept.follow(run_id, ring)
    assert other is history
    kept.unfollow(run_id, history, ring)
    history.subscribers.clear()
    kept.unfollow(run_id, history, ring)
    assert run_id not in read_model.notifications._followers
    await _tag(store, run_id, 99)
    await read_model.catch_up()
    assert -1 not in rung


async def test_those_not_read_for_long_are_let_go_but_not_while_somebody_follows(
    store: Store, read_model: ReadModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(histories, "KEPT_MAX", 3)
    kept = Histories(store, read_model, Counted)
    runs = [await _run(store) for _ in range(6)]
    followed = await kept.follow(runs[0], lambda: None)
    for run_id in runs[1:]:
        await kept.read(run_id)
    assert len(kept) == 3
    assert await kept.follow(runs[0], lambda: None) is followed
    monkeypatch.setattr(histories, "KEPT_BYTES_MAX", 150)
    await kept.read(runs[5])
    assert len(kept) == 2
    kept.forget()
    assert len(kept) == 1


def _stored(run_id: str, log_seq: int, size: int = 100, **changes: Any) -> StoredRun:
    run = fold(None, [submitted(run_id=run_id)])
    assert run is not None
    run = replace(run, bytes_full=size, **changes)
    return StoredRun(run=run, commits=1, log_seq=log_seq, revision=1)


def test_held_runs_never_go_back_and_stay_within_bounds() -> None:
    held = RunCache(bytes_max=1000)
    held.put(_stored("a", 5))
    held.put(_stored("a", 4))
    assert held.log_seq("a") == 5
    for number in range(20):
        held.put(_stored(f"r{number}", 1))
        assert held.get("a") is not None, "asked for all the time"
    assert len(held) == 10
    held.put(_stored("large", 1, size=5000))
    assert len(held) == 0
    held.put(_stored("a", 9))
    held.put(_stored("a", 10, gone=True))
    held.put(_stored("b", 1, lacks=Lack.TASKS))
    assert (held.get("a"), held.get("b"), len(held)) == (None, None, 0)
