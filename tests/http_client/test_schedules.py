"""Schedules from `PyocoHttpClient` to finished runs, with a real gateway and worker."""

from __future__ import annotations

import time
from collections.abc import Callable

import httpx
import pytest

from pyoco_server.http_client import PyocoHttpClient

WORKFLOW = """\
flow:
  graph: part
  defaults: {number: 7}
tasks:
  part: {callable: "pyoco_server.flows.demo:_part"}
"""


def wait_for(condition: Callable[[], bool], within_sec: float = 20.0) -> None:
    deadline = time.monotonic() + within_sec
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        time.sleep(0.02)


def test_a_flow_that_workers_know_is_run_at_its_time(client: PyocoHttpClient) -> None:
    made = client.create_schedule("hello", {"name": "you"}, tag="demo", interval_seconds=0.5)
    wait_for(lambda: bool(client.list_schedule_runs(made["schedule_id"])))
    [run, *_] = client.list_schedule_runs(made["schedule_id"])
    assert client.get_run(run["run_id"])["params"] == {"name": "you"}
    client.delete_schedule(made["schedule_id"])


def test_an_interval_runs_again_and_again_until_it_is_deleted(client: PyocoHttpClient) -> None:
    made = client.create_yaml_schedule(WORKFLOW, flow_name="beat", tag="demo", interval_seconds=0.5)
    schedule_id = made["schedule_id"]

    def done() -> int:
        return sum(run["status"] == "COMPLETED" for run in client.list_schedule_runs(schedule_id))

    wait_for(lambda: done() >= 2)
    [shown] = [one for one in client.list_schedules() if one["schedule_id"] == schedule_id]
    assert shown["dispatch_count"] >= 2
    last_at, next_at = shown["last_at"], shown["next_at"]
    assert last_at is not None
    assert next_at is not None
    assert last_at < next_at == shown["next_run_at"]
    [latest] = client.list_schedule_runs(schedule_id, include_records=True, limit=1)
    assert (latest["schedule_id"], latest["flow_name"]) == (schedule_id, "beat")
    assert client.result(str(shown["last_run_id"]), 20) == 7
    assert client.delete_schedule(schedule_id) == {"schedule_id": schedule_id, "deleted": True}
    assert schedule_id not in {one["schedule_id"] for one in client.list_schedules()}


def test_cron_and_instants_are_passed_on(client: PyocoHttpClient) -> None:
    by_cron = client.create_yaml_schedule(
        WORKFLOW.encode(), flow_name="x", cron="0 3 * * *", timezone="Europe/Berlin"
    )
    assert (by_cron["cron"], by_cron["timezone"], by_cron["tag"]) == ("0 3 * * *", "Europe/Berlin", "default")
    once = client.create_yaml_schedule(WORKFLOW, flow_name="x", run_at="2100-01-01T00:00:00Z")
    later = client.create_yaml_schedule(
        WORKFLOW, flow_name="x", interval_seconds=60, start_at="2100-01-01T00:00:00Z"
    )
    assert once["next_at"] == later["next_at"] == 4102444800.0
    for made in (by_cron, once, later):
        client.delete_schedule(made["schedule_id"])


def test_a_refusal_is_an_error_with_its_body(client: PyocoHttpClient) -> None:
    with pytest.raises(httpx.HTTPStatusError) as caught:
        client.create_yaml_schedule(WORKFLOW, flow_name="x")
    assert caught.value.response.status_code == 422
    with pytest.raises(httpx.HTTPStatusError) as caught:
        client.list_schedule_runs("no/such one")
    assert caught.value.response.status_code == 404


def test_a_schedule_is_run_between_its_instants(client: PyocoHttpClient) -> None:
    made = client.add_schedule("hello", {"name": "you"}, tag="demo", run_at="2100-01-01T00:00:00Z")
    run = made.run_now()
    assert run.wait(30)["status"] == "COMPLETED"
    assert [one.id for one in made.runs()] == [run.id]
    assert run.result() == "Hello, you!"
    [listed] = [one for one in client.list_schedules(upcoming=3) if one["schedule_id"] == made.id]
    assert listed["upcoming"] == [4102444800.0]
    made.delete()


def test_a_schedule_is_edited_paused_and_backfilled(client: PyocoHttpClient) -> None:
    made = client.add_schedule(
        "hello",
        {"name": "you"},
        tag="demo",
        interval_seconds=3600,
        start_at="2026-01-01T00:00:00Z",
        end_at="2100-01-01T00:00:00Z",
        name="Every hour",
        overlap="skip",
        catch_up="all_within",
        catch_up_within_seconds=60,
        planned_at_param="name",
        jitter_seconds=1,
        paused=True,
    )
    assert made.refresh(upcoming=2)["status"] == "PAUSED"
    assert made.resume()["revision"] == 2
    edited = made.edit({"overlap": "allow", "end_at": None}, revision=2)
    assert (edited["overlap"], edited["end_at"], edited["revision"]) == ("allow", None, 3)
    with pytest.raises(httpx.HTTPStatusError) as refused:
        made.edit({"name": "x"}, revision=2)
    assert refused.value.response.status_code == 409
    made.backfill("2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z", max_running=2)
    wait_for(lambda: made.refresh()["runs"]["COMPLETED"] == 2)
    assert {run.result() for run in made.runs()} == {
        "Hello, 2026-01-01T00:00:00+00:00!",
        "Hello, 2026-01-01T01:00:00+00:00!",
    }
    found = made.occurrences(limit=1)
    assert (found["occurrences"][0]["outcome"], found["next_before"]) == ("started", 2)
    assert made.occurrences(before=2)["next_before"] is None
    backfill = made.stop_backfill()["backfill"]
    assert backfill is not None
    assert backfill["state"] == "COMPLETED"
    assert made.pause()["status"] == "PAUSED"
    made.delete()
