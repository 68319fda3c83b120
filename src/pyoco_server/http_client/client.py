"""`PyocoHttpClient`: the gateway's HTTP API as Python calls. `AsyncPyocoClient` has the same calls for
`asyncio`.

An answer is the JSON that the gateway sent. An error answer raises `httpx.HTTPStatusError`; a wait that
takes too long raises `TimeoutError`. A request whose answer was lost is sent again if it cannot have a
second effect (`retries.py`). Each row of the class names the function that describes the call.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

import httpx

from pyoco_server.http_client import approvals as approval_calls
from pyoco_server.http_client import batches, executions, jobs, operator, overview, runs, schedules, workers
from pyoco_server.http_client import logs as logs_calls
from pyoco_server.http_client.blocking import Blocking, BlockingStream, BlockingTransport
from pyoco_server.http_client.handles import (
    ApprovalHandle,
    ExecutionHandle,
    JobHandle,
    Making,
    MakingEach,
    RunHandle,
    ScheduleHandle,
)
from pyoco_server.http_client.retries import RequestRetryPolicy
from pyoco_server.http_client.script import REQUEST_TIMEOUT_SEC


class PyocoHttpClient:
    """A connection to a gateway. Use it with `with`, or call `close`."""

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str | None = None,
        api_key_header: str = "X-API-Key",
        retry_policy: RequestRetryPolicy | None = None,
    ) -> None:
        headers = {api_key_header: api_key} if api_key else {}
        self._http = httpx.Client(base_url=base_url.rstrip("/"), headers=headers, timeout=REQUEST_TIMEOUT_SEC)
        self.transport = BlockingTransport(self._http, retry_policy or RequestRetryPolicy())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections. A second call does nothing."""
        self._http.close()

    # Handles: what was made or found, with its calls
    submit = Making(runs.submit_run, RunHandle)
    submit_yaml = Making(runs.submit_run_yaml, RunHandle)
    create_execution = Making(executions.create_execution, ExecutionHandle)
    create_job = Making(jobs.create_job, JobHandle)
    add_schedule = Making(schedules.create_schedule, ScheduleHandle)
    add_yaml_schedule = Making(schedules.create_yaml_schedule, ScheduleHandle)
    approvals = MakingEach(approval_calls.each_approval, ApprovalHandle)

    def run(self, run_id: str) -> RunHandle:
        """The handle of a run that exists. Sends nothing."""
        return RunHandle(self.transport, {"run_id": run_id})

    def execution(self, execution_id: str) -> ExecutionHandle:
        """The handle of an execution that exists. Sends nothing."""
        return ExecutionHandle(self.transport, {"executionId": execution_id})

    def job(self, job_id: str) -> JobHandle:
        """The handle of a job that exists. Sends nothing."""
        return JobHandle(self.transport, {"id": job_id})

    def schedule(self, schedule_id: str) -> ScheduleHandle:
        """The handle of a schedule that exists. Sends nothing."""
        return ScheduleHandle(self.transport, {"schedule_id": schedule_id})

    # Runs
    submit_run = Blocking(runs.submit_run)
    submit_run_yaml = Blocking(runs.submit_run_yaml)
    get_run = Blocking(runs.get_run)
    get_run_with_records = Blocking(runs.get_run_with_records)
    get_tasks = Blocking(runs.get_tasks)
    get_graph = Blocking(runs.get_graph)
    list_runs = Blocking(runs.list_runs)
    list_runs_vnext = Blocking(runs.list_runs_vnext)
    result = Blocking(runs.result)
    retry = Blocking(runs.retry)
    cancel_run = Blocking(runs.cancel_run)
    wait_run = Blocking(runs.wait_run)
    watch_run = BlockingStream(runs.watch_run)
    follow_run = BlockingStream(runs.follow_run)

    # Many runs
    find_runs = Blocking(overview.find_runs)
    search_runs = Blocking(overview.search_runs)
    run_stats = Blocking(overview.run_stats)
    stream = BlockingStream(overview.stream)

    # Batches
    submit_batch = Blocking(batches.submit_batch)
    get_batch = Blocking(batches.get_batch)
    list_batches = Blocking(batches.list_batches)
    cancel_batch = Blocking(batches.cancel_batch)
    follow_batch = BlockingStream(batches.follow_batch)

    # Logs
    get_logs = Blocking(logs_calls.get_logs)
    logs = BlockingStream(logs_calls.logs)
    follow_logs = BlockingStream(logs_calls.follow_logs)

    # Approvals
    list_approvals = Blocking(approval_calls.list_approvals)
    list_approval_history = Blocking(approval_calls.list_approval_history)
    resume_task = Blocking(approval_calls.resume_task)

    # Schedules
    create_schedule = Blocking(schedules.create_schedule)
    create_yaml_schedule = Blocking(schedules.create_yaml_schedule)
    list_schedules = Blocking(schedules.list_schedules)
    get_schedule = Blocking(schedules.get_schedule)
    edit_schedule = Blocking(schedules.edit_schedule)
    pause_schedule = Blocking(schedules.pause_schedule)
    resume_schedule = Blocking(schedules.resume_schedule)
    backfill_schedule = Blocking(schedules.backfill_schedule)
    stop_backfill = Blocking(schedules.stop_backfill)
    list_occurrences = Blocking(schedules.list_occurrences)
    run_schedule = Blocking(schedules.run_schedule)
    list_schedule_runs = Blocking(schedules.list_schedule_runs)
    delete_schedule = Blocking(schedules.delete_schedule)

    # Executions and graphs
    put_graph = Blocking(executions.put_graph)
    list_graphs = Blocking(executions.list_graphs)
    get_graph_definition = Blocking(executions.get_graph_definition)
    list_executions = Blocking(executions.list_executions)
    get_execution = Blocking(executions.get_execution)
    why = Blocking(executions.why)

    # Jobs
    get_job = Blocking(jobs.get_job)
    list_jobs = Blocking(jobs.list_jobs)

    # Workers
    get_workers = Blocking(workers.get_workers)
    list_worker_tags = Blocking(workers.list_worker_tags)
    patch_worker_hidden = Blocking(workers.patch_worker_hidden)
    patch_worker_draining = Blocking(workers.patch_worker_draining)
    wait_drained = Blocking(workers.wait_drained)

    # Operators
    list_flows = Blocking(operator.list_flows)
    get_caller = Blocking(operator.get_caller)
    get_metrics = Blocking(operator.get_metrics)
    list_wheels = Blocking(operator.list_wheels)
    list_wheel_history = Blocking(operator.list_wheel_history)
    upload_wheel = Blocking(operator.upload_wheel)
    download_wheel = Blocking(operator.download_wheel)
    delete_wheel = Blocking(operator.delete_wheel)
    list_dead_letters = Blocking(operator.list_dead_letters)
    get_dead_letter = Blocking(operator.get_dead_letter)
    redrive_dead_letter = Blocking(operator.redrive_dead_letter)
    dismiss_dead_letter = Blocking(operator.dismiss_dead_letter)
