"""`pyoco-server-admin doctor`: what it finds, what it says is to be done, and how it ends."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyoco_server.cli.admin import examination
from pyoco_server.cli.admin.examination import Finding, FindingLevel
from pyoco_server.config import NatsBackendConfig, as_written, default_of, field_names, variable_of
from pyoco_server.operations.runs.submit import Submission, submit
from pyoco_server.store.queue.dead_letters import DeadLetter
from pyoco_server.store.store import Store
from tests.cli.programs import Program, Programs, clean_environment
from tests.conftest import NatsServer, config_for, free_port
from tests.worker.stage import working


@pytest.fixture
def programs(tmp_path: Path, config: NatsBackendConfig) -> Iterator[Programs]:
    changed = {name for name in field_names() if getattr(config, name) != default_of(name)}
    settings = {variable_of(name): as_written(getattr(config, name)) for name in changed}
    running = Programs(tmp_path, clean_environment(**settings))
    yield running
    running.end_all()


def levels(program: Program) -> dict[str, str]:
    return {check["name"]: check["level"] for check in json.loads(program.output)["checks"]}


async def found(config: NatsBackendConfig) -> dict[str, Finding]:
    return {finding.name: finding async for finding in examination.at_broker(config)}


async def test_all_is_well(programs: Programs, store: Store, config: NatsBackendConfig) -> None:
    (programs.folder / "data").mkdir()
    async with working(config, worker_id="w1"):
        examined = programs.run("pyoco-server-admin", "doctor", "--data-dir", "data", "--json")
        said = programs.run("pyoco-server-admin", "doctor")
    assert examined.ended() == 0, examined.output
    assert json.loads(examined.output)["ok"] is True
    names = ["configuration", "versions", "disk", "fsync", "broker", "jetstream", "streams", "clock", "queue"]
    checked = levels(examined)
    assert list(checked) == [*names, "dead letters"]
    # How much room there is and how fast the disk is, is a matter of the machine.
    assert {level for name, level in checked.items() if name not in ("disk", "fsync")} == {"ok"}
    assert said.ended() == 0
    assert "ok   broker: nats://" in said.output
    assert f"PYOCO_RUNS_KV_BUCKET={config.runs_kv_bucket} (environment)" in said.output


def test_each_setting_is_named_with_where_it_comes_from(programs: Programs) -> None:
    lines = ("PYOCO_DEFAULT_TAG=night", "PYOCO_NATS_PASSWORD=hush", "PYOCO_NATS_USER=me")
    (programs.folder / "my.env").write_text("\n".join(lines))
    more = {"PYOCO_LOAD_DOTENV": "1", "PYOCO_ENV_FILE": "my.env", "PYOCO_HTTP_PORT": "9"}
    url = f"nats://me:hush@127.0.0.1:{free_port()}"
    program = programs.run("pyoco-server-admin", "doctor", "--json", "--nats-url", url, **more)
    assert program.ended() == 1
    assert "hush" not in program.output + program.errors
    settings: dict[str, Any] = {one["name"]: one for one in json.loads(program.output)["settings"]}
    assert len(settings) == len(field_names())
    origins = ("PYOCO_HTTP_PORT", "PYOCO_DEFAULT_TAG", "PYOCO_NATS_URL", "PYOCO_LOG_UTC")
    assert [settings[name]["origin"] for name in origins] == [
        "environment",
        "my.env",
        "command line",
        "default",
    ]
    assert settings["PYOCO_NATS_PASSWORD"]["value"] == "***"
    assert settings["PYOCO_DEFAULT_TAG"]["value"] == "night"


def test_a_broker_that_does_not_answer_is_a_failure_with_what_to_do(programs: Programs) -> None:
    url = f"nats://127.0.0.1:{free_port()}"
    program = programs.run("pyoco-server-admin", "doctor", "--nats-url", url)
    assert program.ended() == 1
    assert f"fail broker: no broker answers at {url}" in program.output
    assert "pyoco-server up" in program.output


def test_a_wrong_setting_is_a_failure(programs: Programs) -> None:
    program = programs.run("pyoco-server-admin", "doctor", "--json", PYOCO_HTTP_PORT="many")
    assert program.ended() == 1
    [check] = json.loads(program.output)["checks"]
    assert (check["name"], check["level"]) == ("configuration", "fail")
    assert "PYOCO_HTTP_PORT" in check["what"]


async def test_looking_makes_nothing(nats_server: NatsServer) -> None:
    config = config_for(nats_server)
    for _ in range(2):
        looked = await found(config)
        assert looked["streams"].level is FindingLevel.WARN
        assert config.events_stream in looked["streams"].what
        assert looked["dead letters"].level is FindingLevel.OK


async def test_jobs_that_nobody_will_take_and_dead_letters_are_warnings(
    store: Store, config: NatsBackendConfig
) -> None:
    await submit(store, Submission(flow_name="x", tag="gpu"))
    await store.dead_letters.publish(DeadLetter(timestamp=1.0, reason="max_deliver"), letter_id="1")
    looked = await found(config)
    assert looked["queue"].level is FindingLevel.WARN
    assert looked["queue"].what == "0 workers alive; jobs waiting: gpu 1"
    assert looked["queue"].do == "Start a worker: pyoco-worker --tags gpu"
    assert looked["dead letters"] == Finding(
        "dead letters", FindingLevel.WARN, "1 kept", "pyoco-client dlq list"
    )


async def test_workers_that_drain_are_counted_and_serve_nobody(
    store: Store, config: NatsBackendConfig
) -> None:
    async with working(config, worker_id="w1"):
        assert (await found(config))["queue"].what == "1 worker alive; jobs waiting: none"
        await store.registry.merge("w1", {"draining": True})
        drained = (await found(config))["queue"]
        assert (drained.level, drained.what) == (
            FindingLevel.OK,
            "1 worker alive, 1 draining; jobs waiting: none",
        )
        await submit(store, Submission(flow_name="x"))
        looked = (await found(config))["queue"]
    assert (looked.level, looked.what) == (
        FindingLevel.WARN,
        "1 worker alive, 1 draining; jobs waiting: default 1",
    )
    assert looked.do == "Let one take runs again: pyoco-client worker resume w1"


async def test_a_worker_registry_that_forgets_is_a_warning(store: Store, config: NatsBackendConfig) -> None:
    name = f"KV_{config.workers_kv_bucket}"
    info = await store.jetstream.api(f"STREAM.INFO.{name}")
    forgetful = {"max_age": 15_000_000_000, "duplicate_window": 1_000_000_000}
    await store.jetstream.api(f"STREAM.UPDATE.{name}", info["config"] | forgetful)
    looked = (await found(config))["streams"]
    assert (looked.level, "15 s" in looked.what) == (FindingLevel.WARN, True)


@pytest.mark.parametrize(
    ("apart", "level"), [(0.0, FindingLevel.OK), (5.0, FindingLevel.WARN), (60.0, FindingLevel.FAIL)]
)
async def test_clocks_that_disagree_are_said(
    store: Store, monkeypatch: pytest.MonkeyPatch, apart: float, level: FindingLevel
) -> None:
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + apart)
    assert (await examination._clock(store)).level is level


def test_a_full_disk_and_a_slow_one_are_said(
    config: NatsBackendConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examination, "DISK_FREE_BYTES", (2**60, 2**61))
    monkeypatch.setattr(examination, "FSYNC_SLOW_SEC", 0.0)
    looked = {one.name: one for one in examination.here(config_in(config, tmp_path))}
    assert (looked["disk"].level, looked["fsync"].level) == (FindingLevel.FAIL, FindingLevel.WARN)
    assert list(tmp_path.glob(".doctor-*")) == []


def config_in(config: NatsBackendConfig, folder: Path) -> NatsBackendConfig:
    values = {name: getattr(config, name) for name in field_names()}
    return NatsBackendConfig(**(values | {"data_dir": str(folder)}))
