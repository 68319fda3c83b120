"""`PyocoHttpClient` and what runs print: pages, everything, and everything as it comes."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import httpx
import pytest

from pyoco_server.http_client import PyocoHttpClient, logs
from tests.conftest import NatsServer, config_for
from tests.http_client.conftest import Stack


def finished(client: PyocoHttpClient, flow: str = "hello") -> str:
    run_id: str = client.submit_run(flow, tag="demo")["run_id"]
    client.wait_run(run_id, 20)
    return run_id


def test_a_log_is_read_page_by_page_or_at_once(
    client: PyocoHttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "PAGE_LINES", 2)
    run_id = finished(client)
    page = client.get_logs(run_id, limit=1)
    assert set(page) == {"entries", "next_token", "complete", "truncated"}
    lines = [entry["message"] for entry in client.logs(run_id)]
    assert lines[0].startswith("attempt 1 begins")
    assert lines[-1] == "run completed"
    assert [entry["message"] for entry in client.logs(run_id, tail=1)] == ["run completed"]
    assert [entry["message"] for entry in client.logs(run_id, q="^run comp", regex=True)] == ["run completed"]
    assert {entry["task"] for entry in client.logs(run_id, task="greet")} == {"greet"}


def test_a_search_that_pauses_goes_on_by_itself(nats_server: NatsServer) -> None:
    # Every page of a search is one line: no time for more.
    stack = Stack(replace(config_for(nats_server), log_search_sec=1e-6))
    stack.start()
    try:
        with PyocoHttpClient(stack.url) as client:
            run_id = finished(client)
            everything = list(client.logs(run_id))
            told: list[tuple[int, int]] = []
            found = list(client.logs(run_id, q="e", on_searched=lambda *so_far: told.append(so_far)))
            assert found == [entry for entry in everything if "e" in entry["message"]]
            assert told == [(number, len(everything)) for number in range(1, len(everything))]
            assert list(client.follow_logs(run_id, q="e")) == found
    finally:
        stack.stop()


def test_a_search_that_is_refused_for_now_is_asked_again(
    client: PyocoHttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = finished(client)
    answers = [httpx.Response(429, headers={"Retry-After": "0"}) for _ in range(3)]
    ask = client._http.request

    def busy_at_first(method: str, path: str, **asked: Any) -> httpx.Response:
        if not answers:
            return ask(method, path, **asked)
        answer = answers.pop()
        answer.request = httpx.Request("GET", client._http.base_url)
        return answer

    monkeypatch.setattr(client._http, "request", busy_at_first)
    assert [entry["message"] for entry in client.logs(run_id, q="run comp")] == ["run completed"]
    assert not answers


def test_a_run_is_followed_until_it_is_over(client: PyocoHttpClient) -> None:
    run_id: str = client.submit_run("ticker", tag="demo")["run_id"]
    seen = []
    for entry in client.follow_logs(run_id):
        seen.append(entry)
        if len(seen) == 4:
            threading.Thread(target=client.cancel_run, args=(run_id,)).start()
    assert [entry["seq"] for entry in seen] == list(range(1, len(seen) + 1))
    assert seen[-1]["message"] == "run cancelled"
    assert list(client.logs(run_id)) == seen
    assert [entry["message"] for entry in client.follow_logs(run_id, q="run cancelled")] == ["run cancelled"]


def test_following_may_be_choosy(client: PyocoHttpClient) -> None:
    run_id: str = client.submit_run("ticker", tag="demo")["run_id"]
    threading.Timer(0.3, client.cancel_run, (run_id,)).start()
    found = []
    for entry in client.follow_logs(run_id, q=r"cancel\w+", regex=True, since=1.0):
        found.append(entry["message"])
        break
    else:
        pytest.fail("nothing was found")
    assert found


def test_there_is_nothing_of_an_unknown_run(client: PyocoHttpClient) -> None:
    with pytest.raises(httpx.HTTPStatusError):
        list(client.follow_logs("nobody"))
