"""The bucket of the snapshots is deleted under those who use it: it comes back, filled from the log."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from pyoco_server.jetstream.errors import BrokerRefused
from pyoco_server.lifecycle.status import RunStatus
from pyoco_server.store.store import Store
from tests.conftest import until
from tests.http_api.serving import serving as serving_http
from tests.worker.slots.slot_stage import ended, serving, started

WITHIN_SEC = 10.0


async def deleted(store: Store) -> None:
    await store.jetstream.api(f"STREAM.DELETE.KV_{store.config.runs_kv_bucket}")


async def statuses(store: Store, run_ids: list[str]) -> list[str | None]:
    """As the bucket alone has them."""
    found = await asyncio.gather(*map(store.runs.snapshots.get, run_ids))
    return [one.status if one else None for one in found]


async def test_runs_go_on_and_begin_and_all_snapshots_come_back(store: Store, tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    async with serving(store.config, slots=2):
        before = [await ended(store, await started(store, "pid", marks)) for _ in range(3)]
        long_one = await started(store, "stubborn", marks)
        await until(lambda: marks.exists() and "sleeping" in marks.read_text(), within_sec=WITHIN_SEC)
        await deleted(store)
        began = time.monotonic()
        new = [await started(store, "pid", marks) for _ in range(3)]
        runs = [await ended(store, run_id) for run_id in new]
        assert {run.status for run in runs} == {RunStatus.COMPLETED}
        assert time.monotonic() - began < WITHIN_SEC

        async def are_back() -> bool:
            found = await statuses(store, [*(run.run_id for run in before), *new, long_one])
            return found == ["COMPLETED"] * 6 + ["RUNNING"]

        await until(are_back, within_sec=WITHIN_SEC)


async def test_a_worker_alone_brings_it_back_while_a_task_runs(store: Store, tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    async with serving(store.config):
        run_id = await started(store, "stubborn", marks)
        await until(lambda: marks.exists() and "sleeping" in marks.read_text(), within_sec=WITHIN_SEC)
        await deleted(store)

        async def is_shown() -> bool:
            try:  # without asking for the snapshot: that alone would bring it back
                info = await store.jetstream.api(f"STREAM.INFO.KV_{store.config.runs_kv_bucket}")
            except BrokerRefused:
                return False
            return bool(info["state"]["messages"] == 1)

        await until(is_shown, within_sec=WITHIN_SEC)
        assert await statuses(store, [run_id]) == ["RUNNING"]


async def test_a_gateway_answers_and_brings_it_back(store: Store, tmp_path: Path) -> None:
    async with serving(store.config), serving_http(store.config) as client:
        old = await ended(store, await started(store, "pid", tmp_path / "marks"))
        for ask in ("read", "submit"):
            await deleted(store)
            if ask == "read":
                answer = await client.get(f"/runs/{old.run_id}")
            else:
                answer = await client.post(
                    "/runs", json={"flow_name": "pid", "params": {"marks": "/dev/null"}}
                )
            assert answer.status_code == 200, answer.text

            async def is_back() -> bool:
                return await statuses(store, [old.run_id]) == ["COMPLETED"]

            await until(is_back, within_sec=WITHIN_SEC)
