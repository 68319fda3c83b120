"""`PyocoHttpClient`: the gateway's HTTP API as Python calls.

Every answer is the JSON that the gateway sent. An error answer raises `httpx.HTTPStatusError`; a wait
that takes too long raises `TimeoutError`.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self
from urllib.parse import quote

import httpx

from pyoco_server.http_client.calls import (
    Event,
    answer,
    deadline_after,
    events_in,
    given,
    left_sec,
    list_in,
    object_in,
    open_stream,
)
from pyoco_server.http_client.logs import LogCalls
from pyoco_server.http_client.overview import OverviewCalls
from pyoco_server.http_client.schedules import ScheduleCalls, workflow_file
from pyoco_server.http_client.workers import WorkerCalls

TERMINAL = frozenset({"COMPLETED", "FAILED", "CANCELLED"})
REQUEST_TIMEOUT_SEC = 30.0
# The gateway checks and stores an upload before it answers.
UPLOAD_TIMEOUT_SEC = 600.0
CANCEL_WAIT_SEC = 30.0
# One request waits this long for the end of a run; then the next request continues the wait.
ONE_WAIT_SEC = 20.0
# One stream of a run's changes lasts this long; the next stream continues where it ended.
ONE_WATCH_SEC = 600.0
CONFLICT = 409
# The flow name of a flow.yaml that is sent without one: the document itself has no name.
FLOW_NAME = "main"


class PyocoHttpClient(LogCalls, OverviewCalls, ScheduleCalls, WorkerCalls):
    def __init__(
        self, base_url: str, *, api_key: str | None = None, api_key_header: str = "X-API-Key"
    ) -> None:
        headers = {api_key_header: api_key} if api_key else {}
        self._http = httpx.Client(base_url=base_url.rstrip("/"), headers=headers, timeout=REQUEST_TIMEOUT_SEC)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def submit_run(
        self,
        flow_name: str,
        params: dict[str, Any] | None = None,
        tag: str | None = None,
        tags: list[str] | None = None,
        *,
        start_at: float | None = None,
    ) -> dict[str, Any]:
        """`{"run_id", "status"}` of a stored and queued run; with `start_at` it starts at that instant."""
        wanted: dict[str, Any] = {"flow_name": flow_name, "params": params or {}}
        wanted |= given(tag=tag, tags=tags, start_at=start_at)
        return object_in(self._http.post("/runs", json=wanted))

    def submit_run_yaml(
        self, workflow_yaml: str | bytes, tag: str | None = None, *, flow_name: str = FLOW_NAME
    ) -> dict[str, Any]:
        """`{"run_id", "status"}`: a run of the flow in this `flow.yaml`, stored and queued."""
        form = {"flow_name": flow_name} | given(tag=tag)
        return object_in(self._http.post("/runs/yaml", files=workflow_file(workflow_yaml), data=form))

    def get_run(self, run_id: str) -> dict[str, Any]:
        return object_in(self._http.get(_path(run_id)))

    def get_run_with_records(self, run_id: str) -> dict[str, Any]:
        """Like `get_run`, with `task_records`: inputs, outputs and errors of every task."""
        return object_in(self._http.get(_path(run_id), params={"include": "records"}))

    def get_tasks(self, run_id: str) -> dict[str, Any]:
        return object_in(self._http.get(f"{_path(run_id)}/tasks"))

    def list_runs(
        self,
        *,
        status: str | None = None,
        flow: str | None = None,
        tag: str | None = None,
        full: bool = False,
        limit: int | None = None,
    ) -> list[dict[str, Any]]:
        """Newest first."""
        query = given(status=status, flow=flow, tag=tag, limit=limit, include="full" if full else None)
        return list_in(self._http.get("/runs", params=query))

    def list_runs_vnext(
        self,
        *,
        status: str | None = None,
        flow: str | None = None,
        tag: str | None = None,
        full: bool = False,
        limit: int | None = None,
        updated_after: float | None = None,
        cursor: str | None = None,
        workflow_yaml_sha256: str | None = None,
    ) -> dict[str, Any]:
        """`{"items", "next_cursor"}`: pass the cursor on, with the same filters, until it is None.

        No run is missed while runs change: a run that changes after it was listed is listed again.
        """
        query = given(status=status, flow=flow, tag=tag, limit=limit, include="full" if full else None)
        query |= given(updated_after=updated_after, workflow_yaml_sha256=workflow_yaml_sha256)
        # An empty cursor asks for the first page.
        return object_in(self._http.get("/runs", params=query | {"cursor": cursor or ""}))

    def watch_run(
        self,
        run_id: str,
        *,
        include_records: bool = False,
        since: float | None = None,
        timeout_sec: int | None = None,
    ) -> Iterator[dict[str, Any]]:
        """`{"event", "data"}` for each change of the run, until it ends or the time is over (60 s)."""
        query = given(since=since, timeout_sec=timeout_sec, include="records" if include_records else None)
        for event in self._watch(run_id, query):
            yield {"event": event.name, "data": event.data}

    def follow_run(
        self,
        run_id: str,
        *,
        include_records: bool = False,
        since: float | None = None,
        timeout_sec: float | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Like `watch_run`, until the run ends: opens the next stream where the last one ended."""
        query = given(since=since, include="records" if include_records else None)
        deadline = deadline_after(timeout_sec)
        last_id: str | None = None
        while (stream_sec := left_sec(deadline, ONE_WATCH_SEC)) > 0:
            is_over = True  # unless the stream has events
            for event in self._watch(run_id, query | {"timeout_sec": math.ceil(stream_sec)}, last_id):
                last_id = event.id or last_id
                yield {"event": event.name, "data": event.data}
                if event.name == "snapshot" and event.data["snapshot"]["status"] in TERMINAL:
                    return
                is_over = False
            if is_over and self.get_run(run_id)["status"] in TERMINAL:
                return

    def result(self, run_id: str, timeout: float | None = None) -> Any:
        """The result of the run: the output of its last task, or `{task: output}` of several.

        Waits for the end of the run, for `timeout` seconds at most (None: no limit), then TimeoutError. A run
        that failed or was cancelled has no result: HTTPStatusError (409).
        """
        deadline = deadline_after(timeout)
        while True:
            wait_sec = left_sec(deadline, ONE_WAIT_SEC)
            response = self._get_waiting(f"{_path(run_id)}/result", wait_sec)
            if response.status_code != CONFLICT or response.json()["status"] in TERMINAL:
                return answer(response)
            if wait_sec == 0:
                raise TimeoutError(response.json()["detail"])

    def retry(
        self,
        run_id: str,
        *,
        from_start: bool = False,
        from_task: str | None = None,
        params: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """`{"run_id", "status", "retry_of"}` of a new run, which executes only what has not succeeded.

        With `from_task` also that task and everything after it. `params` replace those of the run; reused
        results were computed with the old ones.
        """
        if from_start and from_task is not None:
            raise ValueError("Retry from the start or from a task.")
        begin = "start" if from_start else "failed" if from_task is None else "task"
        wanted = {"from": begin} | given(task=from_task, params=params)
        return object_in(self._http.post(f"{_path(run_id)}/retry", json=wanted))

    def cancel_run(self, run_id: str, wait: bool = False, timeout_sec: float | None = None) -> dict[str, Any]:
        """Ask the run to stop. With `wait`: the ended run, within 30 s by default, else TimeoutError."""
        asked = object_in(self._http.post(f"{_path(run_id)}/cancel"))
        if not wait or asked["status"] in TERMINAL:
            return asked
        return self.wait_run(run_id, CANCEL_WAIT_SEC if timeout_sec is None else timeout_sec)

    def wait_run(self, run_id: str, timeout_sec: float | None = None) -> dict[str, Any]:
        """The run when it has ended; TimeoutError after `timeout_sec` (None: no limit)."""
        deadline = deadline_after(timeout_sec)
        while True:
            wait_sec = left_sec(deadline, ONE_WAIT_SEC)
            run = object_in(self._get_waiting(_path(run_id), wait_sec))
            if run["status"] in TERMINAL:
                return run
            if wait_sec == 0:
                raise TimeoutError(f"Run {run_id} is still {run['status']} after {timeout_sec:g} s.")

    def get_metrics(self) -> str:
        """In Prometheus' text format."""
        return self._http.get("/metrics").raise_for_status().text

    def list_wheels(self) -> list[dict[str, Any]]:
        return list_in(self._http.get("/wheels"))

    def list_wheel_history(
        self, *, limit: int | None = None, wheel_name: str | None = None, action: str | None = None
    ) -> list[dict[str, Any]]:
        """Uploads and deletions, with their callers and addresses; the latest first."""
        query = given(limit=limit, wheel_name=wheel_name, action=action)
        return list_in(self._http.get("/wheels/history", params=query))

    def upload_wheel(
        self, *, filename: str, data: bytes | BinaryIO, replace: bool = True, tags: list[str] | None = None
    ) -> dict[str, Any]:
        """`data` may be an open file, which is sent in chunks."""
        form = {"replace": "true" if replace else "false"}
        form |= {"tags": ",".join(tags)} if tags else {}
        files = {"wheel": (filename, data, "application/octet-stream")}
        return object_in(self._http.post("/wheels", files=files, data=form, timeout=UPLOAD_TIMEOUT_SEC))

    def download_wheel(self, wheel_name: str, to: str | PathLike[str]) -> None:
        """Write the wheel into the file `to`, in chunks."""
        with self._http.stream("GET", f"/wheels/{quote(wheel_name, safe='')}") as response:
            response.raise_for_status()
            with Path(to).open("wb") as out:
                out.writelines(response.iter_bytes())

    def delete_wheel(self, wheel_name: str) -> dict[str, Any]:
        return object_in(self._http.delete(f"/wheels/{quote(wheel_name, safe='')}"))

    def list_dead_letters(
        self, *, limit: int | None = None, reason: str | None = None, cursor: str | None = None
    ) -> dict[str, Any]:
        """`{"items", "next_cursor"}`, the newest first."""
        return object_in(self._http.get("/dlq", params=given(limit=limit, reason=reason, cursor=cursor)))

    def get_dead_letter(self, letter_id: str) -> dict[str, Any]:
        return object_in(self._http.get(f"/dlq/{quote(letter_id, safe='')}"))

    def redrive_dead_letter(self, letter_id: str, *, again: bool = False) -> dict[str, Any]:
        """`{"letter_id", "run_id", "status"}` of a new run; `again`: also if it was redriven."""
        return object_in(self._http.post(f"/dlq/{quote(letter_id, safe='')}/redrive", json={"again": again}))

    def list_approvals(self, *, limit: int | None = None, cursor: str | None = None) -> dict[str, Any]:
        """`{"items", "next_cursor"}`: the tasks that wait for an answer, the longest waiting first."""
        return object_in(self._http.get("/approvals", params=given(limit=limit, cursor=cursor)))

    def resume_task(
        self,
        run_id: str,
        task: str,
        *,
        wait_key: str | None = None,
        payload: Any = None,
        decision: str | None = None,
        comment: str | None = None,
        idempotency_key: str | None = None,
    ) -> dict[str, Any]:
        """Answer a task that waits. `decision`: `approve` or `reject`; `wait_key` defaults to the task.

        After a lost response, send the answer again with the same `idempotency_key`: it is applied once.
        """
        path = f"/executions/{quote(run_id, safe='')}/nodes/{quote(task, safe='')}/resume"
        body = {"resumeKey": task if wait_key is None else wait_key}
        body |= given(payload=payload, decision=decision, comment=comment)
        headers = {"X-Idempotency-Key": idempotency_key or str(uuid.uuid4())}
        return object_in(self._http.post(path, json=body, headers=headers))

    def _watch(self, run_id: str, query: dict[str, Any], last_id: str | None = None) -> Iterator[Event]:
        with open_stream(self._http, f"{_path(run_id)}/watch", query, last_id) as response:
            yield from events_in(response.iter_lines())

    def _get_waiting(self, path: str, wait_sec: float) -> httpx.Response:
        """The gateway answers when the run ends, or after this long, so the client need not poll."""
        timeout_sec = REQUEST_TIMEOUT_SEC + wait_sec
        return self._http.get(path, params={"wait": f"{wait_sec:.3f}"}, timeout=timeout_sec)


def _path(run_id: str) -> str:
    return f"/runs/{quote(run_id, safe='')}"
