"""A worker as its users start it: what is uploaded is used by the next runs, without a restart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.lifecycle.run import Run
from pyoco_server.lifecycle.status import RunStatus
from pyoco_server.store.store import Store
from pyoco_server.worker.slots.edition import ResolverBroken
from tests.conftest import NatsServer, until
from tests.promises.stack import Processes, processes
from tests.store.fleet.wheel_making import file_name, made, wheel_bytes
from tests.worker.slots.slot_stage import ended, serving
from tests.worker.stage import config_on, output_of, submitted

FLOWS = Path(__file__).with_name("wheel_flows.py")


@pytest.fixture
def config(nats_server: NatsServer, tmp_path: Path) -> NatsBackendConfig:
    return config_on(nats_server, wheel_sync_dir=str(tmp_path / "sync"), wheel_sync_interval_sec=0.05)


@pytest.fixture
def synced(config: NatsBackendConfig) -> NatsBackendConfig:
    return replace(config, wheel_sync_enabled=True)


def start_worker(started: Processes, *flags: str, worker_id: str = "w1") -> Any:
    command = ["pyoco-worker", "--worker-id", worker_id]
    command += ["--flow-resolver", f"{FLOWS}:resolve", "--concurrency", "2", *flags]
    return started.run(command, f"worker-{worker_id}")


async def run_of(store: Store, flow: str) -> Run:
    return await ended(store, await submitted(store, flow))


def ends_with(store: Store, flow: str, expected: str) -> Callable[[], Any]:
    """The next run of this flow has this version, or says this as it fails."""

    async def condition() -> bool:
        run = await run_of(store, flow)
        said = output_of(run, "only")[0] if run.status is RunStatus.COMPLETED else str(run.error)
        return expected in said

    return condition


@pytest.mark.slow
async def test_uploads_and_deletions_reach_a_running_worker(
    config: NatsBackendConfig, store: Store, tmp_path: Path
) -> None:
    with processes(config, tmp_path) as started:
        worker = start_worker(started, "--wheel-sync")
        await until(ends_with(store, "demo_pkg", "No module named"), within_sec=60)
        await store.wheels.put(file_name("demo_pkg", "1"), made(tmp_path, "demo_pkg", "1"))
        await until(ends_with(store, "demo_pkg", "1"), within_sec=60)
        await store.wheel_objects.put(file_name("broken", "1"), b"not a wheel")
        await store.wheels.put(file_name("demo_pkg", "2"), made(tmp_path, "demo_pkg", "2"))
        await until(ends_with(store, "demo_pkg", "2"), within_sec=60)
        run = await run_of(store, "demo_pkg")
        folder = Path(output_of(run, "only")[1])
        assert folder.is_relative_to(tmp_path / "sync" / "w1" / "editions")
        for version in ("1", "2"):
            await store.wheels.delete(file_name("demo_pkg", version))
        await until(ends_with(store, "demo_pkg", "No module named"), within_sec=60)
        assert worker.poll() is None
        entry: dict[str, Any] | None = await store.registry.get("w1")
        assert entry is not None
        assert file_name("broken", "1") in entry["wheel_sync"]["last_error"]
        assert '"err_id":"ERR-PYOCO-0024"' in (tmp_path / "worker-w1.log").read_text().replace('": "', '":"')


async def test_the_flag_wins_over_the_setting(
    synced: NatsBackendConfig, store: Store, tmp_path: Path
) -> None:
    await store.wheels.put(file_name("demo_pkg", "1"), made(tmp_path, "demo_pkg", "1"))
    with processes(synced, tmp_path) as started:
        start_worker(started, "--no-wheel-sync")
        run = await run_of(store, "demo_pkg")
        assert run.status is RunStatus.FAILED
        assert not (tmp_path / "sync").exists()


@pytest.mark.slow
async def test_flows_that_import_a_wheel_as_they_are_loaded_have_it_at_the_start(
    synced: NatsBackendConfig, store: Store, tmp_path: Path
) -> None:
    flows = tmp_path / "early_flows.py"
    flows.write_text("import early_pkg\n" + FLOWS.read_text())
    with pytest.raises(ResolverBroken, match="early_pkg"):
        async with serving(synced, spec=f"{flows}:resolve"):
            raise AssertionError("there is no early_pkg yet")
    name = file_name("early_pkg", "1")
    await store.wheels.put(name, made(tmp_path, "early_pkg", "1"))
    async with serving(synced, spec=f"{flows}:resolve"):
        assert Path(output_of(await run_of(store, "early_pkg"), "only")[1]).parts[-3] == "w"
        # Without it they could not be loaded any more, so it stays until something better comes.
        await store.wheels.delete(name)
        await until(lambda: _last_error_has(store, "early_pkg"))
        assert output_of(await run_of(store, "early_pkg"), "only")[0] == "1"
        await store.wheels.put(file_name("early_pkg", "2"), made(tmp_path, "early_pkg", "2"))
        await until(ends_with(store, "early_pkg", "2"))


@pytest.mark.slow
async def test_a_run_keeps_the_edition_it_began_with(
    synced: NatsBackendConfig, store: Store, tmp_path: Path
) -> None:
    """Three newer ones come while it runs, and it still finds what it imports late."""
    mark = tmp_path / "go_on"
    flow = f"slow_pkg {mark}"
    async with serving(synced, slots=2, spec=f"{FLOWS}:resolve_slowly"):
        await _put_pair(store, tmp_path, "1")
        await until(partial(_is_installed, store, file_name("slow_pkg", "1")))
        run_id = await submitted(store, flow)
        await until(lambda: Path(f"{mark}.began").exists())
        for version in ("2", "3", "4"):
            await _put_pair(store, tmp_path, version)
            await until(partial(_is_installed, store, file_name("slow_pkg", version)))
        mark.touch()
        first = await ended(store, run_id)
        assert (first.error, first.tasks["only"].output) == (None, "1")
        assert (await run_of(store, flow)).tasks["only"].output == "4"


async def _put_pair(store: Store, folder: Path, version: str) -> None:
    file = folder / file_name("slow_pkg", version)
    file.write_bytes(wheel_bytes("slow_pkg", version, {"slow_pkg_late.py": f"VERSION = {version!r}\n"}))
    await store.wheels.put(file.name, file)


async def _wheel_sync(store: Store) -> dict[str, Any]:
    entry: dict[str, Any] | None = await store.registry.get("w")
    return dict(entry["wheel_sync"]) if entry is not None else {}


async def _last_error_has(store: Store, text: str) -> bool:
    return text in str((await _wheel_sync(store)).get("last_error"))


async def _is_installed(store: Store, name: str) -> bool:
    wheels = (await _wheel_sync(store)).get("installed_wheels", [])
    return name in [wheel["wheel_name"] for wheel in wheels]
