"""`PyocoHttpClient` after a submission: lists in pages, streams, results and retries."""

from __future__ import annotations

import threading
import time
from typing import Any

import httpx
import pytest

from pyoco_server.http_client import PyocoHttpClient, runs
from pyoco_server.http_client.answers import RunChangeAnswer
from pyoco_server.http_client.calls import events_in
from tests.http_client.conftest import Stack

UNKNOWN = "00000000-0000-0000-0000-000000000000"


def statuses(events: list[RunChangeAnswer]) -> list[str]:
    return [event["data"]["snapshot"]["status"] for event in events if event["event"] == "snapshot"]


def test_pages_are_read_one_after_the_other(client: PyocoHttpClient) -> None:
    made = [client.submit_run("hello", tag="pages")["run_id"] for _ in range(5)][::-1]
    page = client.list_runs_vnext(tag="pages", limit=2)
    found = page["items"]
    while page["next_cursor"]:
        page = client.list_runs_vnext(tag="pages", limit=2, cursor=page["next_cursor"])
        found += page["items"]
    assert [run["run_id"] for run in found] == made
    newest = found[0]["updated_at"]
    assert client.list_runs_vnext(tag="pages", updated_after=newest) == {"items": [], "next_cursor": None}
    assert client.list_runs_vnext(workflow_yaml_sha256="x")["items"] == []
    full = client.list_runs_vnext(tag="pages", status="PENDING", flow="hello", full=True, limit=1)
    assert full["items"][0]["task_records"] == {}


def test_a_run_is_watched_until_it_is_over(client: PyocoHttpClient) -> None:
    run_id = client.submit_run("parallel", tag="demo")["run_id"]
    seen = list(client.watch_run(run_id, include_records=True))
    assert all(set(event) == {"event", "data"} for event in seen)
    assert all(set(event["data"]) == {"run_id", "snapshot", "ts"} for event in seen)
    assert statuses(seen)[-1] == "COMPLETED"
    assert seen[-1]["data"]["snapshot"]["task_records"]["total"]["output"] == 10
    later = seen[-1]["data"]["snapshot"]["updated_at"] + 1
    assert list(client.watch_run(run_id, since=later)) == []


def test_a_watch_ends_with_its_time(client: PyocoHttpClient) -> None:
    run_id = client.submit_run("hello", tag="nobody")["run_id"]
    assert statuses(list(client.watch_run(run_id, timeout_sec=1))) == ["PENDING"]


def test_a_refused_watch_says_why(client: PyocoHttpClient) -> None:
    with pytest.raises(httpx.HTTPStatusError) as refused:
        list(client.watch_run(UNKNOWN))
    assert refused.value.response.json()["err_id"] == "ERR-PYOCO-0005"


def test_following_goes_on_over_the_end_of_a_stream(
    client: PyocoHttpClient, stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "ONE_WATCH_SEC", 0.9)
    run_id = client.submit_run("hello", tag="nobody")["run_id"]
    connections: list[int] = []
    stream = client._http.stream

    def counted(*args: Any, **how: Any) -> Any:
        connections.append(len(connections))
        if len(connections) == 3:
            threading.Thread(target=lambda: cancel(stack, run_id)).start()
        return stream(*args, **how)

    monkeypatch.setattr(client._http, "stream", counted)
    seen = list(client.follow_run(run_id))
    assert len(connections) >= 3
    assert statuses(seen) == ["PENDING", "CANCELLED"]
    assert list(client.follow_run(run_id, since=time.time() + 3600)) == []


def cancel(stack: Stack, run_id: str) -> None:
    with PyocoHttpClient(stack.url) as other:
        other.cancel_run(run_id)


def test_following_ends_with_its_time(client: PyocoHttpClient) -> None:
    run_id = client.submit_run("hello", tag="nobody")["run_id"]
    assert statuses(list(client.follow_run(run_id, timeout_sec=0.1))) == ["PENDING"]
    assert list(client.follow_run(run_id, timeout_sec=0)) == []


def test_a_result_is_waited_for(client: PyocoHttpClient) -> None:
    run_id = client.submit_run("parallel", tag="demo")["run_id"]
    assert client.result(run_id) == 10
    assert client.result(run_id, 0) == 10


def test_a_run_without_a_result_says_so(client: PyocoHttpClient) -> None:
    waits = client.submit_run("hello", tag="nobody")["run_id"]
    with pytest.raises(TimeoutError, match="PENDING"):
        client.result(waits, 0.05)
    failed = client.submit_run("fails", tag="demo")["run_id"]
    with pytest.raises(httpx.HTTPStatusError) as refused:
        client.result(failed, 20)
    assert (refused.value.response.status_code, refused.value.response.json()["status"]) == (409, "FAILED")


def test_a_retry_executes_only_what_had_failed(client: PyocoHttpClient) -> None:
    failed = client.submit_run("fails", tag="demo")["run_id"]
    client.wait_run(failed, 20)
    for from_start in (False, True):
        accepted = client.retry(failed, from_start=from_start)
        assert (accepted["status"], accepted["retry_of"]) == ("PENDING", failed)
        run = client.wait_run(accepted["run_id"], 20)
        assert (run["status"], run["retry_of"]) == ("FAILED", failed)
    first = client.get_run_with_records(failed)["task_records"]["prepare"]
    again = client.get_run_with_records(client.retry(failed)["run_id"])["task_records"]["prepare"]
    assert again["ended_at"] == first["ended_at"]


def test_events_are_read_by_the_book() -> None:
    lines = [": comment", "retry: 5", "", "event:x", "id: 7", 'data:{"a":1}', "", "data: 2", ""]
    lines += ["event: without data", ""]
    found = [tuple(event) for event in events_in(lines)]
    assert found == [("x", {"a": 1}, "7"), ("message", 2, None)]


def test_a_fork_executes_a_task_again_with_other_parameters(client: PyocoHttpClient) -> None:
    old = client.submit_run("hello", {"name": "Ann"}, tag="demo")["run_id"]
    client.wait_run(old, 20)
    (task,) = client.get_run(old)["tasks"]
    accepted = client.retry(old, from_task=task, params={"name": "Bob"})
    assert (accepted["retry_of"], accepted["retry_from"]) == (old, task)
    assert "Bob" in str(client.result(accepted["run_id"], 20))
    assert client.get_run(accepted["run_id"])["params"] == {"name": "Bob"}
    with pytest.raises(httpx.HTTPStatusError) as refused:
        client.retry(old, from_task="nobody")
    assert refused.value.response.status_code == 422
    with pytest.raises(ValueError, match="from a task"):
        client.retry(old, from_start=True, from_task=task)
