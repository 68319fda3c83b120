"""Calls about runs: submit, read, list, watch, wait, cancel, retry."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import httpx

from pyoco_server.http_client.calls import EventParser, deadline_after, given, key_header, left_sec, path_of
from pyoco_server.http_client.script import (
    REQUEST_TIMEOUT_SEC,
    ApiRequest,
    Emit,
    NextLine,
    Open,
    ResumingStream,
    Script,
    Stream,
    ask,
    send,
)

if TYPE_CHECKING:
    from pyoco_server.http_client.answers import (
        RetriedRunAnswer,
        RunAnswer,
        RunChangeAnswer,
        RunGraphAnswer,
        RunPageAnswer,
        RunTasksAnswer,
        SubmittedRunAnswer,
    )

TERMINAL = frozenset({"COMPLETED", "FAILED", "CANCELLED"})
CANCEL_WAIT_SEC = 30.0
# One request waits this long for the end of a run; then the next request continues the wait.
ONE_WAIT_SEC = 20.0
# One stream of a run's changes lasts this long; the next stream continues where it ended.
ONE_WATCH_SEC = 600.0
CONFLICT = 409
# The flow name of a flow.yaml that is sent without one: the document itself has no name.
FLOW_NAME = "main"


def submit_run(
    flow_name: str,
    params: Mapping[str, object] | None = None,
    tag: str | None = None,
    tags: list[str] | None = None,
    *,
    start_at: float | None = None,
    expires_at: float | None = None,
    idempotency_key: str | None = None,
) -> Script[SubmittedRunAnswer]:
    """`{"run_id", "status"}` of a stored and queued run; with `start_at` it starts at that instant.

    A run that has not started at `expires_at` ends CANCELLED, with the reason `expired`.

    The request carries an idempotency key (a new one, unless given): if its answer is lost, it is sent
    again and makes no second run.
    """
    wanted: dict[str, object] = {"flow_name": flow_name, "params": dict(params or {})}
    wanted |= given(tag=tag, tags=tags, start_at=start_at, expires_at=expires_at)
    return ask(ApiRequest("POST", "/runs", json=wanted, headers=key_header(idempotency_key)))


def submit_run_yaml(
    workflow_yaml: str | bytes,
    tag: str | None = None,
    *,
    flow_name: str = FLOW_NAME,
    idempotency_key: str | None = None,
) -> Script[SubmittedRunAnswer]:
    """`{"run_id", "status"}`: a run of the flow in this `flow.yaml`, stored and queued."""
    form = {"flow_name": flow_name, **given(tag=tag)}
    files, headers = workflow_file(workflow_yaml), key_header(idempotency_key)
    return ask(ApiRequest("POST", "/runs/yaml", form=form, files=files, headers=headers))


def get_run(run_id: str) -> Script[RunAnswer]:
    """The run: status, parameters, tags, the status of each task."""
    return ask(ApiRequest("GET", path_of("runs", run_id)))


def get_run_with_records(run_id: str) -> Script[RunAnswer]:
    """The run with `task_records`: inputs, outputs and errors of every task."""
    return ask(ApiRequest("GET", path_of("runs", run_id), {"include": "records"}))


def get_tasks(run_id: str) -> Script[RunTasksAnswer]:
    """`{"tasks", "task_records"}`: the status of each task, and its record."""
    return ask(ApiRequest("GET", path_of("runs", run_id, "tasks")))


def get_graph(run_id: str) -> Script[RunGraphAnswer]:
    """The tasks of the run and the edges between them."""
    return ask(ApiRequest("GET", path_of("runs", run_id, "graph")))


def list_runs(
    *,
    status: str | None = None,
    flow: str | None = None,
    tag: str | None = None,
    full: bool = False,
    limit: int | None = None,
) -> Script[list[RunAnswer]]:
    """The runs that match, the newest first."""
    query = given(status=status, flow=flow, tag=tag, limit=limit, include="full" if full else None)
    return ask(ApiRequest("GET", "/runs", query))


def list_runs_vnext(
    *,
    status: str | None = None,
    flow: str | None = None,
    tag: str | None = None,
    full: bool = False,
    limit: int | None = None,
    updated_after: float | None = None,
    cursor: str | None = None,
    workflow_yaml_sha256: str | None = None,
    q: str | None = None,
) -> Script[RunPageAnswer]:
    """`{"items", "next_cursor"}`: pass the cursor on, with the same filters, until it is None.

    No run is missed while runs change: a run that changes after it was listed is listed again.
    """
    query = given(status=status, flow=flow, tag=tag, limit=limit, include="full" if full else None)
    query |= given(updated_after=updated_after, workflow_yaml_sha256=workflow_yaml_sha256, q=q)
    # An empty cursor asks for the first page.
    return ask(ApiRequest("GET", "/runs", query | {"cursor": cursor or ""}))


def watch_run(
    run_id: str,
    *,
    include_records: bool = False,
    since: float | None = None,
    timeout_sec: int | None = None,
) -> Stream[RunChangeAnswer]:
    """`{"event", "data"}` for each change of the run, until it ends or the time is over (60 s).

    One connection: if it breaks, `httpx.TransportError` is raised. `follow_run` connects again.
    """
    query = given(since=since, timeout_sec=timeout_sec, include="records" if include_records else None)
    response: httpx.Response = yield Open(ApiRequest("GET", path_of("runs", run_id, "watch"), query))
    response.raise_for_status()
    parser = EventParser()
    while (line := (yield NextLine())) is not None:
        if (event := parser.feed(line)) is not None:
            yield Emit({"event": event.name, "data": event.data})


def follow_run(
    run_id: str,
    *,
    include_records: bool = False,
    since: float | None = None,
    timeout_sec: float | None = None,
) -> Stream[RunChangeAnswer]:
    """Like `watch_run`, until the run ends: opens the next stream where the last one ended or broke."""
    query = given(since=since, include="records" if include_records else None)
    deadline = deadline_after(timeout_sec)
    is_over = True  # unless the stream has events

    def request() -> ApiRequest:
        seconds = max(1, math.ceil(left_sec(deadline, ONE_WATCH_SEC)))
        return ApiRequest("GET", path_of("runs", run_id, "watch"), query | {"timeout_sec": seconds})

    stream = ResumingStream(request)
    while left_sec(deadline, ONE_WATCH_SEC) > 0:
        event = yield from stream.next()
        if event is not None:
            yield Emit({"event": event.name, "data": event.data})
            if event.name == "snapshot" and event.data["snapshot"]["status"] in TERMINAL:
                return
            is_over = False
        elif is_over and (yield from get_run(run_id))["status"] in TERMINAL:
            return
        else:
            is_over = True


def result(run_id: str, timeout: float | None = None) -> Script[Any]:
    """The result of the run: the output of its last task, or `{task: output}` of several.

    Waits for the end of the run, for `timeout` seconds at most (None: no limit), then TimeoutError. A run
    that failed or was cancelled has no result: HTTPStatusError (409).
    """
    deadline = deadline_after(timeout)
    while True:
        wait_sec = left_sec(deadline, ONE_WAIT_SEC)
        response = yield from send(_waiting(path_of("runs", run_id, "result"), wait_sec))
        if response.status_code != CONFLICT or response.json()["status"] in TERMINAL:
            return response.raise_for_status().json()
        if wait_sec == 0:
            raise TimeoutError(response.json()["detail"])


def retry(
    run_id: str,
    *,
    from_start: bool = False,
    from_task: str | None = None,
    params: Mapping[str, object] | None = None,
    idempotency_key: str | None = None,
) -> Script[RetriedRunAnswer]:
    """`{"run_id", "status", "retry_of"}` of a new run, which executes only what has not succeeded.

    With `from_task` also that task and everything after it. `params` replace those of the run; reused
    results were computed with the old ones.
    """
    if from_start and from_task is not None:
        raise ValueError("Retry from the start or from a task.")
    begin = "start" if from_start else "failed" if from_task is None else "task"
    wanted: dict[str, object] = {
        "from": begin,
        **given(task=from_task, params=None if params is None else dict(params)),
    }
    headers = key_header(idempotency_key)
    return ask(ApiRequest("POST", path_of("runs", run_id, "retry"), json=wanted, headers=headers))


def cancel_run(run_id: str, wait: bool = False, timeout_sec: float | None = None) -> Script[RunAnswer]:
    """Ask the run to stop. With `wait`: the ended run, within 30 s by default, else TimeoutError."""
    # A second cancel is an accepted no-op, so this request may be repeated without a key.
    asked: RunAnswer = yield from ask(ApiRequest("POST", path_of("runs", run_id, "cancel")))
    if not wait or asked["status"] in TERMINAL:
        return asked
    return (yield from wait_run(run_id, CANCEL_WAIT_SEC if timeout_sec is None else timeout_sec))


def wait_run(run_id: str, timeout_sec: float | None = None) -> Script[RunAnswer]:
    """The run when it has ended; TimeoutError after `timeout_sec` (None: no limit)."""
    deadline = deadline_after(timeout_sec)
    while True:
        wait_sec = left_sec(deadline, ONE_WAIT_SEC)
        response = yield from send(_waiting(path_of("runs", run_id), wait_sec))
        run: RunAnswer = response.raise_for_status().json()
        if run["status"] in TERMINAL:
            return run
        if wait_sec == 0:
            raise TimeoutError(f"Run {run_id} is still {run['status']} after {timeout_sec:g} s.")


def workflow_file(workflow_yaml: str | bytes) -> dict[str, tuple[str, bytes, str]]:
    content = workflow_yaml.encode() if isinstance(workflow_yaml, str) else workflow_yaml
    return {"workflow": ("flow.yaml", content, "application/x-yaml")}


def _waiting(path: str, wait_sec: float) -> ApiRequest:
    """The gateway answers when the run ends, or after this long, so the client need not poll."""
    timeout_sec = REQUEST_TIMEOUT_SEC + wait_sec
    return ApiRequest("GET", path, {"wait": f"{wait_sec:.3f}"}, timeout_sec=timeout_sec)
