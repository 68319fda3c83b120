"""Handles of `AsyncPyocoClient`: a run, execution, job, schedule or approval, with its calls.

A handle has the id, and `accepted`: the answer that it was made from. It stores nothing else; each call
asks the gateway. The handles of the blocking client are in `handles.py`.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, ClassVar, Generic, ParamSpec, TypeVar, cast, overload

from pyoco_server.http_client import approvals, executions, jobs, logs, runs, schedules
from pyoco_server.http_client.asynchronous import (
    AsyncTransport,
    AwaitedOf,
    AwaitedStreamOf,
    Awaiting,
    HasAsyncTransport,
)
from pyoco_server.http_client.methods import DescribedMethod
from pyoco_server.http_client.script import Script, Stream

if TYPE_CHECKING:
    from pyoco_server.http_client.answers import ApprovalAnswer, CommandAnswer

P = ParamSpec("P")


class AsyncHandle:
    """What the handles share."""

    id_member: ClassVar[str] = "id"

    def __init__(self, transport: AsyncTransport, accepted: Mapping[str, object]) -> None:
        self.transport = transport
        self.accepted = dict(accepted)
        self.id = str(self.accepted[self.id_member])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r})"


H = TypeVar("H", bound=AsyncHandle)


class AsyncMaking(DescribedMethod, Generic[P, H]):
    """A method of a client that returns the handle of what the script has made."""

    def __init__(self, describe: Callable[P, Script[Mapping[str, object]]], handle: type[H]) -> None:
        super().__init__(describe)
        self.describe, self.handle = describe, handle

    @overload
    def __get__(self, client: None, owner: type) -> Callable[..., object]: ...
    @overload
    def __get__(self, client: HasAsyncTransport, owner: type) -> Callable[P, Awaiting[H]]: ...
    def __get__(self, client: HasAsyncTransport | None, owner: type) -> Callable[..., object]:
        if client is None:
            return self.on_class(owner)
        transport = client.transport

        @functools.wraps(self.describe)
        async def call(*args: P.args, **kwargs: P.kwargs) -> H:
            return self.handle(transport, await transport.run(self.describe(*args, **kwargs)))

        return call


class AsyncMakingEach(DescribedMethod, Generic[P, H]):
    """A method of a client that returns the handles of what the script finds, one by one."""

    def __init__(self, describe: Callable[P, Stream[Mapping[str, object]]], handle: type[H]) -> None:
        super().__init__(describe)
        self.describe, self.handle = describe, handle

    @overload
    def __get__(self, client: None, owner: type) -> Callable[..., object]: ...
    @overload
    def __get__(self, client: HasAsyncTransport, owner: type) -> Callable[P, AsyncIterator[H]]: ...
    def __get__(self, client: HasAsyncTransport | None, owner: type) -> Callable[..., object]:
        if client is None:
            return self.on_class(owner)
        transport = client.transport

        @functools.wraps(self.describe)
        async def call(*args: P.args, **kwargs: P.kwargs) -> AsyncIterator[H]:
            async for found in transport.iterate(self.describe(*args, **kwargs)):
                yield self.handle(transport, found)

        return call


class AsyncRunHandle(AsyncHandle):
    """A run: `run = await client.submit("hello"); await run.result()`."""

    id_member = "run_id"
    get = AwaitedOf(runs.get_run)
    get_with_records = AwaitedOf(runs.get_run_with_records)
    wait = AwaitedOf(runs.wait_run)
    result = AwaitedOf(runs.result)
    logs = AwaitedStreamOf(logs.lines)
    follow = AwaitedStreamOf(runs.follow_run)
    events = AwaitedStreamOf(executions.events)
    tasks = AwaitedOf(runs.get_tasks)
    why = AwaitedOf(executions.why)
    cancel = AwaitedOf(runs.cancel_run)
    approve = AwaitedOf(approvals.approve)
    reject = AwaitedOf(approvals.reject)

    async def retry(
        self,
        *,
        from_start: bool = False,
        from_task: str | None = None,
        params: Mapping[str, object] | None = None,
    ) -> AsyncRunHandle:
        """The handle of a new run, which executes only what has not succeeded (`PyocoHttpClient.retry`)."""
        script = runs.retry(self.id, from_start=from_start, from_task=from_task, params=params)
        return AsyncRunHandle(self.transport, await self.transport.run(script))


class AsyncExecutionHandle(AsyncHandle):
    """An execution. The node calls are for executions that a client drives."""

    id_member = "executionId"
    get = AwaitedOf(executions.get_execution)
    state = AwaitedOf(executions.get_state)
    wait = AwaitedOf(executions.wait_execution)
    result = AwaitedOf(runs.result)
    events = AwaitedStreamOf(executions.events)
    logs = AwaitedStreamOf(logs.lines)
    why = AwaitedOf(executions.why)
    verify = AwaitedOf(executions.verify_execution)
    start = AwaitedOf(executions.start_execution)
    cancel = AwaitedOf(executions.cancel_execution)
    archive = AwaitedOf(executions.archive_execution)
    start_node = AwaitedOf(executions.start_node)
    report_progress = AwaitedOf(executions.report_progress)
    put_waiting = AwaitedOf(executions.put_waiting)
    succeed_node = AwaitedOf(executions.succeed_node)
    fail_node = AwaitedOf(executions.fail_node)
    approve = AwaitedOf(approvals.approve)
    reject = AwaitedOf(approvals.reject)


class AsyncJobHandle(AsyncHandle):
    """A job."""

    get = AwaitedOf(jobs.get_job)
    wait = AwaitedOf(jobs.wait_job)
    result = AwaitedOf(runs.result)
    logs = AwaitedStreamOf(logs.lines)
    cancel = AwaitedOf(jobs.cancel_job)
    purge = AwaitedOf(jobs.purge_job)
    tags = AwaitedOf(jobs.get_tags)
    add_tag = AwaitedOf(jobs.add_tag)
    remove_tag = AwaitedOf(jobs.remove_tag)


class AsyncScheduleHandle(AsyncHandle):
    """A schedule."""

    id_member = "schedule_id"
    delete = AwaitedOf(schedules.delete_schedule)
    refresh = AwaitedOf(schedules.get_schedule)
    edit = AwaitedOf(schedules.edit_schedule)
    pause = AwaitedOf(schedules.pause_schedule)
    resume = AwaitedOf(schedules.resume_schedule)
    backfill = AwaitedOf(schedules.backfill_schedule)
    stop_backfill = AwaitedOf(schedules.stop_backfill)
    occurrences = AwaitedOf(schedules.list_occurrences)

    async def run_now(self) -> AsyncRunHandle:
        """Start one more run of it, now. Its next instants stay as they are."""
        return AsyncRunHandle(self.transport, await self.transport.run(schedules.run_schedule(self.id)))

    async def runs(self, *, limit: int | None = None) -> list[AsyncRunHandle]:
        """The runs that it has started, those that changed last first."""
        found = await self.transport.run(schedules.list_schedule_runs(self.id, limit=limit))
        return [AsyncRunHandle(self.transport, one) for one in found]


class AsyncApprovalHandle(AsyncHandle):
    """A task that waits for an answer. `approval.answer` has its prompt; `id` is the id of its run."""

    id_member = "run_id"

    @property
    def answer(self) -> ApprovalAnswer:
        """The task, its question, and since when it waits."""
        return cast("ApprovalAnswer", self.accepted)

    @property
    def task(self) -> str:
        """The name of the task."""
        return str(self.accepted["task"])

    async def approve(self, payload: object = None, *, comment: str | None = None) -> CommandAnswer:
        """Approve it; `payload` becomes the result of the task."""
        key = str(self.accepted["wait_key"])
        script = approvals.approve(self.id, self.task, payload, comment=comment, wait_key=key)
        return await self.transport.run(script)

    async def reject(self, comment: str | None = None) -> CommandAnswer:
        """Reject it: the task fails, and `comment` is its error."""
        key = str(self.accepted["wait_key"])
        return await self.transport.run(approvals.reject(self.id, self.task, comment, wait_key=key))
