"""Handles of `PyocoHttpClient`: a run, execution, job, schedule or approval, with its calls.

A handle has the id, and `accepted`: the answer that it was made from. It stores nothing else; each call
asks the gateway.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar, Generic, ParamSpec, TypeVar, cast, overload

from pyoco_server.http_client import approvals, executions, jobs, logs, runs, schedules
from pyoco_server.http_client.blocking import BlockingOf, BlockingStreamOf, BlockingTransport, HasTransport
from pyoco_server.http_client.methods import DescribedMethod
from pyoco_server.http_client.script import Script, Stream

if TYPE_CHECKING:
    from pyoco_server.http_client.answers import ApprovalAnswer, CommandAnswer

P = ParamSpec("P")


class Handle:
    """What the handles share."""

    id_member: ClassVar[str] = "id"

    def __init__(self, transport: BlockingTransport, accepted: Mapping[str, object]) -> None:
        self.transport = transport
        self.accepted = dict(accepted)
        self.id = str(self.accepted[self.id_member])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r})"


H = TypeVar("H", bound=Handle)


class Making(DescribedMethod, Generic[P, H]):
    """A method of a client that returns the handle of what the script has made."""

    def __init__(self, describe: Callable[P, Script[Mapping[str, object]]], handle: type[H]) -> None:
        super().__init__(describe)
        self.describe, self.handle = describe, handle

    @overload
    def __get__(self, client: None, owner: type) -> Callable[..., object]: ...
    @overload
    def __get__(self, client: HasTransport, owner: type) -> Callable[P, H]: ...
    def __get__(self, client: HasTransport | None, owner: type) -> Callable[..., object]:
        if client is None:
            return self.on_class(owner)
        transport = client.transport

        @functools.wraps(self.describe)
        def call(*args: P.args, **kwargs: P.kwargs) -> H:
            return self.handle(transport, transport.run(self.describe(*args, **kwargs)))

        return call


class MakingEach(DescribedMethod, Generic[P, H]):
    """A method of a client that returns the handles of what the script finds, one by one."""

    def __init__(self, describe: Callable[P, Stream[Mapping[str, object]]], handle: type[H]) -> None:
        super().__init__(describe)
        self.describe, self.handle = describe, handle

    @overload
    def __get__(self, client: None, owner: type) -> Callable[..., object]: ...
    @overload
    def __get__(self, client: HasTransport, owner: type) -> Callable[P, Iterator[H]]: ...
    def __get__(self, client: HasTransport | None, owner: type) -> Callable[..., object]:
        if client is None:
            return self.on_class(owner)
        transport = client.transport

        @functools.wraps(self.describe)
        def call(*args: P.args, **kwargs: P.kwargs) -> Iterator[H]:
            for found in transport.iterate(self.describe(*args, **kwargs)):
                yield self.handle(transport, found)

        return call


class RunHandle(Handle):
    """A run: `run = client.submit("hello"); run.result()`."""

    id_member = "run_id"
    get = BlockingOf(runs.get_run)
    get_with_records = BlockingOf(runs.get_run_with_records)
    wait = BlockingOf(runs.wait_run)
    result = BlockingOf(runs.result)
    logs = BlockingStreamOf(logs.lines)
    follow = BlockingStreamOf(runs.follow_run)
    events = BlockingStreamOf(executions.events)
    tasks = BlockingOf(runs.get_tasks)
    why = BlockingOf(executions.why)
    cancel = BlockingOf(runs.cancel_run)
    approve = BlockingOf(approvals.approve)
    reject = BlockingOf(approvals.reject)

    def retry(
        self,
        *,
        from_start: bool = False,
        from_task: str | None = None,
        params: Mapping[str, object] | None = None,
    ) -> RunHandle:
        """The handle of a new run, which executes only what has not succeeded (`PyocoHttpClient.retry`)."""
        script = runs.retry(self.id, from_start=from_start, from_task=from_task, params=params)
        return RunHandle(self.transport, self.transport.run(script))


class ExecutionHandle(Handle):
    """An execution. The node calls are for executions that a client drives."""

    id_member = "executionId"
    get = BlockingOf(executions.get_execution)
    state = BlockingOf(executions.get_state)
    wait = BlockingOf(executions.wait_execution)
    result = BlockingOf(runs.result)
    events = BlockingStreamOf(executions.events)
    logs = BlockingStreamOf(logs.lines)
    why = BlockingOf(executions.why)
    verify = BlockingOf(executions.verify_execution)
    start = BlockingOf(executions.start_execution)
    cancel = BlockingOf(executions.cancel_execution)
    archive = BlockingOf(executions.archive_execution)
    start_node = BlockingOf(executions.start_node)
    report_progress = BlockingOf(executions.report_progress)
    put_waiting = BlockingOf(executions.put_waiting)
    succeed_node = BlockingOf(executions.succeed_node)
    fail_node = BlockingOf(executions.fail_node)
    approve = BlockingOf(approvals.approve)
    reject = BlockingOf(approvals.reject)


class JobHandle(Handle):
    """A job."""

    get = BlockingOf(jobs.get_job)
    wait = BlockingOf(jobs.wait_job)
    result = BlockingOf(runs.result)
    logs = BlockingStreamOf(logs.lines)
    cancel = BlockingOf(jobs.cancel_job)
    purge = BlockingOf(jobs.purge_job)
    tags = BlockingOf(jobs.get_tags)
    add_tag = BlockingOf(jobs.add_tag)
    remove_tag = BlockingOf(jobs.remove_tag)


class ScheduleHandle(Handle):
    """A schedule."""

    id_member = "schedule_id"
    delete = BlockingOf(schedules.delete_schedule)
    refresh = BlockingOf(schedules.get_schedule)
    edit = BlockingOf(schedules.edit_schedule)
    pause = BlockingOf(schedules.pause_schedule)
    resume = BlockingOf(schedules.resume_schedule)
    backfill = BlockingOf(schedules.backfill_schedule)
    stop_backfill = BlockingOf(schedules.stop_backfill)
    occurrences = BlockingOf(schedules.list_occurrences)

    def run_now(self) -> RunHandle:
        """Start one more run of it, now. Its next instants stay as they are."""
        return RunHandle(self.transport, self.transport.run(schedules.run_schedule(self.id)))

    def runs(self, *, limit: int | None = None) -> list[RunHandle]:
        """The runs that it has started, those that changed last first."""
        found = self.transport.run(schedules.list_schedule_runs(self.id, limit=limit))
        return [RunHandle(self.transport, one) for one in found]


class ApprovalHandle(Handle):
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

    def approve(self, payload: object = None, *, comment: str | None = None) -> CommandAnswer:
        """Approve it; `payload` becomes the result of the task."""
        key = str(self.accepted["wait_key"])
        script = approvals.approve(self.id, self.task, payload, comment=comment, wait_key=key)
        return self.transport.run(script)

    def reject(self, comment: str | None = None) -> CommandAnswer:
        """Reject it: the task fails, and `comment` is its error."""
        key = str(self.accepted["wait_key"])
        return self.transport.run(approvals.reject(self.id, self.task, comment, wait_key=key))
