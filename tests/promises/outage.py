"""What tests of outages look at: how runs ended, what the log says of them, what was really executed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import httpx

from pyoco_server.lifecycle.events import Event, RunClaimed, RunLost, TaskSucceeded
from pyoco_server.lifecycle.status import LossCause
from pyoco_server.store.store import Store
from tests.conftest import until
from tests.promises.flows import footprints
from tests.promises.stack import Gateway, Processes

FIVE = ("one", "two", "three", "four", "five")
AT_ONCE = 16


async def submitted(gateway: Gateway, flow_name: str, count: int, **params: object) -> list[str]:
    async with httpx.AsyncClient(base_url=gateway.url, timeout=30) as client:
        body = {"flow_name": flow_name, "params": params}
        answers = [await client.post("/runs", json=body) for _ in range(count)]
    return [str(answer.raise_for_status().json()["run_id"]) for answer in answers]


def under_way(started: Processes, task: str, *, at_least: int = 1) -> bool:
    """So many runs have begun this task."""
    begun = sum(line.endswith(f" {task}") for line in footprints(started.footprints))
    return begun >= at_least


@dataclass(frozen=True)
class Outcomes:
    """Of some runs, when all have ended."""

    run_ids: Sequence[str]
    shown: dict[str, str]
    log: dict[str, list[Event]]
    executed: Counter[str]

    @classmethod
    async def of(
        cls, gateway: Gateway, started: Processes, run_ids: Sequence[str], *, within_sec: float = 120.0
    ) -> Outcomes:
        shown = await ended(gateway, run_ids, within_sec=within_sec)
        store = await Store.connect(started.config, name="test")
        log = {
            run_id: [event for _, events in await store.runs.events(run_id) for event in events]
            for run_id in run_ids
        }
        await store.close()
        return cls(run_ids, shown, log, Counter(footprints(started.footprints)))

    @property
    def statuses(self) -> set[str]:
        return set(self.shown.values())

    @property
    def claims_per_run(self) -> set[int]:
        return {sum(isinstance(event, RunClaimed) for event in events) for events in self.log.values()}

    @property
    def workers(self) -> set[str]:
        return {e.worker_id for events in self.log.values() for e in events if isinstance(e, RunClaimed)}

    @property
    def losses(self) -> int:
        """Claims that ended because somebody was taken for dead, or crashed; a hand-back is none."""
        lost = [e for events in self.log.values() for e in events if isinstance(e, RunLost)]
        return sum(event.cause is not LossCause.HANDED_BACK for event in lost)

    def succeeded_once(self, tasks: Sequence[str]) -> bool:
        wanted = Counter(tasks)
        return all(
            Counter(e.task for e in events if isinstance(e, TaskSucceeded)) == wanted
            for events in self.log.values()
        )

    def executed_once(self, tasks: Sequence[str]) -> bool:
        return all(self.executed[f"{run_id} {task}"] == 1 for run_id in self.run_ids for task in tasks)


async def ended(gateway: Gateway, run_ids: Sequence[str], *, within_sec: float) -> dict[str, str]:
    """How each of them ended. The gateway may be away for a while, or not be ready."""
    gate = asyncio.Semaphore(AT_ONCE)
    async with httpx.AsyncClient(base_url=gateway.url, timeout=20) as client:

        async def status(run_id: str) -> tuple[str, str]:
            async with gate:
                found = await until(lambda: _final_status(client, run_id), within_sec=within_sec)
                return run_id, str(found)

        return dict(await asyncio.gather(*map(status, run_ids)))


async def _final_status(client: httpx.AsyncClient, run_id: str) -> str | None:
    try:
        answer = await client.get(f"/runs/{run_id}", params={"wait": 10})
    except httpx.HTTPError:
        return None
    status = str(answer.json().get("status")) if answer.status_code == 200 else ""
    return status if status in ("COMPLETED", "FAILED", "CANCELLED") else None
