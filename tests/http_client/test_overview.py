"""Calls about many runs: short ids, searches, flows, reasons, and the stream of several topics."""

from __future__ import annotations

from pyoco_server.http_client import PyocoHttpClient


def test_runs_are_found_by_the_beginning_of_their_id(client: PyocoHttpClient) -> None:
    run_id = client.submit_run("hello", tag="nobody")["run_id"]
    assert [run["run_id"] for run in client.find_runs(run_id[:12])] == [run_id]
    assert client.find_runs("zzzz") == []


def test_runs_are_searched_by_text(client: PyocoHttpClient) -> None:
    run_id = client.submit_run("fails", tag="demo")["run_id"]
    client.wait_run(run_id, 20)
    assert run_id in [run["run_id"] for run in client.search_runs(q="fails", limit=10)["items"]]


def test_flows_and_reasons_are_listed(client: PyocoHttpClient) -> None:
    assert "hello" in [flow["flow_name"] for flow in client.list_flows()]
    run_id = client.submit_run("hello", tag="nobody")["run_id"]
    assert "No live worker serves the tag nobody" in str(client.why(run_id))
    assert client.run_stats()


def test_the_stream_sends_events_of_its_topics(client: PyocoHttpClient) -> None:
    events = client.stream(["runs", "workers"], timeout_sec=5)
    assert next(events).name in ("runs", "workers")
    events.close()
