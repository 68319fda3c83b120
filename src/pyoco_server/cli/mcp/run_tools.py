"""The tools: each is a call or two of the gateway's client, with a small answer. Owns their limits."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, cast

import msgspec
from pydantic import Field

from pyoco_server.cli.client.ids import PREFIX_CHARS_MIN, is_whole, the_one
from pyoco_server.cli.mcp import shapes as s
from pyoco_server.http_client import AsyncPyocoClient

ENDED = ("COMPLETED", "FAILED", "CANCELLED")
FOLLOW_SEC_MAX = 300.0
# How often a run that is followed reports its progress.
PROGRESS_SEC = 5.0
RUNS_MAX = 100
FLOWS_MAX = 200
LINES_MAX = 500
LINE_CHARS_MAX = 2_000
RESULT_BYTES_MAX = 20_000

RunId = Annotated[str, Field(description="Id of the run, or the first characters of it (four at least).")]
Answer = Mapping[str, object]
# Finished tasks, all tasks, and a text.
OnProgress = Callable[[float, float, str], Awaitable[None]]


class RunTools:
    def __init__(self, client: AsyncPyocoClient) -> None:
        self._client = client

    async def list_flows(self) -> s.FlowsShown:
        """List the flows that can be started, with their parameters."""
        found = await self._client.list_flows()
        flows = [_flow(one) for one in found[:FLOWS_MAX]]
        return s.FlowsShown(flows=flows, left_out=len(found) - len(flows))

    async def list_runs(
        self,
        status: Annotated[
            str | None, Field(description="PENDING, RUNNING, CANCELLING, COMPLETED, FAILED or CANCELLED.")
        ] = None,
        flow: Annotated[str | None, Field(description="Only runs of this flow.")] = None,
        search: Annotated[str | None, Field(description="Text in id, flow, tags, worker or error.")] = None,
        limit: Annotated[int, Field(ge=1, le=RUNS_MAX)] = 20,
        cursor: Annotated[str | None, Field(description="`more` of the page before.")] = None,
    ) -> s.RunsShown:
        """List runs, those that changed last first."""
        page = await self._client.search_runs(q=search, status=status, flow=flow, limit=limit, cursor=cursor)
        return s.RunsShown(runs=[_line(one) for one in page["items"]], more=page["next_cursor"])

    async def get_run(self, run_id: RunId) -> s.RunShown:
        """Show a run: its status, its tasks, its error or its result."""
        return await self._shown(await self._whole(run_id))

    async def start_run(
        self,
        flow: Annotated[str, Field(description="Name of the flow, from list_flows.")],
        params: Annotated[dict[str, object] | None, Field(description="Parameters of the flow.")] = None,
        tag: Annotated[
            str | None, Field(description="Routing tag: workers that serve it execute the run.")
        ] = None,
    ) -> s.RunLine:
        """Start a run of a flow. It runs in the background: follow_run waits for its end."""
        run = await self._client.submit(flow, params or {}, tag=tag)
        return s.RunLine(run_id=run.id, flow=flow, status=str(run.accepted["status"]))

    async def follow_run(
        self,
        run_id: RunId,
        timeout_sec: Annotated[float, Field(ge=0, le=FOLLOW_SEC_MAX)] = 60.0,
        *,
        on_progress: OnProgress,
    ) -> s.RunShown:
        """Wait until a run has ended, or until the time is over. `is_over` says which."""
        whole, give_up_at = await self._whole(run_id), time.monotonic() + timeout_sec
        while (left_sec := give_up_at - time.monotonic()) > 0:
            try:
                await self._client.wait_run(whole, timeout_sec=min(PROGRESS_SEC, left_sec))
                break
            except TimeoutError:
                await _report(await self._client.get_run(whole), on_progress)
        return await self._shown(whole)

    async def read_logs(
        self,
        run_id: RunId,
        tail: Annotated[int, Field(ge=1, le=LINES_MAX, description="So many of the last lines.")] = 100,
        search: Annotated[str | None, Field(description="Only lines with this text.")] = None,
        task: Annotated[str | None, Field(description="Only lines of this task.")] = None,
    ) -> s.LinesShown:
        """Read what a run printed, and notices about it."""
        whole = await self._whole(run_id)
        if search is None and task is None:
            page = await self._client.get_logs(whole, tail=tail)
            return s.LinesShown(
                lines=[_text(one) for one in page["entries"]], is_complete=bool(page["complete"])
            )
        found = [_text(one) async for one in self._client.run(whole).logs(q=search, task=task)]
        is_over = (await self._client.get_run(whole))["status"] in ENDED
        return s.LinesShown(lines=found[-tail:], is_complete=is_over, left_out=max(0, len(found) - tail))

    async def why(self, run_id: RunId) -> s.WhyShown:
        """Explain why a run is in its state: what it waits for, or why it failed."""
        found = await self._client.why(await self._whole(run_id))
        return s.WhyShown(summary=found["summary"], reasons=[_reason(one) for one in found["reasons"]])

    async def list_approvals(self) -> s.ApprovalsShown:
        """List the tasks that wait for an answer, the longest waiting first."""
        page = await self._client.list_approvals(limit=RUNS_MAX)
        return s.ApprovalsShown(approvals=[_approval(one) for one in page["items"]])

    async def approve(
        self,
        run_id: RunId,
        task: Annotated[str, Field(description="The task that waits, from list_approvals.")],
        payload: Annotated[object, Field(description="Becomes the result of the task; any JSON.")] = None,
        comment: str | None = None,
    ) -> s.RunLine:
        """Approve a task that waits. The run goes on; this cannot be undone."""
        whole = await self._whole(run_id)
        await self._client.run(whole).approve(task, payload, comment=comment)
        return _line(await self._client.get_run(whole))

    async def reject(
        self,
        run_id: RunId,
        task: Annotated[str, Field(description="The task that waits, from list_approvals.")],
        comment: Annotated[str | None, Field(description="Becomes the error of the task.")] = None,
    ) -> s.RunLine:
        """Reject a task that waits: it fails. This cannot be undone."""
        whole = await self._whole(run_id)
        await self._client.run(whole).reject(task, comment)
        return _line(await self._client.get_run(whole))

    async def cancel_run(self, run_id: RunId) -> s.RunLine:
        """Cancel a run. An accepted cancel cannot be undone; a run that has ended stays as it is."""
        return _line(await self._client.cancel_run(await self._whole(run_id)))

    async def caller(self) -> s.CallerShown:
        """Show for whom the gateway takes this client, and which scopes its key has."""
        found = await self._client.get_caller()
        scopes = [str(one) for one in found.get("scopes") or []]
        return s.CallerShown(tenant=found.get("tenant_id"), principal=found.get("principal"), scopes=scopes)

    async def _whole(self, run_id: str) -> str:
        if is_whole(run_id) or len(run_id) < PREFIX_CHARS_MIN:
            return run_id
        found = await self._client.find_runs(run_id)
        return the_one(run_id, {str(one["run_id"]): str(one["flow_name"]) for one in found}, "run")

    async def _shown(self, run_id: str) -> s.RunShown:
        run = await self._client.get_run(run_id)
        result, note = None, None
        if run["status"] == "COMPLETED":
            result = await self._client.result(run_id)
            size = len(msgspec.json.encode(result))
            if size > RESULT_BYTES_MAX:
                result, note = None, f"The result has {size} bytes: pyoco-client result {run_id} prints it."
        return s.RunShown(
            run_id=run_id,
            flow=run["flow_name"],
            status=run["status"],
            is_over=run["status"] in ENDED,
            error=run.get("error"),
            tasks=run.get("tasks") or {},
            result=result,
            result_note=note,
        )


async def _report(run: Answer, on_progress: OnProgress) -> None:
    tasks = cast("Mapping[str, str]", run.get("tasks") or {})
    ended = [name for name, status in tasks.items() if status in ("SUCCEEDED", "FAILED", "CANCELLED")]
    running = [name for name, status in tasks.items() if status in ("RUNNING", "WAITING")]
    await on_progress(float(len(ended)), float(len(tasks)), f"{run['status']}: {', '.join(running)}")


def _flow(one: Answer) -> s.FlowShown:
    return s.FlowShown(
        name=str(one["flow_name"]),
        description=str(one.get("description") or ""),
        params=cast("list[dict[str, object]]", one.get("params") or []),
        tags=cast("list[str]", one.get("tags") or []),
        has_worker=bool(one.get("workers")),
    )


def _line(run: Answer) -> s.RunLine:
    return s.RunLine(
        run_id=str(run["run_id"]),
        flow=str(run.get("flow_name") or ""),
        status=str(run["status"]),
        error=cast("str | None", run.get("error")),
    )


def _text(line: Answer) -> str:
    task = f"[{line['task']}] " if line.get("task") else ""
    return f"{line.get('timestamp', '')} {task}{line.get('message', '')}"[:LINE_CHARS_MAX]


def _reason(one: Answer) -> str:
    return str(one.get("message") or one.get("text") or msgspec.json.encode(one).decode())


def _approval(one: Answer) -> s.ApprovalShown:
    return s.ApprovalShown(
        run_id=str(one["run_id"]),
        task=str(one["task"]),
        flow=str(one["flow_name"]),
        prompt=cast("dict[str, object]", one.get("prompt") or {}),
        deadline_at=cast("float | None", one.get("deadline_at")),
    )
