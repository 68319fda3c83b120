"""Workflows from submission over HTTP to their end in a slot: what they wire, and what they may name."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.lifecycle.events import RunSubmitted
from pyoco_server.lifecycle.run import Run
from pyoco_server.lifecycle.status import RunStatus
from pyoco_server.store.store import Store
from tests.conftest import NatsServer
from tests.http_api.serving import serving as serving_http
from tests.worker.slots.slot_stage import ended, serving
from tests.worker.stage import Flows, config_on, foreign_job, history, publish_job, the_letter, working

SPEC = f"{Path(__file__).with_name('yaml_flows.py')}:resolve"
TASKS = "yaml_tasks"

PLUGIN = """\
def register(registry):
    registry.task(lambda word: f"plugged in: {word}", name="demo/echo", inputs={"word": "by default"})
    registry.task(lambda: "named like the task", name="bare")
"""
BROKEN_PLUGIN = "raise RuntimeError('no licence')\n"


@pytest.fixture
def config(nats_server: NatsServer) -> NatsBackendConfig:
    return config_on(nats_server, callable_allow=f"somebody.else, {TASKS}")


@asynccontextmanager
async def stage(config: NatsBackendConfig) -> AsyncIterator[httpx.AsyncClient]:
    async with serving_http(config) as client, serving(config, spec=SPEC):
        yield client


async def submitted(client: httpx.AsyncClient, workflow: str, **fields: str) -> str:
    file = {"workflow": ("flow.yaml", workflow.encode(), "application/x-yaml")}
    answer = await client.post("/runs/yaml", files=file, data={"flow_name": "of a file"} | fields)
    assert answer.status_code == 200, answer.text
    assert answer.json()["status"] == "PENDING"
    run_id: str = answer.json()["run_id"]
    return run_id


async def run_of(store: Store, workflow: str) -> Run:
    async with stage(store.config) as client:
        return await ended(store, await submitted(client, workflow))


def outputs(run: Run) -> dict[str, Any]:
    assert run.status is RunStatus.COMPLETED, run.error
    return {name: record.output for name, record in run.tasks.items()}


async def test_a_chain_is_wired_by_inputs_outputs_and_defaults(store: Store) -> None:
    workflow = f"""\
flow:
  graph: |
    left: one >> right: one >> sum >> shown: word
  defaults: {{value: 20, word: hi}}
tasks:
  one:
    callable: {TASKS}:keep
    outputs: [scratch.kept]
  sum:
    callable: {TASKS}:add
    inputs: {{left: $ctx.params.value, right: 1}}
    outputs: [params.word, results.also]
  word:
    callable: {TASKS}:say
    inputs: {{word: $node.also.output}}
  unused:
    callable: no.such.module:function
"""
    run = await run_of(store, workflow)
    assert outputs(run) == {"left": [20], "right": [20, 20], "sum": 21, "shown": "said 21"}
    assert run.flow_name == "of a file"
    assert run.params == {"value": 20, "word": "hi"}


async def test_a_document_is_executed_again_from_a_task_on_with_other_parameters(store: Store) -> None:
    workflow = f"""\
flow:
  graph: "first: say >> second: say >> third: say"
  defaults: {{word: one}}
tasks:
  say:
    callable: {TASKS}:say
"""
    async with stage(store.config) as client:
        old = await ended(store, await submitted(client, workflow))
        body = {"from": "task", "task": "second", "params": {"word": "two"}}
        answer = await client.post(f"/runs/{old.run_id}/retry", json=body)
        new = await ended(store, answer.json()["run_id"])
    assert outputs(old) == {"first": "said one", "second": "said one", "third": "said one"}
    assert outputs(new) == {"first": "said one", "second": "said two", "third": "said two"}
    assert (new.params, new.workflow_yaml_sha256) == ({"word": "two"}, old.workflow_yaml_sha256)


async def test_blocks_are_walked_as_pyoco_walks_them(store: Store) -> None:
    workflow = f"""\
flow:
  graph: |
    numbers
    >> foreach(over={{{{results.numbers}}}}, item=n){{ square }}
    >> switch(on=mode){{ loud: pipe(loud); default: say }}
    >> repeat(count=2){{ keep }}
  defaults: {{count: 3, mode: loud, value: x}}
pipes:
  loud: "shout: say >> switch(on='$ctx.params.count > 2'){{ true: 'yes_it_is: say'; false: say }}"
tasks:
  numbers: {{callable: "{TASKS}:numbers"}}
  square: {{callable: "{TASKS}:square"}}
  say: {{callable: "{TASKS}:say"}}
  keep: {{callable: "{TASKS}:keep"}}
"""
    found = outputs(await run_of(store, workflow))
    squares = [found[f"square[{index}]"] for index in range(3)]
    assert squares == [1, 4, 9]
    assert (found["shout"], found["yes_it_is"]) == ("said nothing", "said nothing")
    assert found["say"] is None  # its branches were not taken
    assert found["keep[1]"] == ["x", "x"]


async def test_plug_ins_are_found_by_their_names(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _install(tmp_path, "echo_plugin", PLUGIN)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    workflow = """\
flow: {graph: first >> second >> third >> bare}
tasks:
  first: {use: demo/echo}
  second: {use: demo/echo, inputs: {word: given}}
  third: {use: second}
  bare: {}
"""
    assert outputs(await run_of(store, workflow)) == {
        "first": "plugged in: by default",
        "second": "plugged in: given",
        "third": "plugged in: given",
        "bare": "named like the task",
    }


async def test_a_plug_in_that_is_not_there_is_told_with_those_that_failed(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _install(tmp_path, "broken_plugin", BROKEN_PLUGIN)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    run = await run_of(store, "flow: {graph: a}\ntasks: {a: {use: demo/echo}}\n")
    assert (run.status, run.reason) == (RunStatus.FAILED, "flow_not_found")
    assert run.error == (
        "flow_not_found: No plug-in on this worker registers a task 'demo/echo'; install the package "
        "that does (not loaded: broken_plugin: no licence)."
    )
    assert (await the_letter(store))["reason"] == "flow_not_found"


@pytest.mark.parametrize(
    ("named", "output"),
    [
        (f"{TASKS}:say", "said nothing"),
        (f"{TASKS}:wrapped", "of a wrapper"),
        ("yaml_flows:beside", "beside the resolver"),
    ],
)
async def test_a_function_of_an_opened_module_is_called(store: Store, named: str, output: str) -> None:
    found = outputs(await run_of(store, f"flow: {{graph: a}}\ntasks: {{a: {{callable: '{named}'}}}}\n"))
    assert found == {"a": output}


REFUSED = "execution_error"
MISSING = "flow_not_found"


async def test_nothing_else_is_called(store: Store) -> None:
    """One worker for all: a refusal harms nobody."""
    cases = {
        "os:system": (REFUSED, "This worker does not let a workflow call 'os:system'."),
        "yaml_tasks_too:say": (REFUSED, "This worker does not let a workflow call 'yaml_tasks_too:say'."),
        "somebody:say": (REFUSED, "This worker does not let a workflow call 'somebody:say'."),
        f"{TASKS}:system": (REFUSED, f"'{TASKS}:system' belongs to 'posix'"),
        f"{TASKS}:whole_module": (REFUSED, f"'{TASKS}:whole_module' is a module, not a function."),
        f"{TASKS}:shell": (REFUSED, f"'{TASKS}:shell' belongs to 'functools'"),
        f"{TASKS}:PATH_CLASS": (REFUSED, f"'{TASKS}:PATH_CLASS' belongs to 'pathlib'"),
        f"{TASKS}:NUMBER": (REFUSED, f"'{TASKS}:NUMBER' is a int, not a function."),
        f"{TASKS}:__builtins__": (REFUSED, f"'{TASKS}:__builtins__' is a dict, not a function."),
        f"{TASKS}:__loader__": (REFUSED, f"'{TASKS}:__loader__'"),
        "yaml_flows:getcwd": (REFUSED, "'yaml_flows:getcwd' belongs to 'posix'"),
        f"{TASKS}:nothing": (MISSING, f"'{TASKS}:nothing' does not exist on this worker"),
        f"{TASKS}.below:say": (MISSING, f"'{TASKS}.below:say' cannot be imported on this worker"),
        "somebody.else:say": (MISSING, "'somebody.else:say' cannot be imported on this worker"),
    }
    async with stage(store.config) as client:
        for named, (reason, error) in cases.items():
            workflow = f"flow: {{graph: a}}\ntasks: {{a: {{callable: '{named}'}}}}\n"
            run = await ended(store, await submitted(client, workflow))
            assert (run.status, run.reason) == (RunStatus.FAILED, reason), named
            assert (run.error or "").startswith(f"{reason}: {error}")
            assert run.tasks == {}
        alive = f"flow: {{graph: a}}\ntasks: {{a: {{callable: '{TASKS}:say'}}}}\n"
        assert outputs(await ended(store, await submitted(client, alive))) == {"a": "said nothing"}


async def test_the_second_attempt_executes_the_same_text(store: Store, tmp_path: Path) -> None:
    workflow = f"""\
flow:
  graph: say >> die
  defaults: {{marks: {tmp_path / "marks"}}}
tasks:
  say: {{callable: "{TASKS}:say"}}
  die: {{callable: "{TASKS}:die_the_first_time"}}
"""
    run = await run_of(store, workflow)
    assert outputs(run) == {"say": "said nothing", "die": "alive"}
    assert (run.crashes, run.job_no) == (1, 2)
    first, *others = await history(store, run.run_id)
    assert isinstance(first, RunSubmitted)
    assert first.workflow_yaml == workflow
    assert not any(isinstance(event, RunSubmitted) for event in others)


async def test_a_job_of_another_producer_is_checked_on_the_worker(store: Store) -> None:
    good = f"flow: {{graph: a}}\ntasks: {{a: {{callable: '{TASKS}:say'}}}}\n"
    good_job, bad_job = foreign_job(workflow_yaml=good), foreign_job(workflow_yaml="flow: {graph: a}")
    async with serving(store.config, spec=SPEC):
        await publish_job(store, good_job)
        await publish_job(store, bad_job)
        assert outputs(await ended(store, good_job["run_id"])) == {"a": "said nothing"}
        bad = await ended(store, bad_job["run_id"])
    assert (bad.status, bad.reason) == (RunStatus.FAILED, "execution_error")
    assert (bad.error or "").startswith(
        "execution_error: The workflow is not valid: line 1, column 15: There is no 'a' in tasks"
    )


async def test_threads_of_a_program_execute_workflows_too(store: Store) -> None:
    name = "tests.worker.yaml.test_runs"
    closed = foreign_job(workflow_yaml="flow: {graph: a}\ntasks: {a: {callable: 'os:getcwd'}}\n")
    opened = foreign_job(workflow_yaml=f"flow: {{graph: a}}\ntasks: {{a: {{callable: '{name}:here'}}}}\n")
    flows = Flows()
    async with working(store.config, lambda flow_name: flows(flow_name)) as worker:
        for job in (closed, opened):
            await publish_job(store, job)
            assert await worker.run_once(timeout=20.0) == job["run_id"]
    assert outputs(await ended(store, opened["run_id"])) == {"a": "here"}
    assert (await ended(store, closed["run_id"])).status is RunStatus.FAILED
    assert flows.asked == []


def here() -> str:
    return "here"


def _install(folder: Path, name: str, code: str) -> None:
    """As pip would leave it: a module and its entry point."""
    (folder / f"{name}.py").write_text(code)
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[pyoco.tasks]\n{name} = {name}:register\n")
