"""One delivery, and no more: what `run_once` answers, which tags it hears, and when it says ACK."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

from pyoco_server.errors import Invalid
from pyoco_server.store.store import Store
from pyoco_server.worker import PyocoNatsWorker
from tests.worker.stage import (
    Flows,
    chain,
    ended_as,
    jobs_queued,
    queue_drained,
    status_of,
    submitted,
    working,
)


async def test_it_handles_one_job_and_answers_its_run_id(store: Store) -> None:
    first, second = await submitted(store), await submitted(store)
    async with working(store.config) as worker:
        assert await worker.run_once(timeout=20.0) == first
        assert (await status_of(store, first), await status_of(store, second)) == ("COMPLETED", "PENDING")
        assert await worker.run_once(timeout=20.0) == second
        await queue_drained(store)


async def test_it_answers_none_when_no_job_comes_in_time(store: Store) -> None:
    async with working(store.config) as worker:
        began = asyncio.get_running_loop().time()
        assert await worker.run_once(timeout=0.3) is None
        assert asyncio.get_running_loop().time() - began > 0.25


async def test_a_job_that_comes_while_it_waits_is_taken_at_once(store: Store) -> None:
    async with working(store.config) as worker:
        waiting = asyncio.create_task(worker.run_once(timeout=30.0))
        run_id = await submitted(store)
        assert await asyncio.wait_for(waiting, 20.0) == run_id


async def test_it_takes_jobs_of_all_its_tags_and_of_no_other(store: Store) -> None:
    tags = ["cpu", "gpu", "eu", "us", "night_shift"]
    async with working(store.config, tags=tags) as worker:
        stranger = await submitted(store, tag="elsewhere")
        wanted = {await submitted(store, tag=tag) for tag in tags}
        handled = {await worker.run_once(timeout=20.0) for _ in tags}
        assert handled == wanted
        assert await worker.run_once(timeout=0.1) is None
        assert await status_of(store, stranger) == "PENDING"


async def test_five_tags_start_a_job_as_fast_as_one(store: Store) -> None:
    """Polled one after the other, the last tag would wait for the timeouts of those before it."""
    async with working(store.config, tags=["a", "b", "c", "d", "e"]) as worker:
        for tag in ("e", "c", "a"):
            run_id = await submitted(store, tag=tag)
            assert await asyncio.wait_for(worker.run_once(timeout=30.0), 20.0) == run_id


async def test_a_tag_or_worker_id_that_cannot_be_a_name_is_refused_at_the_start(store: Store) -> None:
    with pytest.raises(ValueError, match="tag"):
        await PyocoNatsWorker.connect(store.config, flow_resolver=Flows(), tags=["a.b"])
    with pytest.raises(Invalid, match="worker id"):
        await PyocoNatsWorker.connect(store.config, flow_resolver=Flows(), worker_id="a worker")


async def test_it_serves_until_it_is_stopped(store: Store) -> None:
    async with working(store.config, concurrency=3) as worker:
        serving = asyncio.create_task(worker.serve())
        runs = [await submitted(store) for _ in range(7)]
        await queue_drained(store)
        worker.stop()
        await asyncio.wait_for(serving, 20.0)
        for run_id in runs:
            await ended_as(store, run_id, "COMPLETED")


async def test_the_ack_is_the_last_act(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    acts: list[str] = []
    async with working(
        store.config, Flows(steps=chain(lambda: sys.stdout.write("one\n"), lambda: 2))
    ) as worker:
        _write_down_acts(worker, monkeypatch, acts)
        run_id = await submitted(store, "steps")
        await worker.run_once(timeout=20.0)
        await queue_drained(store)
    about = [act for act in acts if run_id in act or act == "ACK"]
    commit = f"answered {store.config.events_subject_prefix}.{run_id}"
    snapshot = f"answered $KV.{store.config.runs_kv_bucket}.{run_id}"
    assert about[-1] == "ACK"
    assert about.count("ACK") == 1
    before = [act for act in about[:-1] if ".logs." not in act]
    assert len(before) < len(about) - 1, "what it printed is stored before the ACK too"
    assert before[-1] == snapshot
    assert commit in before[:-1]
    assert await jobs_queued(store) == 0


def _write_down_acts(worker: PyocoNatsWorker, monkeypatch: pytest.MonkeyPatch, acts: list[str]) -> None:
    requests, client = worker._store.requests, worker._store.client
    ask, send = requests._send, client.send

    def asked(subject: str, *rest: Any, **more: Any) -> asyncio.Future[Any]:
        future = ask(subject, *rest, **more)
        future.add_done_callback(lambda _: acts.append(f"answered {subject}"))
        return future

    def sent(subject: str, payload: bytes, **rest: Any) -> None:
        if payload == b"+ACK":
            acts.append("ACK")
        send(subject, payload, **rest)

    monkeypatch.setattr(requests, "_send", asked)
    monkeypatch.setattr(client, "send", sent)
