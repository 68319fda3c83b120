"""Runs, executions, jobs, approvals and schedules as objects, of both clients; and streams that are cut."""

from __future__ import annotations

import inspect
import threading
from typing import Any

import httpx
import pytest

from pyoco_server.http_client import AsyncPyocoClient, PyocoHttpClient, async_handles, handles
from pyoco_server.http_client.methods import DescribedMethod
from tests.http_client.conftest import Stack
from tests.http_client.proxy import proxy_to

WAIT_SEC = 30.0
# The first ones happen while one line is sent again and again, the others after further lines.
CUTS = 6
NODES: list[dict[str, Any]] = [{"id": "one"}, {"id": "two", "after": ["one"]}]


def test_a_run_is_submitted_waited_for_and_read(client: PyocoHttpClient) -> None:
    run = client.submit("hello", {"name": "you"}, tag="demo")
    assert run.wait(WAIT_SEC)["status"] == "COMPLETED"
    assert run.result() == "Hello, you!"
    assert [line["message"] for line in run.logs(follow=True)][-1] == "run completed"
    assert [event["type"] for event in run.events()][-1] == "EXECUTION_COMPLETED"
    assert list(run.events(follow=True)) == list(run.events())
    assert run.why()["summary"]
    again = run.retry(from_start=True)
    assert again.wait(WAIT_SEC)["retry_of"] == run.id
    assert client.run(run.id).get() == run.get()


async def test_the_async_client_does_the_same(stack: Stack) -> None:
    async with AsyncPyocoClient(stack.url) as client:
        run = await client.submit("hello", {"name": "you"}, tag="demo")
        assert (await run.wait(WAIT_SEC))["status"] == "COMPLETED"
        assert await run.result() == "Hello, you!"
        lines = [line["message"] async for line in run.logs(follow=True)]
        assert lines[-1] == "run completed"
        assert [event["type"] async for event in run.events()][-1] == "EXECUTION_COMPLETED"
        with pytest.raises(httpx.HTTPStatusError):
            await client.get_run("unknown")


def test_an_execution_is_driven_by_its_handle(client: PyocoHttpClient) -> None:
    client.put_graph("two-steps", NODES)
    execution = client.create_execution("two-steps", {"x": 1})
    execution.start()
    for node in ("one", "two"):
        execution.start_node(node, worker_id="me")
        execution.report_progress(node, 50, "half")
        execution.succeed_node(node, node.upper())
    ended = execution.wait(WAIT_SEC)
    assert ended["status"] == "COMPLETED"
    assert [node["output"] for node in ended["nodes"]] == ["ONE", "TWO"]
    assert execution.verify()["ok"]
    assert [event["seq"] for event in execution.events(follow=True)] == list(
        range(1, len(list(execution.events())) + 1)
    )


async def test_jobs_and_schedules_have_handles(stack: Stack) -> None:
    async with AsyncPyocoClient(stack.url) as client:
        job = await client.create_job({"name": "job"}, flow="hello", tag="demo", tags=["a"])
        assert (await job.wait(WAIT_SEC))["status"] == "completed"
        assert await job.result() == "Hello, job!"
        assert await job.add_tag("b") == ["a", "b"]
        await job.remove_tag("a")
        assert await job.tags() == ["b"]
        schedule = await client.add_schedule("hello", tag="nobody", interval_seconds=3600)
        assert schedule.id in [one["schedule_id"] for one in await client.list_schedules()]
        assert await schedule.runs() == []
        await schedule.delete()
        await job.purge()


def test_approvals_are_answered_by_their_handles(client: PyocoHttpClient) -> None:
    run = client.submit("release", {"version": "9"}, tag="demo")
    for event in run.events(follow=True):
        if event["type"] == "NODE_WAITING":
            break
    [asked] = [one for one in client.approvals(page_size=1) if one.id == run.id]
    assert (asked.task, asked.answer["prompt"]) == ("approve", {"question": "Deploy it?", "version": "9"})
    asked.approve({"by": "ann"}, comment="fine")
    assert run.wait(WAIT_SEC)["status"] == "COMPLETED"


class CutStreams:
    """Every connection to a log stream gets so many bytes more than the one before, then it is cut."""

    def __init__(self, first: int, step: int) -> None:
        self._bytes, self._step = first, step
        self._limits: dict[int, int] = {}
        self.cuts = 0

    def __call__(self, request: bytes, answer: bytes) -> int | None:
        if b"/logs/stream " not in request.split(b"\r\n")[0]:
            return None
        limit = self._limits.setdefault(id(request), self._bytes)
        if len(answer) < limit:
            return None
        self.cuts += 1
        self._bytes += self._step
        return limit


def test_a_log_whose_stream_is_cut_has_every_line_once(stack: Stack, client: PyocoHttpClient) -> None:
    cut = CutStreams(600, 97)
    run = client.submit("ticker", tag="demo")
    with proxy_to(stack.url, cut) as proxy, PyocoHttpClient(proxy.url) as behind:
        seen = []
        cancel = threading.Thread(target=run.cancel)
        for line in behind.run(run.id).logs(follow=True):
            seen.append(line)
            # Several connections may be cut between two lines.
            if cut.cuts >= CUTS and cancel.ident is None:
                cancel.start()
    cancel.join()
    assert cut.cuts >= CUTS
    assert [line["seq"] for line in seen] == list(range(1, len(seen) + 1))
    assert seen == list(run.logs())


async def test_an_async_stream_that_is_cut_goes_on_as_well(stack: Stack, client: PyocoHttpClient) -> None:
    cut = CutStreams(600, 97)
    run = client.submit("ticker", tag="demo")
    with proxy_to(stack.url, cut) as proxy:
        async with AsyncPyocoClient(proxy.url) as behind:
            seen = []
            cancel = threading.Thread(target=run.cancel)
            async for line in behind.run(run.id).logs(follow=True):
                seen.append(line)
                if cut.cuts >= CUTS and cancel.ident is None:
                    cancel.start()
    cancel.join()
    assert cut.cuts >= CUTS
    assert seen == list(run.logs())


def test_both_clients_and_their_handles_have_the_same_calls() -> None:
    pairs: list[tuple[type, type]] = [(PyocoHttpClient, AsyncPyocoClient)]
    pairs += [
        (getattr(handles, name), getattr(async_handles, f"Async{name}"))
        for name in ("RunHandle", "ExecutionHandle", "JobHandle", "ScheduleHandle", "ApprovalHandle")
    ]
    for blocking, awaited in pairs:
        for name in (name for name in vars(blocking) if not name.startswith("_")):
            theirs, ours = inspect.getattr_static(awaited, name), inspect.getattr_static(blocking, name)
            if isinstance(ours, DescribedMethod):
                assert isinstance(theirs, DescribedMethod)
                assert theirs.described is ours.described, name
        assert {name for name in vars(blocking) if not name.startswith("_")} == {
            name for name in vars(awaited) if not name.startswith("_")
        }
