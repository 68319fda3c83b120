"""A worker has the wheels of its tags, the newest of each, and one wheel's trouble is nobody else's."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import ConfigError
from pyoco_server.store.store import Store
from pyoco_server.worker.attempt.claim import Claimed
from pyoco_server.worker.attempt.monitor import AttemptMonitor
from pyoco_server.worker.endings import Ending
from pyoco_server.worker.performer import NotNow
from pyoco_server.worker.places import Place
from pyoco_server.worker.recording.recorder import Recorder
from pyoco_server.worker.slots.edition import ResolverBroken
from pyoco_server.worker.wheels.sync import WheelSync
from tests.conftest import NatsServer, until
from tests.store.fleet.wheel_making import file_name, made, wheel_bytes
from tests.worker.stage import config_on, output_of, submitted, the_run, working
from tests.worker.wheels.wheel_flows import resolve


class Shelf:
    """Takes every edition, or what `refuse` says."""

    def __init__(self) -> None:
        self.paths: list[Path] = []
        self.busy: set[Path] = set()
        self.refuse: Exception | None = None
        self.flows: dict[str, str] = {}
        self.flow_params: dict[str, list[dict[str, Any]]] = {}
        self.problem: str | None = None

    def on_change(self, act: Callable[[], None]) -> None:
        """It never has a problem."""

    async def start(self, path: Path | None = None) -> None:
        assert path is not None
        self.paths.append(path)

    async def renew(self, path: Path | None = None) -> None:
        assert path is not None
        if self.refuse is not None:
            raise self.refuse
        self.paths.append(path)

    @property
    def paths_in_use(self) -> AbstractSet[Path]:
        return {*self.paths[-1:], *self.busy}

    @property
    def modules(self) -> list[str]:
        return sorted(file.stem for file in self.paths[-1].glob("*.py"))

    async def perform(
        self, claimed: Claimed, recorder: Recorder, monitor: AttemptMonitor, place: Place
    ) -> Ending:
        raise NotImplementedError

    @property
    def slot_pids(self) -> list[int]:
        return []

    async def hand_back(self) -> None:
        raise NotImplementedError

    async def close(self) -> None:
        raise NotImplementedError


@pytest.fixture
def config(nats_server: NatsServer, tmp_path: Path) -> NatsBackendConfig:
    return config_on(nats_server, **wheel_settings(tmp_path))


def wheel_settings(folder: Path) -> dict[str, Any]:
    return {
        "wheel_sync_enabled": True,
        "wheel_sync_dir": str(folder / "sync"),
        "wheel_sync_interval_sec": 0.01,
        "wheel_unpacked_max_bytes": 20_000_000,
    }


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


@pytest.fixture
async def sync(store: Store, shelf: Shelf) -> AsyncIterator[WheelSync]:
    started = await begun(store, shelf)
    yield started
    started.close()


async def begun(store: Store, shelf: Shelf) -> WheelSync:
    sync = WheelSync(store, shelf, "w1", ["cpu"])
    await shelf.start(await sync.first_edition())
    return sync


async def look(sync: WheelSync) -> None:
    """One sync, whatever the interval says."""
    before = sync.described()["last_attempt_at"]

    async def looked() -> bool:
        await sync.keep_up()
        return bool(sync.described()["last_attempt_at"] != before)

    await until(looked)


async def put(store: Store, folder: Path, package: str, version: str, *tags: str) -> str:
    name = file_name(package, version)
    await store.wheels.put(name, made(folder, package, version), tags=tags)
    return name


async def put_broken(store: Store, package: str, version: str) -> str:
    """Past the check of the registry, as another client can."""
    name = file_name(package, version)
    await store.wheel_objects.put(name, b"not a wheel")
    return name


def installs(caplog: pytest.LogCaptureFixture) -> list[str]:
    said = ("wheel installed", "wheel not installed")
    return [f"{record.__dict__['wheel_name']}" for record in caplog.records if record.msg in said]


async def test_the_newest_wheels_of_the_tags_are_there_from_the_start(
    store: Store, shelf: Shelf, tmp_path: Path
) -> None:
    await put(store, tmp_path, "a", "1", "cpu", "linux")
    await put(store, tmp_path, "a", "2", "cpu")
    await put(store, tmp_path, "a", "3", "gpu")
    await put(store, tmp_path, "b", "1")
    await put(store, tmp_path, "c", "1", "gpu")
    sync = await begun(store, shelf)
    assert shelf.modules == ["a", "b"]
    assert (shelf.paths[-1] / "a.py").read_text() == "VERSION = '2'\n"
    sync.close()


async def test_a_change_makes_a_new_edition_of_what_is_new(
    store: Store, sync: WheelSync, shelf: Shelf, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    assert shelf.modules == []
    a1 = await put(store, tmp_path, "a", "1")
    await look(sync)
    assert shelf.modules == ["a"]
    await look(sync)
    assert len(shelf.paths) == 2
    b1 = await put(store, tmp_path, "b", "1")
    await look(sync)
    assert shelf.modules == ["a", "b"]
    assert sync.described()["updated_wheels"] == [b1]
    await store.wheels.delete(a1)
    await look(sync)
    assert shelf.modules == ["b"]
    assert sync.described()["removed_wheels"] == [a1]
    assert installs(caplog) == [a1, b1]
    assert len({*shelf.paths}) == 4


async def test_the_same_name_uploaded_anew_is_fetched_anew(
    store: Store, sync: WheelSync, shelf: Shelf, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    name = await put(store, tmp_path, "a", "1")
    await look(sync)
    await store.wheels.delete(name)
    await store.wheels.put(name, made(tmp_path, "a", "1", extra="more"))
    await look(sync)
    assert (shelf.paths[-1] / "extra.txt").read_text() == "more"
    assert installs(caplog) == [name, name]


async def test_a_broken_wheel_is_told_once_and_stops_no_other(
    store: Store, sync: WheelSync, shelf: Shelf, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sync._retries._first_sec = 600.0
    broken = await put_broken(store, "broken", "1")
    await put(store, tmp_path, "good", "1")
    for _ in range(3):
        await look(sync)
    assert shelf.modules == ["good"]
    [record] = [record for record in caplog.records if record.levelno >= logging.ERROR]
    said = record.__dict__
    assert (said["err_id"], said["msg_id"]) == ("ERR-PYOCO-0024", "MSG-PYOCO-0024")
    assert (said["wheel_name"], said["worker_id"]) == (broken, "w1")
    assert "zip" in said["reason"]
    assert sync.described()["last_result"] == "error"
    assert broken in sync.described()["last_error"]
    await store.wheel_objects.delete(broken)
    await put(store, tmp_path, "broken", "1")
    await look(sync)
    assert shelf.modules == ["broken", "good"]
    assert sync.described()["last_result"] == "ok"


async def test_a_wheel_that_unpacks_to_too_much_is_told_and_stops_no_other(
    store: Store, sync: WheelSync, shelf: Shelf, tmp_path: Path
) -> None:
    """Put by a client that does not check."""
    bomb = file_name("bomb", "1")
    await store.wheel_objects.put(bomb, wheel_bytes("bomb", "1", {"big.txt": "0" * 30_000_000}))
    await put(store, tmp_path, "good", "1")
    await look(sync)
    assert shelf.modules == ["good"]
    said = sync.described()
    assert said["last_result"] == "error"
    assert bomb in said["last_error"]
    assert "PYOCO_WHEEL_UNPACKED_MAX_BYTES" in said["last_error"]


async def test_a_broken_wheel_is_tried_again_after_a_while(
    store: Store, sync: WheelSync, caplog: pytest.LogCaptureFixture
) -> None:
    broken = await put_broken(store, "broken", "1")

    async def tried_twice() -> bool:
        await sync.keep_up()
        return len(installs(caplog)) == 2

    await until(tried_twice)
    assert installs(caplog) == [broken, broken]


async def test_for_a_broken_newest_the_next_older_one_stays(
    store: Store, sync: WheelSync, shelf: Shelf, tmp_path: Path
) -> None:
    await put(store, tmp_path, "a", "1")
    await look(sync)
    await put_broken(store, "a", "2")
    await look(sync)
    assert (shelf.paths[-1] / "a.py").read_text() == "VERSION = '1'\n"
    assert len(shelf.paths) == 2
    other = Shelf()
    fresh = await begun(store, other)
    assert other.modules == ["a"]
    fresh.close()


async def test_a_wheel_for_another_platform_is_left_out_and_said(store: Store, sync: WheelSync) -> None:
    name = "a-4-cp27-cp27m-win32.whl"
    await store.wheel_objects.put(name, b"whatever")
    await look(sync)
    described = sync.described()
    assert (described["last_result"], described["selected_count"]) == ("ok", 0)
    assert described["skipped_incompatible"] == [
        {
            "wheel_name": name,
            "package_name": "a",
            "package_version": "4",
            "reason": "unsupported_wheel_tags",
        }
    ]


async def test_an_edition_that_cannot_be_loaded_leaves_the_old_one_in_use(
    store: Store, sync: WheelSync, shelf: Shelf, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sync._edition_retries._first_sec = 600.0
    await put(store, tmp_path, "a", "1")
    shelf.refuse = ResolverBroken("no flows")
    for _ in range(3):
        await look(sync)
    assert shelf.modules == []
    refusals = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert [record.__dict__["err_id"] for record in refusals] == ["ERR-PYOCO-0024"]
    assert "no flows" in sync.described()["last_error"]
    assert sync.described()["installed_wheels"] == []
    shelf.refuse = None
    await put(store, tmp_path, "b", "1")
    await look(sync)
    assert shelf.modules == ["a", "b"]
    assert sync.described()["last_error"] is None


async def test_an_edition_waits_until_nothing_runs(
    store: Store, sync: WheelSync, shelf: Shelf, tmp_path: Path
) -> None:
    await put(store, tmp_path, "a", "1")
    shelf.refuse = NotNow()
    await look(sync)
    assert shelf.modules == []
    assert sync.described()["last_result"] == "ok"
    shelf.refuse = None
    await look(sync)
    assert shelf.modules == ["a"]


async def test_a_folder_that_a_run_still_uses_stays(
    store: Store, sync: WheelSync, shelf: Shelf, tmp_path: Path
) -> None:
    await put(store, tmp_path, "a", "1")
    await look(sync)
    shelf.busy = {shelf.paths[-1]}
    for version in ("2", "3", "4"):
        await put(store, tmp_path, "a", version)
        await look(sync)
    assert [path.exists() for path in shelf.paths] == [False, True, False, True, True]
    shelf.busy = set()
    await put(store, tmp_path, "a", "5")
    await look(sync)
    assert [path.exists() for path in shelf.paths] == [False, False, False, False, True, True]
    wheels = tmp_path / "sync" / "w1" / "wheels"
    assert len(list(wheels.iterdir())) == 2


async def test_a_restarted_worker_installs_nothing_twice(
    store: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    await put(store, tmp_path, "a", "1")
    shelf = Shelf()
    for _ in range(2):
        sync = await begun(store, shelf)
        sync.close()
    assert installs(caplog) == [file_name("a", "1")]
    assert shelf.paths[0] == shelf.paths[1]


async def test_two_workers_of_one_name_do_not_disturb_each_other(store: Store, tmp_path: Path) -> None:
    await put(store, tmp_path, "a", "1")
    shelves = [Shelf(), Shelf()]
    syncs = await asyncio.gather(*(begun(store, shelf) for shelf in shelves))
    await put(store, tmp_path, "a", "2")
    await asyncio.gather(*map(look, syncs))
    assert shelves[0].paths[-1] != shelves[1].paths[-1]
    for shelf, sync in zip(shelves, syncs, strict=True):
        assert (shelf.paths[-1] / "a.py").read_text() == "VERSION = '2'\n"
        sync.close()


async def test_what_is_described_is_what_the_contract_names(
    store: Store, sync: WheelSync, tmp_path: Path
) -> None:
    name = await put(store, tmp_path, "a", "1", "cpu")
    await look(sync)
    described = sync.described()
    [installed] = described.pop("installed_wheels")
    assert installed.pop("installed_at") > 1_700_000_000
    assert installed.pop("nuid") == (await store.wheels.get(name)).nuid
    assert installed == {"wheel_name": name, "package_name": "a", "package_version": "1", "tags": ["cpu"]}
    for moment in ("last_attempt_at", "last_success_at", "last_synced_at"):
        assert described.pop(moment) > 1_700_000_000
    assert described == {
        "enabled": True,
        "last_result": "ok",
        "last_error": None,
        "selected_count": 1,
        "updated_count": 1,
        "removed_count": 0,
        "skipped_incompatible_count": 0,
        "selected_wheels": [name],
        "updated_wheels": [name],
        "removed_wheels": [],
        "skipped_incompatible": [],
    }


async def test_without_wheel_sync_nothing_happens(nats_server: NatsServer, tmp_path: Path) -> None:
    config = config_on(nats_server, wheel_sync_dir=str(tmp_path / "sync"))
    store = await Store.connect(config, name="test")
    sync = WheelSync(store, Shelf(), "w1", ["cpu"])
    assert await sync.first_edition() is None
    await sync.keep_up()
    assert sync.described()["last_result"] == "disabled"
    assert not (tmp_path / "sync").exists()
    sync.close()
    await store.close()


async def test_a_folder_that_cannot_be_written_is_named(store: Store, tmp_path: Path) -> None:
    (tmp_path / "sync").write_text("a file")
    with pytest.raises(ConfigError, match="PYOCO_WHEEL_SYNC_DIR"):
        await WheelSync(store, Shelf(), "w1", ["cpu"]).first_edition()


async def test_a_defect_is_logged_with_its_reason_and_the_worker_continues(
    store: Store, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail() -> None:
        raise ValueError("defect")

    sync = WheelSync(store, Shelf(), "w1", ["cpu"])
    monkeypatch.setattr(sync, "_choose_and_install", fail)
    await sync.keep_up()
    [record] = [record for record in caplog.records if record.msg == "wheels not synchronised"]
    assert record.__dict__["reason"] == "ValueError('defect')"
    assert record.__dict__["err_id"] == "ERR-PYOCO-0024"
    assert sync.described()["last_result"] == "error"


async def test_while_the_broker_is_away_the_old_edition_stays(
    own_nats_server: NatsServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = config_on(own_nats_server, **wheel_settings(tmp_path))
    store, shelf = await Store.connect(config, name="test"), Shelf()
    await put(store, tmp_path, "a", "1")
    sync = await begun(store, shelf)
    own_nats_server.kill()
    await until(lambda: not store.is_connected)
    await look(sync)
    [record] = [record for record in caplog.records if record.msg == "wheels not synchronised"]
    assert (record.__dict__["err_id"], record.__dict__["msg_id"]) == ("ERR-PYOCO-0003", "MSG-PYOCO-0003")
    assert sync.described()["last_result"] == "error"
    assert shelf.modules == ["a"]
    own_nats_server.start()
    await until(lambda: store.is_connected)

    async def is_well() -> bool:
        await sync.keep_up()
        return bool(sync.described()["last_result"] == "ok")

    await until(is_well)
    assert len(shelf.paths) == 1
    sync.close()
    await store.close()


async def test_a_worker_inside_a_program_uses_new_wheels_for_its_next_run(
    store: Store, tmp_path: Path
) -> None:
    """Also shows that the registry entry tells of them."""
    name = await put(store, tmp_path, "pkg_in_program", "1")
    async with working(store.config, resolve, worker_id="w1") as worker:

        async def version() -> str:
            run_id = await submitted(store, "pkg_in_program")
            assert await worker.run_once(timeout=20.0) == run_id
            run = await the_run(store, run_id)
            return str(output_of(run, "only")[0]) if run.tasks else str(run.error)

        def is_now(expected: str) -> Callable[[], Any]:
            async def condition() -> bool:
                return expected in await version()

            return condition

        assert await version() == "1"
        await put(store, tmp_path, "pkg_in_program", "2")
        await until(is_now("2"))
        await store.wheels.delete(file_name("pkg_in_program", "2"))
        await until(is_now("1"))
        await store.wheels.delete(name)
        await until(is_now("No module named"))
        await put(store, tmp_path, "pkg_in_program", "3")
        await until(is_now("3"))

        async def told() -> bool:
            entry: dict[str, Any] | None = await store.registry.get("w1")
            assert entry is not None
            wheels = entry["wheel_sync"]["installed_wheels"]
            return [wheel["wheel_name"] for wheel in wheels] == [file_name("pkg_in_program", "3")]

        await until(told)
