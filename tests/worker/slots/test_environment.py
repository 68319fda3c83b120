"""What code in a slot can find out about the process it runs in: nothing of the server's own secrets."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.lifecycle.run import Run
from pyoco_server.lifecycle.status import RunStatus
from pyoco_server.store.store import Store
from tests.conftest import NatsServer
from tests.worker.slots.slot_stage import ended, serving, started
from tests.worker.stage import config_on, foreign_job, output_of, publish_job
from tests.worker.yaml.test_runs import SPEC as YAML_SPEC
from tests.worker.yaml.test_runs import TASKS, outputs

SECRET = "hunter2-of-the-broker"
SETTINGS = {
    "PYOCO_NATS_URL": f"nats://user:{SECRET}@127.0.0.1:1",
    "PYOCO_NATS_PASSWORD": SECRET,
    "PYOCO_AUTH_PEPPER": SECRET,
    "pyoco_airflow_token": SECRET,
}


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SETTINGS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("DB_PASSWORD", "the operator's")
    monkeypatch.setenv("APP_REGION", "eu")
    monkeypatch.setenv("PYOCO_DISCOVERY_MODULES", "echo_tasks")


@pytest.fixture
def config(nats_server: NatsServer) -> NatsBackendConfig:
    opened = "APP_*, HOME, PYOCO_AUTH_PEPPER, PYOCO_*"
    return config_on(nats_server, callable_allow=TASKS, flow_env=opened)


def below(pid: int) -> Iterator[int]:
    """The processes that it has started, and that these have. One that ends meanwhile has none."""
    with suppress(FileNotFoundError, ProcessLookupError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (task / "children").read_text().split()):
                yield child
                yield from below(child)


def environments_below(pid: int) -> list[bytes]:
    found: list[bytes] = []
    for child in below(pid):
        with suppress(FileNotFoundError, ProcessLookupError):
            found.append(Path(f"/proc/{child}/environ").read_bytes())
    return found


async def test_a_slot_is_started_without_settings_of_the_server(store: Store, tmp_path: Path) -> None:
    async with serving(store.config):
        run = await ended(store, await started(store, "surroundings", tmp_path / "marks"))
        others = environments_below(os.getpid())
    found = output_of(run, "look")
    assert SECRET not in json.dumps(found)
    names = {name for name in found["environ"] if name.upper().startswith("PYOCO_")}
    assert names == {"PYOCO_DISCOVERY_MODULES"}
    assert found["environ"]["DB_PASSWORD"] == "the operator's"
    assert "DB_PASSWORD=the operator's" in found["proc_environ"]
    assert others
    assert not [one for one in others if SECRET.encode() in one]


async def test_a_slot_is_given_its_link_its_output_and_no_other_open_file(
    store: Store, tmp_path: Path
) -> None:
    with (tmp_path / "secret").open("w") as secret:
        os.set_inheritable(secret.fileno(), True)
        async with serving(store.config):
            run = await ended(store, await started(store, "surroundings", tmp_path / "marks"))
    files = output_of(run, "look")["files"]
    known = ("pipe:", "socket:", "/dev/null", "anon_inode:", "/memfd:pyoco-slot ")
    assert not [name for name in files if not name.startswith(known)]
    assert len([name for name in files if name.startswith("socket:")]) == 1


def workflow(expression: str, given: str = "x") -> str:
    return f"""\
flow:
  graph: |
    repeat(count=1){{ switch(on="{expression}"){{ true: hit; default: miss }} }}
tasks:
  hit: {{callable: "{TASKS}:say", inputs: {{word: {given}}}}}
  miss: {{callable: "{TASKS}:say"}}
"""


async def executed(store: Store, *texts: str) -> list[Run]:
    """By a job of another producer, which no gateway has checked."""
    jobs = [foreign_job(workflow_yaml=text) for text in texts]
    async with serving(store.config, spec=YAML_SPEC):
        for job in jobs:
            await publish_job(store, job)
        return [await ended(store, job["run_id"]) for job in jobs]


async def test_a_workflow_reads_the_variables_that_the_operator_has_opened(store: Store) -> None:
    [run] = await executed(store, workflow("$env.APP_REGION == 'eu'", given="$env.HOME"))
    assert outputs(run)["hit[0]"] == f"said {os.environ['HOME']}"


async def test_a_workflow_that_reads_another_variable_fails_and_names_it_and_the_setting(
    store: Store,
) -> None:
    runs = await executed(
        store,
        workflow("$env.DB_PASSWORD == 'x'"),
        workflow("1 == $ctx.params.x", given="$env.DB_PASSWORD"),
        workflow("{{env.HOMELESS}}"),
    )
    for run, name in zip(runs, ("DB_PASSWORD", "DB_PASSWORD", "HOMELESS"), strict=True):
        assert run.status is RunStatus.FAILED
        assert f"environment variable '{name}'" in (run.error or "")
        assert "PYOCO_FLOW_ENV" in (run.error or "")
        assert run.tasks == {}


async def test_settings_of_the_server_stay_closed_although_they_are_listed(store: Store) -> None:
    runs = await executed(
        store,
        workflow(f"$env.PYOCO_AUTH_PEPPER == '{SECRET}'"),
        workflow("$env.pyoco_airflow_token == 'x'"),
        workflow("1 == $ctx.params.x", given="$env.PYOCO_AUTH_PEPPER"),
        workflow("＿env('PYOCO_AUTH_PEPPER') == $ctx.params.x"),
    )
    for run in runs:
        assert (run.status, run.tasks) == (RunStatus.FAILED, {})


async def test_a_password_is_not_found_by_comparing_it_letter_by_letter(store: Store) -> None:
    path = "$ctx.loop.__class__.__init__.__globals__.threading._os.environ.PYOCO_NATS_PASSWORD"
    [run] = await executed(store, workflow(f"{path} >= 'b'"))
    assert (run.status, run.tasks) == (RunStatus.FAILED, {})
    assert "No part of a path may begin with _" in (run.error or "")
