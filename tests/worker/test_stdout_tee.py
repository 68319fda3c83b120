"""A program with a worker inside it: what its tasks print is heard, what it prints itself is not."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import Callable

import pytest
from pyoco.core.models import Flow

from pyoco_server.lifecycle.status import RunStatus
from pyoco_server.store.store import Store
from tests.worker.slots.slot_stage import ended
from tests.worker.stage import Flows, ended_as, one_task, submitted, working


async def said(store: Store, run_id: str) -> list[tuple[str, str | None, str]]:
    entries = await store.logs.entries(run_id)
    return [(entry.stream, entry.task, entry.message) for entry in entries if entry.stream != "system"]


async def test_tasks_are_heard_and_the_program_is_not(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sys.stdout, sys.stderr
    begun, go_on = threading.Event(), threading.Event()

    def speak() -> None:
        sys.stdout.write("of the task\n")
        sys.stderr.write("also, not ended")
        logging.getLogger("mine").warning("logged")
        begun.set()
        assert go_on.wait(20)

    async with working(store.config, Flows(speaks=one_task(speak))) as worker:
        run_id = await submitted(store, "speaks")
        running = asyncio.create_task(worker.run_once(timeout=20.0))
        assert await asyncio.to_thread(begun.wait, 20)
        sys.stdout.write("of the program\n")
        logging.getLogger("mine").warning("of the program too")
        go_on.set()
        assert await running == run_id
    await ended_as(store, run_id, "COMPLETED")
    assert await said(store, run_id) == [
        ("stdout", "only", "of the task"),
        ("logging", "only", "mine: logged"),
        ("stderr", "only", "also, not ended"),
    ]
    assert "of the task\nof the program\n" in capsys.readouterr().out, "the program's output is complete"
    assert (sys.stdout, sys.stderr) == before


async def test_runs_at_once_do_not_mix(store: Store) -> None:
    meet = threading.Barrier(2)

    def speaker(name: str) -> Callable[[], Flow]:
        def speak() -> None:
            meet.wait(20)
            for number in range(100):
                sys.stdout.write(f"{name} {number}\n")

        return one_task(speak)

    flows = Flows(a=speaker("a"), b=speaker("b"))
    async with working(store.config, flows, concurrency=2) as worker:
        serving = asyncio.create_task(worker.serve())
        runs = {name: await submitted(store, name) for name in ("a", "b")}
        for run_id in runs.values():
            assert (await ended(store, run_id)).status is RunStatus.COMPLETED
        worker.stop()
        await serving
    for name, run_id in runs.items():
        assert [text for _, _, text in await said(store, run_id)] == [f"{name} {n}" for n in range(100)]
