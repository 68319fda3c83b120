"""`pyoco-server-admin`, which asks the broker and needs no gateway."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyoco_server.config import NatsBackendConfig, as_written, default_of, field_names, variable_of
from pyoco_server.flows import demo
from pyoco_server.jetstream.kv import Bucket
from pyoco_server.operations.runs.submit import Submission, submit
from pyoco_server.store.store import Store
from pyoco_server.worker import PyocoNatsWorker
from tests.cli.programs import Programs, clean_environment
from tests.conftest import free_port


@pytest.fixture
def programs(tmp_path: Path, config: NatsBackendConfig) -> Programs:
    changed = {name for name in field_names() if getattr(config, name) != default_of(name)}
    settings = {variable_of(name): as_written(getattr(config, name)) for name in changed}
    return Programs(tmp_path, clean_environment(**settings))


@pytest.fixture
async def completed(store: Store, config: NatsBackendConfig) -> str:
    run_id = (await submit(store, Submission(flow_name="hello", tag="demo"))).run.run_id
    worker = await PyocoNatsWorker.connect(config, flow_resolver=demo.resolver, worker_id="w", tags=["demo"])
    assert await worker.run_once(timeout=20.0) == run_id
    await worker.close()
    return run_id


async def test_verify_says_ok_for_a_run_as_it_should_be(
    programs: Programs, store: Store, completed: str
) -> None:
    fresh = (await submit(store, Submission(flow_name="hello", tag="demo"))).run.run_id
    for run_id in (completed, fresh):
        verified = programs.run("pyoco-server-admin", "verify", run_id)
        assert (verified.ended(), verified.output) == (0, "ok\n"), verified.output


async def test_verify_says_what_differs(programs: Programs, store: Store, completed: str) -> None:
    bucket = Bucket(store.jetstream, store.config.runs_kv_bucket)
    entry = await bucket.get(completed)
    assert entry.value
    forged = entry.value.replace(b'"status":"COMPLETED"', b'"status":"RUNNING"')
    await bucket.put(completed, forged, revision=entry.revision)
    verified = programs.run("pyoco-server-admin", "verify", completed)
    assert verified.ended() == 1
    assert 'status: the snapshot has "RUNNING", the log says "COMPLETED"' in verified.output


async def test_verify_looks_at_all_runs(programs: Programs, store: Store, completed: str) -> None:
    fresh = (await submit(store, Submission(flow_name="hello", tag="demo"))).run.run_id
    verified = programs.run("pyoco-server-admin", "verify", "--all")
    assert verified.ended() == 0
    assert verified.output.startswith("2 runs, ")
    assert verified.output.endswith(" commits, 0 problems\n")
    bucket = Bucket(store.jetstream, store.config.runs_kv_bucket)
    await bucket.put(fresh, b"{}", revision=(await bucket.get(fresh)).revision)
    verified = programs.run("pyoco-server-admin", "verify", "--all")
    assert verified.ended() == 1
    assert f"{fresh}: the snapshot is missing\n" in verified.output


async def test_events_prints_the_log_as_json_lines(programs: Programs, completed: str) -> None:
    printed = programs.run("pyoco-server-admin", "events", completed)
    assert printed.ended() == 0
    events = [json.loads(line) for line in printed.output.splitlines()]
    assert events[0]["type"] == "RunSubmitted"
    assert events[0]["flow_name"] == "hello"
    assert [event["seq"] for event in events] == sorted(event["seq"] for event in events)


async def test_resources_creates_and_lists_streams_and_buckets(
    programs: Programs, config: NatsBackendConfig
) -> None:
    listed = programs.run("pyoco-server-admin", "resources")
    assert listed.ended() == 0, listed.errors
    names = {(one["kind"], one["name"]) for one in map(json.loads, listed.output.splitlines())}
    assert {("stream", config.work_stream), ("stream", config.events_stream)} <= names
    assert {("bucket", config.runs_kv_bucket), ("bucket", config.workers_kv_bucket)} <= names


@pytest.mark.parametrize("command", ["verify", "events"])
@pytest.mark.parametrize("run_id", ["00000000-0000-0000-0000-000000000000", "a.b", "*"])
def test_an_unknown_run_ends_with_1(programs: Programs, command: str, run_id: str) -> None:
    refused = programs.run("pyoco-server-admin", command, run_id)
    assert refused.ended() == 1
    assert "There is no run" in refused.errors


def test_without_a_broker_it_gives_up_and_says_so(programs: Programs) -> None:
    refused = programs.run("pyoco-server-admin", "resources", "--nats-url", f"nats://127.0.0.1:{free_port()}")
    assert refused.ended() == 1
    assert "no broker answers" in refused.errors


def test_the_module_of_the_contract_is_the_same_program(programs: Programs) -> None:
    refused = programs.run("python", "-m", "pyoco_server.admin_cli", "verify")
    assert refused.ended() == 1
    assert "pyoco-server-admin verify RUN_ID" in refused.errors


async def test_a_lost_log_is_replaced_only_on_request(
    programs: Programs, store: Store, completed: str
) -> None:
    kept = programs.run("pyoco-server-admin", "accept-lost-log", "--yes")
    assert (kept.ended(), kept.output) == (0, "There is an event log. Nothing was changed.\n")
    await store.jetstream.api(f"STREAM.DELETE.{store.config.events_stream}")
    refused = programs.run("pyoco-server-admin", "resources")
    assert refused.ended() == 1
    assert "accept-lost-log" in refused.errors
    made = programs.run("pyoco-server-admin", "accept-lost-log", "--yes")
    assert (made.ended(), made.output) == (0, "An empty event log was created.\n")
    assert programs.run("pyoco-server-admin", "resources").ended() == 0
