"""`run_flow` and a real server give the same end, the same result and the same events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_client import AsyncPyocoClient
from pyoco_server.lifecycle.events import Event, TaskFailed
from pyoco_server.lifecycle.status import TaskStatus
from pyoco_server.store.store import Store
from pyoco_server.testing import Approve, FinishedRun, NoResult, Reject, run_flow, started, waiting
from tests.conftest import NatsServer, until
from tests.http_api.live import live
from tests.testing.sample_flows import resolve
from tests.worker.stage import config_on, the_run, working
from tests.worker.wait_stage import until_parked


@dataclass
class Server:
    client: AsyncPyocoClient
    store: Store


Act = Callable[[Server, str], Awaitable[object]]


async def nothing(_server: Server, _run_id: str) -> None:
    return


async def approve(server: Server, run_id: str) -> None:
    await until_parked(server.store, run_id)
    await server.client.run(run_id).approve("release", {"ok": True})


async def reject(server: Server, run_id: str) -> None:
    await until_parked(server.store, run_id)
    await server.client.run(run_id).reject("release", "not today")


async def cancel_parked(server: Server, run_id: str) -> None:
    await until_parked(server.store, run_id)
    await server.client.cancel_run(run_id)


async def cancel_running(server: Server, run_id: str) -> None:
    async def runs() -> bool:
        task = (await the_run(server.store, run_id)).tasks.get("obey")
        return task is not None and task.state is TaskStatus.RUNNING

    await until(runs)
    await server.client.cancel_run(run_id)


@dataclass(frozen=True)
class Case:
    flow: str
    on_server: Act = nothing
    here: dict[str, Any] = field(default_factory=dict)
    is_ordered: bool = True


CASES = [
    Case("success"),
    Case("failure"),
    Case("isolated", is_ordered=False),
    Case("retry"),
    Case("retries used up"),
    Case("sleep"),
    Case("approval", approve, {"approvals": {"release": Approve({"ok": True})}}),
    Case("approval", reject, {"approvals": {"release": Reject("not today")}}),
    Case("approval", cancel_parked, {"cancel_when": lambda event: type(event).__name__ == "RunParked"}),
    Case("approval in time"),
    Case("fan-out", is_ordered=False),
    Case("timeout"),
    Case("cancel", cancel_running, {"cancel_when": started("obey")}),
]


@pytest.fixture
def config(nats_server: NatsServer) -> NatsBackendConfig:
    return config_on(nats_server)


@pytest.fixture
async def server(config: NatsBackendConfig, store: Store) -> AsyncIterator[Server]:
    """A gateway with its housekeeping on a port, and a worker."""
    async with live(config) as gateway, working(config, resolve) as worker:
        serving = asyncio.create_task(worker.serve())
        async with AsyncPyocoClient(f"http://127.0.0.1:{gateway.port}") as client:
            yield Server(client, store)
        worker.stop()
        await serving


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.flow}-{case.on_server.__name__}")
async def test_the_same_flow_ends_in_the_same_way_here_and_on_a_server(server: Server, case: Case) -> None:
    run = await server.client.submit(case.flow, {"name": "you"})
    await case.on_server(server, run.id)
    there = await run.wait(timeout_sec=60)
    # In a thread: a task that is a coroutine, or one that waits, needs no loop of this test.
    here = await asyncio.to_thread(run_flow, resolve(case.flow), {"name": "you"}, **case.here)

    assert here.status == there["status"]
    assert here.error == there.get("error")
    with suppress(NoResult):
        assert here.result == await run.result()
    commits = await server.store.runs.events(run.id)
    stored = [event for _, events in commits for event in events]
    assert described(here.events, case.is_ordered) == described(stored, case.is_ordered)


async def test_a_run_that_has_no_result_here_has_none_on_a_server(server: Server) -> None:
    run = await server.client.submit("failure", {"name": "you"})
    with pytest.raises(httpx.HTTPStatusError, match="409"):
        await run.result(timeout=60)
    here: FinishedRun = run_flow(resolve("failure"), {"name": "you"})
    with pytest.raises(NoResult, match=r"FAILED: cannot use Hello, you!"):
        _ = here.result


async def test_a_lost_worker_and_a_handed_over_wait_need_no_second_answer(server: Server) -> None:
    """The claim after the answer has the same events on both."""
    here = run_flow(
        resolve("approval"),
        {"name": "you"},
        approvals={"release": Approve(1)},
        lose_worker_before=waiting("release"),
    )
    assert here.kinds.count("RunLost") == 1
    assert here.task("release").output == 1
    assert here.task("greet").attempt == 1  # its result was recorded


def described(events: Sequence[Event], is_ordered: bool) -> list[tuple[str, str, Any]]:
    """What the events say, without instants and ids. The order of tasks side by side is not fixed."""
    found = [
        (
            type(event).__name__,
            str(getattr(event, "task", "")),
            event.will_retry if isinstance(event, TaskFailed) else getattr(event, "attempt", None),
        )
        for event in events
    ]
    return found if is_ordered else sorted(found, key=str)
