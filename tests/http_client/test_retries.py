"""Requests that are sent again: after a lost answer with the same key, and after `Retry-After`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from pyoco_server.http_client import AsyncPyocoClient, PyocoHttpClient, RequestRetryPolicy
from pyoco_server.http_client.retries import retry_after_sec
from pyoco_server.http_client.runs import get_run, submit_run
from pyoco_server.http_client.schedules import create_schedule
from pyoco_server.http_client.script import Pause, PolicyOf, Send
from tests.http_client.conftest import Stack
from tests.http_client.proxy import Proxy, proxy_to


class DropFirst:
    """The first answer to this request reaches the proxy, and the client gets nothing of it."""

    def __init__(self, begins_with: bytes) -> None:
        self._begins_with, self.dropped = begins_with, 0

    def __call__(self, request: bytes, answer: bytes) -> int | None:
        if self.dropped or not request.startswith(self._begins_with) or b"\r\n\r\n" not in answer:
            return None
        self.dropped += 1
        return 0


def keys_of(proxy: Proxy, begins_with: bytes) -> set[str]:
    heads = [one.decode().lower() for one in proxy.requests if one.startswith(begins_with)]
    assert len(heads) == 2
    return {line for head in heads for line in head.split("\r\n") if "idempotency-key:" in line}


def test_a_submission_whose_answer_was_lost_makes_one_run(stack: Stack, client: PyocoHttpClient) -> None:
    drop = DropFirst(b"POST /runs ")
    with proxy_to(stack.url, drop) as proxy, PyocoHttpClient(proxy.url) as behind:
        run = behind.submit("hello", tag="lost-answers")
        assert drop.dropped == 1
        assert len(keys_of(proxy, b"POST /runs ")) == 1
    assert [one["run_id"] for one in client.list_runs(tag="lost-answers")] == [run.id]


async def test_the_async_client_makes_one_job_as_well(stack: Stack, client: PyocoHttpClient) -> None:
    drop = DropFirst(b"POST /jobs ")
    with proxy_to(stack.url, drop) as proxy:
        async with AsyncPyocoClient(proxy.url) as behind:
            job = await behind.create_job({}, flow="hello", tag="nobody", tags=["lost-job"])
        assert drop.dropped == 1
        assert len(keys_of(proxy, b"POST /jobs ")) == 1
    assert [one["id"] for one in client.list_jobs(tag=["lost-job"])["jobs"]] == [job.id]


def test_a_request_without_a_key_is_not_repeated_after_a_lost_answer(
    stack: Stack, client: PyocoHttpClient
) -> None:
    drop = DropFirst(b"POST /schedules ")
    with proxy_to(stack.url, drop) as proxy, PyocoHttpClient(proxy.url) as behind:
        with pytest.raises(httpx.TransportError):
            behind.create_schedule("hello", tag="nobody", interval_seconds=3600)
        assert len(proxy.requests) == 1
    for schedule in client.list_schedules():
        client.schedule(schedule["schedule_id"]).delete()


def test_the_policy_can_forbid_retries(stack: Stack) -> None:
    drop = DropFirst(b"POST /runs ")
    never = RequestRetryPolicy(tries_max=1)
    with proxy_to(stack.url, drop) as proxy, PyocoHttpClient(proxy.url, retry_policy=never) as behind:
        with pytest.raises(httpx.TransportError):
            behind.submit("hello", tag="nobody")
        assert len(proxy.requests) == 1


def steps_of(script: Any, answers: list[httpx.Response | httpx.TransportError]) -> tuple[list[Any], Any]:
    """The steps of a script that gets these answers, and what it returns or raises."""
    steps: list[Any] = []
    outcome: Any = None
    try:
        while True:
            steps.append(script.throw(outcome) if isinstance(outcome, Exception) else script.send(outcome))
            outcome = None
            if isinstance(steps[-1], PolicyOf):
                outcome = RequestRetryPolicy()
            elif isinstance(steps[-1], Send):
                outcome = answers.pop(0)
    except StopIteration as end:
        return steps, end.value
    except httpx.HTTPError as error:
        return steps, error


def response(status: int, **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.Response(status, json={}, headers=named, request=httpx.Request("GET", "http://x"))


def test_retry_after_is_honoured_and_beyond_its_limit_the_error_is_raised() -> None:
    steps, answer = steps_of(get_run("r"), [response(503, retry_after="7"), response(200)])
    assert [one.seconds for one in steps if isinstance(one, Pause)] == [7.0]
    assert answer == {}
    steps, answer = steps_of(get_run("r"), [response(429, retry_after="3600")])
    assert not [one for one in steps if isinstance(one, Pause)]
    assert isinstance(answer, httpx.HTTPStatusError)


def test_pauses_grow_with_jitter_and_end() -> None:
    steps, answer = steps_of(submit_run("f"), [httpx.ReadError("cut") for _ in range(5)])
    pauses = [one.seconds for one in steps if isinstance(one, Pause)]
    assert isinstance(answer, httpx.ReadError)
    for pause_sec, whole_sec in zip(pauses, (0.2, 0.4, 0.8, 1.6), strict=True):
        assert whole_sec / 2 <= pause_sec <= whole_sec
    keys = {one.request.headers["Idempotency-Key"] for one in steps if isinstance(one, Send)}
    assert len(keys) == 1


@pytest.mark.parametrize(
    ("script", "answer", "tries"),
    [
        (lambda: create_schedule("f"), httpx.ReadError("cut"), 1),
        (lambda: create_schedule("f"), httpx.ConnectError("refused"), 2),
        (lambda: create_schedule("f"), response(503, retry_after="0"), 1),
        (lambda: create_schedule("f"), response(429, retry_after="0"), 2),
        (lambda: get_run("r"), response(500), 1),
        (lambda: get_run("r"), httpx.UnsupportedProtocol("no http"), 1),
    ],
)
def test_only_what_cannot_have_a_second_effect_is_sent_again(
    script: Callable[[], Any], answer: httpx.Response | httpx.TransportError, tries: int
) -> None:
    steps, _ = steps_of(script(), [answer, response(200)])
    assert len([one for one in steps if isinstance(one, Send)]) == tries


def test_retry_after_may_be_a_date() -> None:
    date, later = "Wed, 18 Nov 2026 10:00:00 GMT", "Wed, 18 Nov 2026 10:00:09 GMT"
    assert retry_after_sec(response(503, date=date, retry_after=later)) == 9.0
    assert retry_after_sec(response(503, date=date, retry_after="soon")) is None
    assert retry_after_sec(response(503)) is None
