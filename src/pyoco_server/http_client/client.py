"""The gateway's HTTP API as Python calls. Stands alone: needs httpx and nothing else of ours.

Every answer is the JSON the gateway sent. A refusal is an `httpx.HTTPStatusError`; waiting in vain is a
`TimeoutError`.
"""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self
from urllib.parse import quote

import httpx

from pyoco_server.http_client.event_stream import Event, events_in
from pyoco_server.http_client.logs import LogCalls
from pyoco_server.http_client.schedules import ScheduleCalls, workflow_file
from pyoco_server.http_client.workers import WorkerCalls

TERMINAL = frozenset({"COMPLETED", "FAILED", "CANCELLED"})
REQUEST_TIMEOUT_SEC = 30.0
# What is sent has to be looked at and kept before there is an answer.
UPLOAD_TIMEOUT_SEC = 600.0
CANCEL_WAIT_SEC = 30.0
# How long one request may wait for the end of a run; the next one goes on waiting.
ONE_WAIT_SEC = 20.0
# How long one stream of a run's changes lasts; the next one goes on where it ended.
ONE_WATCH_SEC = 600.0
CONFLICT = 409
# Of a flow.yaml that is sent without a name for it: such a document has none.
FLOW_NAME = "main"


class PyocoHttpClient(LogCalls, ScheduleCalls, WorkerCalls):
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
        """`{"run_id", "status"}`: the run is stored and queued; with `start_at` not before that instant."""
        wanted: dict[str, Any] = {"flow_name": flow_name, "params": params or {}}
        wanted |= _given(tag=tag, tags=tags, start_at=start_at)
        return _object(self._http.post("/runs", json=wanted))

    def submit_run_yaml(
        self, workflow_yaml: str | bytes, tag: str | None = None, *, flow_name: str = FLOW_NAME
    ) -> dict[str, Any]:
        """`{"run_id", "status"}`: a run of the flow in this `flow.yaml`, stored and queued."""
        form = {"flow_name": flow_name} | _given(tag=tag)
        return _object(self._http.post("/runs/yaml", files=workflow_file(workflow_yaml), data=form))

    def get_run(self, run_id: str) -> dict[str, Any]:
        return _object(self._http.get(_path(run_id)))

    def get_run_with_records(self, run_id: str) -> dict[str, Any]:
        """As `get_run`, with `task_records`: inputs, outputs and errors of every task."""
        return _object(self._http.get(_path(run_id), params={"include": "records"}))

    def get_tasks(self, run_id: str) -> dict[str, Any]:
        return _object(self._http.get(f"{_path(run_id)}/tasks"))

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
        query = _given(status=status, flow=flow, tag=tag, limit=limit, include="full" if full else None)
        runs: list[dict[str, Any]] = _answer(self._http.get("/runs", params=query))
        return runs

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

        Nothing is lost while runs change: one that has changed since it was shown comes again at the end.
        """
        query = _given(status=status, flow=flow, tag=tag, limit=limit, include="full" if full else None)
        query |= _given(updated_after=updated_after, workflow_yaml_sha256=workflow_yaml_sha256)
        # An empty cursor asks for the first page.
        return _object(self._http.get("/runs", params=query | {"cursor": cursor or ""}))

    def watch_run(
        self,
        run_id: str,
        *,
        include_records: bool = False,
        since: float | None = None,
        timeout_sec: int | None = None,
    ) -> Iterator[dict[str, Any]]:
        """`{"event", "data"}` whenever the run has changed, until it is over or the time is (60 s)."""
        query = _given(since=since, timeout_sec=timeout_sec, include="records" if include_records else None)
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
        """As `watch_run`, but for as long as it takes: connects again where the last stream ended."""
        query = _given(since=since, include="records" if include_records else None)
        deadline = None if timeout_sec is None else time.monotonic() + timeout_sec
        place: str | None = None
        while (left_sec := _left_sec(deadline, ONE_WATCH_SEC)) > 0:
            is_over = True  # an empty answer: there is nothing left to come
            for event in self._watch(run_id, query | {"timeout_sec": math.ceil(left_sec)}, place):
                place = event.id or place
                yield {"event": event.name, "data": event.data}
                if event.name == "snapshot" and event.data["snapshot"]["status"] in TERMINAL:
                    return
                is_over = False
            if is_over and self.get_run(run_id)["status"] in TERMINAL:
                return

    def result(self, run_id: str, timeout: float | None = None) -> Any:
        """What the run has come to: the output of its last task, or `{task: output}` of several.

        Waits for its end, for `timeout` seconds at most (None: no limit), then TimeoutError. A run that has
        failed or was cancelled has none: HTTPStatusError (409).
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            left_sec = _left_sec(deadline, ONE_WAIT_SEC)
            response = self._http.get(
                f"{_path(run_id)}/result",
                params={"wait": f"{left_sec:.3f}"},
                timeout=REQUEST_TIMEOUT_SEC + left_sec,
            )
            if response.status_code != CONFLICT or response.json()["status"] in TERMINAL:
                return _answer(response)
            if left_sec == 0:
                raise TimeoutError(response.json()["detail"])

    def retry(
        self,
        run_id: str,
        *,
        from_start: bool = False,
        from_task: str | None = None,
        params: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """`{"run_id", "status", "retry_of"}` of a new run, which executes only what had not succeeded.

        With `from_task` also that task and whatever comes after it. `params` instead of those the run had:
        results that are taken over were made with the old ones.
        """
        if from_start and from_task is not None:
            raise ValueError("Retry from the start or from a task.")
        begin = "start" if from_start else "failed" if from_task is None else "task"
        wanted = {"from": begin} | _given(task=from_task, params=params)
        return _object(self._http.post(f"{_path(run_id)}/retry", json=wanted))

    def cancel_run(self, run_id: str, wait: bool = False, timeout_sec: float | None = None) -> dict[str, Any]:
        """Ask the run to stop. With `wait`: its end, within 30 s unless told otherwise, else TimeoutError."""
        asked = _object(self._http.post(f"{_path(run_id)}/cancel"))
        if not wait or asked["status"] in TERMINAL:
            return asked
        return self.wait_run(run_id, CANCEL_WAIT_SEC if timeout_sec is None else timeout_sec)

    def wait_run(self, run_id: str, timeout_sec: float | None = None) -> dict[str, Any]:
        """The run once it has ended; TimeoutError when it has not within `timeout_sec` (None: no limit)."""
        deadline = None if timeout_sec is None else time.monotonic() + timeout_sec
        left_sec = ONE_WAIT_SEC
        while True:
            if deadline is not None:
                left_sec = max(0.0, deadline - time.monotonic())
            run = self._get_waiting(run_id, min(left_sec, ONE_WAIT_SEC))
            if run["status"] in TERMINAL:
                return run
            if left_sec == 0:
                raise TimeoutError(f"Run {run_id} is still {run['status']} after {timeout_sec:g} s.")

    def get_metrics(self) -> str:
        """In Prometheus' text format."""
        return self._http.get("/metrics").raise_for_status().text

    def list_wheels(self) -> list[dict[str, Any]]:
        return _objects(self._http.get("/wheels"))

    def list_wheel_history(
        self, *, limit: int | None = None, wheel_name: str | None = None, action: str | None = None
    ) -> list[dict[str, Any]]:
        """What was uploaded and deleted, by whom and from where; the latest first."""
        query = _given(limit=limit, wheel_name=wheel_name, action=action)
        return _objects(self._http.get("/wheels/history", params=query))

    def upload_wheel(
        self, *, filename: str, data: bytes | BinaryIO, replace: bool = True, tags: list[str] | None = None
    ) -> dict[str, Any]:
        """`data` may be an open file, which is sent piece by piece."""
        form = {"replace": "true" if replace else "false"}
        form |= {"tags": ",".join(tags)} if tags else {}
        files = {"wheel": (filename, data, "application/octet-stream")}
        return _object(self._http.post("/wheels", files=files, data=form, timeout=UPLOAD_TIMEOUT_SEC))

    def download_wheel(self, wheel_name: str, to: str | PathLike[str]) -> None:
        """Into this file, piece by piece."""
        with self._http.stream("GET", f"/wheels/{quote(wheel_name, safe='')}") as response:
            response.raise_for_status()
            with Path(to).open("wb") as out:
                out.writelines(response.iter_bytes())

    def delete_wheel(self, wheel_name: str) -> dict[str, Any]:
        return _object(self._http.delete(f"/wheels/{quote(wheel_name, safe='')}"))

    def list_dead_letters(
        self, *, limit: int | None = None, reason: str | None = None, cursor: str | None = None
    ) -> dict[str, Any]:
        """`{"items", "next_cursor"}`, the newest first."""
        return _object(self._http.get("/dlq", params=_given(limit=limit, reason=reason, cursor=cursor)))

    def get_dead_letter(self, letter_id: str) -> dict[str, Any]:
        return _object(self._http.get(f"/dlq/{quote(letter_id, safe='')}"))

    def redrive_dead_letter(self, letter_id: str, *, again: bool = False) -> dict[str, Any]:
        """`{"letter_id", "run_id", "status"}` of a new run; a second one of the same letter only `again`."""
        return _object(self._http.post(f"/dlq/{quote(letter_id, safe='')}/redrive", json={"again": again}))

    def list_approvals(self, *, limit: int | None = None, cursor: str | None = None) -> dict[str, Any]:
        """`{"items", "next_cursor"}`: the tasks that wait for an answer, the longest waiting first."""
        return _object(self._http.get("/approvals", params=_given(limit=limit, cursor=cursor)))

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
        """Answer a task that waits; `decision`: `approve` or `reject`; `wait_key`: its name unless given.

        An answer that may have been lost can be sent again with the same `idempotency_key`: it counts once.
        """
        path = f"/executions/{quote(run_id, safe='')}/nodes/{quote(task, safe='')}/resume"
        body = {"resumeKey": task if wait_key is None else wait_key}
        body |= _given(payload=payload, decision=decision, comment=comment)
        headers = {"X-Idempotency-Key": idempotency_key or str(uuid.uuid4())}
        return _object(self._http.post(path, json=body, headers=headers))

    def _watch(self, run_id: str, query: dict[str, Any], place: str | None = None) -> Iterator[Event]:
        headers = {"Last-Event-ID": place} if place else {}
        with self._http.stream("GET", f"{_path(run_id)}/watch", params=query, headers=headers) as response:
            if response.is_error:
                response.read()  # the error shows the body
            response.raise_for_status()
            yield from events_in(response.iter_lines())

    def _get_waiting(self, run_id: str, wait_sec: float) -> dict[str, Any]:
        """The gateway answers when the run ends, or after this long, so the client need not poll."""
        patience = REQUEST_TIMEOUT_SEC + wait_sec
        return _object(self._http.get(_path(run_id), params={"wait": f"{wait_sec:.3f}"}, timeout=patience))


def _left_sec(deadline: float | None, most_sec: float) -> float:
    return most_sec if deadline is None else min(most_sec, max(0.0, deadline - time.monotonic()))


def _path(run_id: str) -> str:
    return f"/runs/{quote(run_id, safe='')}"


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _object(response: httpx.Response) -> dict[str, Any]:
    answer: dict[str, Any] = _answer(response)
    return answer


def _objects(response: httpx.Response) -> list[dict[str, Any]]:
    answer: list[dict[str, Any]] = _answer(response)
    return answer


def _answer(response: httpx.Response) -> Any:
    response.raise_for_status()
    return response.json()
