"""Wheels that a tenant has brought run for that tenant alone, on a worker that executes for all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pyoco_server.lifecycle.run import Run
from pyoco_server.operations.runs.submit import Submission, submit
from pyoco_server.store.fleet.wheels import Origin
from pyoco_server.store.store import Store
from tests.contract.wheels import a_wheel
from tests.worker.slots.slot_stage import ended, serving

SPEC = f"{Path(__file__).with_name('tenant_flows.py')}:resolve"


async def brought(store: Store, folder: Path, package: str, tenant_id: str | None) -> None:
    name, content = a_wheel(package, "1.0")
    file = folder / name
    file.write_bytes(content)
    await store.wheels.put(name, file, tags=[], origin=Origin(tenant_id=tenant_id))


async def imported(store: Store, module: str, tenant_id: str | None) -> Run:
    wanted = Submission(flow_name="imports", params={"module": module}, tenant_id=tenant_id)
    return await ended(store, (await submit(store, wanted)).run.run_id)


async def test_a_tenants_wheel_is_on_nobody_elses_path(store: Store, tmp_path: Path) -> None:
    await brought(store, tmp_path, "as_own_pkg", "a")
    await brought(store, tmp_path, "everybodys_pkg", None)
    syncing = replace(store.config, wheel_sync_enabled=True, wheel_sync_dir=str(tmp_path / "wheels"))
    async with serving(syncing, spec=SPEC, slots=2):
        own = await imported(store, "as_own_pkg", "a")
        others = [await imported(store, "as_own_pkg", tenant) for tenant in ("b", None)]
        shared = [await imported(store, "everybodys_pkg", tenant) for tenant in ("a", "b", None)]
        again = await imported(store, "as_own_pkg", "a")
    assert (own.status, own.tasks["version"].output) == ("COMPLETED", "1.0")
    assert [(run.status, "as_own_pkg" in str(run.error)) for run in others] == [("FAILED", True)] * 2
    assert [run.tasks["version"].output for run in shared] == ["1.0"] * 3
    assert again.status == "COMPLETED"
