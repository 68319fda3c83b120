"""Runs that cannot be executed, or fail while they are: how they end, and which letter they leave."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
import pytest
from pyoco.core.models import Flow

from pyoco_server.store.store import Store
from tests.conftest import NatsServer
from tests.engine.building import raising
from tests.worker.stage import (
    Flows,
    chain,
    config_on,
    ended_as,
    expect_alive,
    letters,
    one_task,
    queue_drained,
    submitted,
    the_letter,
    working,
)


async def test_a_flow_the_worker_does_not_know_ends_the_run_failed(store: Store) -> None:
    run_id = await submitted(store, "unheard_of", params={"a": 1})
    async with working(store.config, worker_id="w1") as worker:
        assert await worker.run_once(timeout=20.0) == run_id
        await queue_drained(store)
        failed = await ended_as(store, run_id, "FAILED")
        assert failed.pyoco.reason == "flow_not_found"
        assert failed.error == "flow_not_found: flow 'unheard_of' is not registered on this worker"
        letter = await the_letter(store)
        assert (letter["reason"], letter["run_id"]) == ("flow_not_found", run_id)
        assert (letter["flow_name"], letter["tag"], letter["tags"]) == ("unheard_of", "default", ["default"])
        assert (letter["worker_id"], letter["num_delivered"]) == ("w1", 1)
        assert msgspec.json.decode(letter["payload"])["params"] == {"a": 1}
        await expect_alive(store, worker)


ODD_ERRORS = {
    "an ordinary one": ImportError("no module of that name"),
    "a huge one": ValueError("x" * 3_000_000),
    "an exit": SystemExit(3),
}


@pytest.mark.parametrize("error", ODD_ERRORS.values(), ids=ODD_ERRORS)
async def test_a_resolver_that_raises_ends_the_run_failed(store: Store, error: BaseException) -> None:
    def broken(name: str) -> Flow:
        if name == "noop":
            return Flows()(name)
        raise error

    run_id = await submitted(store, "broken")
    async with working(store.config, broken) as worker:
        assert await worker.run_once(timeout=20.0) == run_id
        await queue_drained(store)
        failed = await ended_as(store, run_id, "FAILED")
        assert failed.pyoco.reason == "execution_error"
        assert type(error).__name__ in (failed.error or "")
        assert (await the_letter(store))["reason"] == "execution_error"
        await expect_alive(store, worker)


async def test_an_error_that_cannot_be_written_as_it_is_still_ends_the_run(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(name: str) -> Flow:
        raise ValueError("half a character: \udc80")

    caplog.set_level(logging.CRITICAL, "pyoco_server.worker")  # a captured log has to be writable too
    run_id = await submitted(store)
    async with working(store.config, broken) as worker:
        assert await worker.run_once(timeout=20.0) == run_id
        await queue_drained(store)
        failed = await ended_as(store, run_id, "FAILED")
        assert failed.error == "execution_error: ValueError: half a character: \\udc80"


async def test_a_resolver_that_gives_no_flow_ends_the_run_failed(store: Store) -> None:
    def nothing(name: str) -> Any:
        return Flows()(name) if name == "noop" else None

    run_id = await submitted(store, "nothing")
    async with working(store.config, nothing) as worker:
        assert await worker.run_once(timeout=20.0) == run_id
        await queue_drained(store)
        assert (await ended_as(store, run_id, "FAILED")).pyoco.reason == "execution_error"
        await expect_alive(store, worker)


async def test_a_task_that_raises_ends_the_run_failed_with_a_letter(store: Store) -> None:
    flows = Flows(fails=chain(lambda: 1, raising(ValueError("on purpose")), lambda: 3))
    run_id = await submitted(store, "fails")
    async with working(store.config, flows) as worker:
        assert await worker.run_once(timeout=20.0) == run_id
        await queue_drained(store)
        failed = await ended_as(store, run_id, "FAILED")
        assert "on purpose" in (failed.error or "")
        assert (failed.pyoco.reason, failed.pyoco.failed_task) == ("execution_error", "t2")
        assert failed.tasks == {"t1": "SUCCEEDED", "t2": "FAILED", "t3": "CANCELLED"}
        assert "ValueError" in (failed.task_records["t2"].traceback or "")
        letter = await the_letter(store)
        assert (letter["reason"], letter["error"]) == ("execution_error", failed.error)
        await expect_alive(store, worker)


async def test_a_task_that_exits_the_process_only_fails_its_run(store: Store) -> None:
    run_id = await submitted(store, "exits")
    async with working(store.config, Flows(exits=one_task(raising(SystemExit(1))))) as worker:
        assert await worker.run_once(timeout=20.0) == run_id
        await ended_as(store, run_id, "FAILED")
        await expect_alive(store, worker)


async def test_failed_runs_leave_no_letter_where_that_is_switched_off(nats_server: NatsServer) -> None:
    config = config_on(nats_server, dlq_publish_execution_error=False)
    store = await Store.connect(config, name="test")
    flows = Flows(fails=one_task(raising(ValueError("no"))))
    async with working(config, flows) as worker:
        run_id = await submitted(store, "fails")
        assert await worker.run_once(timeout=20.0) == run_id
        await queue_drained(store)
        await ended_as(store, run_id, "FAILED")
        assert await letters(store) == []
        # A job nobody can execute is another matter.
        unknown = await submitted(store, "unheard_of")
        assert await worker.run_once(timeout=20.0) == unknown
        assert (await the_letter(store))["reason"] == "flow_not_found"
    await store.close()
