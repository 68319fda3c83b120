"""`AsyncPyocoClient`: the calls of `PyocoHttpClient` for `asyncio`, by the same names.

A call is awaited, a stream is read with `async for`. Calls are described once, for both clients.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

import httpx

from pyoco_server.http_client import approvals as approval_calls
from pyoco_server.http_client import batches, executions, jobs, operator, overview, runs, schedules, workers
from pyoco_server.http_client import logs as logs_calls
from pyoco_server.http_client.async_handles import (
    AsyncApprovalHandle,
    AsyncExecutionHandle,
    AsyncJobHandle,
    AsyncMaking,
    AsyncMakingEach,
    AsyncRunHandle,
    AsyncScheduleHandle,
)
from pyoco_server.http_client.asynchronous import AsyncTransport, Awaited, AwaitedStream
from pyoco_server.http_client.retries import RequestRetryPolicy
from pyoco_server.http_client.script import REQUEST_TIMEOUT_SEC


class AsyncPyocoClient:
    """A connection to a gateway. Use it with `async with`, or call `close`."""

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str | None = None,
        api_key_header: str = "X-API-Key",
        retry_policy: RequestRetryPolicy | None = None,
    ) -> None:
        headers = {api_key_header: api_key} if api_key else {}
        self._http = httpx.AsyncClient(
            base_url=base_url.rstrip("/"), headers=headers, timeout=REQUEST_TIMEOUT_SEC
        )
        self.transport = AsyncTransport(self._http, retry_policy or RequestRetryPolicy())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections. A second call does nothing."""
        await self._http.aclose()

    # Handles: what was made or found, with its calls
    submit = AsyncMaking(runs.submit_run, AsyncRunHandle)
    submit_yaml = AsyncMaking(runs.submit_run_yaml, AsyncRunHandle)
    create_execution = AsyncMaking(executions.create_execution, AsyncExecutionHandle)
    create_job = AsyncMaking(jobs.create_job, AsyncJobHandle)
    add_schedule = AsyncMaking(schedules.create_schedule, AsyncScheduleHandle)
    add_yaml_schedule = AsyncMaking(schedules.create_yaml_schedule, AsyncScheduleHandle)
    approvals = AsyncMakingEach(approval_calls.each_approval, AsyncApprovalHandle)

    def run(self, run_id: str) -> AsyncRunHandle:
        """The handle of a run that exists. Sends nothing."""
        return AsyncRunHandle(self.transport, {"run_id": run_id})

    def execution(self, execution_id: str) -> AsyncExecutionHandle:
        """The handle of an execution that exists. Sends nothing."""
        return AsyncExecutionHandle(self.transport, {"executionId": execution_id})

    def job(self, job_id: str) -> AsyncJobHandle:
        """The handle of a job that exists. Sends nothing."""
        return AsyncJobHandle(self.transport, {"id": job_id})

    def schedule(self, schedule_id: str) -> AsyncScheduleHandle:
        """The handle of a schedule that exists. Sends nothing."""
        return AsyncScheduleHandle(self.transport, {"schedule_id": schedule_id})

    # Runs
    submit_run = Awaited(runs.submit_run)
    submit_run_yaml = Awaited(runs.submit_run_yaml)
    get_run = Awaited(runs.get_run)
    get_run_with_records = Awaited(runs.get_run_with_records)
    get_tasks = Awaited(runs.get_tasks)
    get_graph = Awaited(runs.get_graph)
    list_runs = Awaited(runs.list_runs)
    list_runs_vnext = Awaited(runs.list_runs_vnext)
    result = Awaited(runs.result)
    retry = Awaited(runs.retry)
    cancel_run = Awaited(runs.cancel_run)
    wait_run = Awaited(runs.wait_run)
    watch_run = AwaitedStream(runs.watch_run)
    follow_run = AwaitedStream(runs.follow_run)

    # Many runs
    find_runs = Awaited(overview.find_runs)
    search_runs = Awaited(overview.search_runs)
    run_stats = Awaited(overview.run_stats)
    stream = AwaitedStream(overview.stream)

    # Batches
    submit_batch = Awaited(batches.submit_batch)
    get_batch = Awaited(batches.get_batch)
    list_batches = Awaited(batches.list_batches)
    cancel_batch = Awaited(batches.cancel_batch)
    follow_batch = AwaitedStream(batches.follow_batch)

    # Logs
    get_logs = Awaited(logs_calls.get_logs)
    logs = AwaitedStream(logs_calls.logs)
    follow_logs = AwaitedStream(logs_calls.follow_logs)

    # Approvals
    list_approvals = Awaited(approval_calls.list_approvals)
    list_approval_history = Awaited(approval_calls.list_approval_history)
    resume_task = Awaited(approval_calls.resume_task)

    # Schedules
    create_schedule = Awaited(schedules.create_schedule)
    create_yaml_schedule = Awaited(schedules.create_yaml_schedule)
    list_schedules = Awaited(schedules.list_schedules)
    get_schedule = Awaited(schedules.get_schedule)
    edit_schedule = Awaited(schedules.edit_schedule)
    pause_schedule = Awaited(schedules.pause_schedule)
    resume_schedule = Awaited(schedules.resume_schedule)
    backfill_schedule = Awaited(schedules.backfill_schedule)
    stop_backfill = Awaited(schedules.stop_backfill)
    list_occurrences = Awaited(schedules.list_occurrences)
    run_schedule = Awaited(schedules.run_schedule)
    list_schedule_runs = Awaited(schedules.list_schedule_runs)
    delete_schedule = Awaited(schedules.delete_schedule)

    # Executions and graphs
    put_graph = Awaited(executions.put_graph)
    list_graphs = Awaited(executions.list_graphs)
    get_graph_definition = Awaited(executions.get_graph_definition)
    list_executions = Awaited(executions.list_executions)
    get_execution = Awaited(executions.get_execution)
    why = Awaited(executions.why)

    # Jobs
    get_job = Awaited(jobs.get_job)
    list_jobs = Awaited(jobs.list_jobs)

    # Workers
    get_workers = Awaited(workers.get_workers)
    list_worker_tags = Awaited(workers.list_worker_tags)
    patch_worker_hidden = Awaited(workers.patch_worker_hidden)
    patch_worker_draining = Awaited(workers.patch_worker_draining)
    wait_drained = Awaited(workers.wait_drained)

    # Operators
    list_flows = Awaited(operator.list_flows)
    get_caller = Awaited(operator.get_caller)
    get_metrics = Awaited(operator.get_metrics)
    list_wheels = Awaited(operator.list_wheels)
    list_wheel_history = Awaited(operator.list_wheel_history)
    upload_wheel = Awaited(operator.upload_wheel)
    download_wheel = Awaited(operator.download_wheel)
    delete_wheel = Awaited(operator.delete_wheel)
    list_dead_letters = Awaited(operator.list_dead_letters)
    get_dead_letter = Awaited(operator.get_dead_letter)
    redrive_dead_letter = Awaited(operator.redrive_dead_letter)
    dismiss_dead_letter = Awaited(operator.dismiss_dead_letter)
