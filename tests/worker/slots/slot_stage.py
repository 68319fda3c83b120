"""A worker with slots for a test, runs for it, and what is left of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pyoco_server.config import NatsBackendConfig
from pyoco_server.lifecycle.run import Run
from pyoco_server.operations.runs.submit import Submission, submit
from pyoco_server.store.store import Store
from pyoco_server.worker import PyocoNatsWorker
from tests.conftest import until
from tests.worker.stage import lawful

SPEC = f"{Path(__file__).with_name('slot_flows.py')}:resolve"


@asynccontextmanager
async def serving(
    config: NatsBackendConfig, slots: int = 1, spec: str = SPEC
) -> AsyncIterator[PyocoNatsWorker]:
    worker = await PyocoNatsWorker.connect(config, resolver_spec=spec, worker_id="w", concurrency=slots)
    served = asyncio.ensure_future(worker.serve())
    try:
        yield worker
    finally:
        worker.stop()
        await worker.hand_back()
        await asyncio.wait({served}, timeout=10)
        await worker.close()


async def started(store: Store, flow: str, marks: Path, **params: Any) -> str:
    stored = await submit(store, Submission(flow_name=flow, params={"marks": str(marks)} | params))
    return stored.run.run_id


async def ended(store: Store, run_id: str) -> Run:
    async def look() -> Run | None:
        stored = await store.runs.load(run_id, at_leader=True, whole=True)
        return stored.run if stored and stored.run.is_terminal else None

    run = await until(look, within_sec=30)
    assert isinstance(run, Run)
    await lawful(store, run_id)
    return run


def lines(marks: Path) -> list[str]:
    return marks.read_text().splitlines() if marks.exists() else []


def parent_of(pid: int) -> int:
    """Of a forked slot: its zygote."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def is_alive(pid: int) -> bool:
    """A zombie that nobody has reaped yet is as dead as can be."""
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
