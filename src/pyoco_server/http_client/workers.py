"""Calls about workers: list, hide, drain, resume, and wait until one is drained."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, TypedDict

from pyoco_server.http_client.calls import deadline_after, given, left_sec, path_of
from pyoco_server.http_client.script import ApiRequest, ResumingStream, Script, ask

if TYPE_CHECKING:
    from pyoco_server.http_client.answers import PatchedWorkerAnswer, TagQueueAnswer, WorkerAnswer

ONE_STREAM_SEC = 600.0
ALIVE = ("RUNNING", "IDLE")


class _WorkerChange(TypedDict):
    all: bool
    workers: list[WorkerAnswer]
    gone: list[str]


class NotDrained(Exception):
    """The worker no longer drains: it was resumed, restarted, lost or removed."""


def get_workers(
    *,
    scope: str | None = None,
    state: str | None = None,
    include_hidden: bool | None = None,
    limit: int | None = None,
) -> Script[list[WorkerAnswer]]:
    """Workers that are alive; with `scope="all"` also those that are gone."""
    query = given(scope=scope, state=state, include_hidden=include_hidden, limit=limit)
    return ask(ApiRequest("GET", "/workers", query))


def list_worker_tags() -> Script[list[TagQueueAnswer]]:
    """The backlog, the oldest wait and the workers of each tag."""
    return ask(ApiRequest("GET", "/workers/tags"))


def patch_worker_hidden(worker_id: str, hidden: bool) -> Script[PatchedWorkerAnswer]:
    """Leave the worker out of lists, or show it again."""
    return ask(ApiRequest("PATCH", path_of("workers", worker_id), json={"hidden": hidden}))


def patch_worker_draining(worker_id: str, *, draining: bool) -> Script[PatchedWorkerAnswer]:
    """Let the running process finish its runs and take no new ones, or take runs again."""
    return ask(ApiRequest("PATCH", path_of("workers", worker_id), json={"draining": draining}))


def wait_drained(worker_id: str, timeout_sec: float | None = None) -> Script[WorkerAnswer]:
    """The worker, when it drains and has no run left, or has stopped gracefully.

    TimeoutError after `timeout_sec`; NotDrained when it no longer drains.
    """
    deadline = deadline_after(timeout_sec)
    first: WorkerAnswer | None = None
    stream = ResumingStream(lambda: _stream_request(left_sec(deadline, ONE_STREAM_SEC)))
    while True:
        event = yield from stream.next()
        if event is None:
            if deadline is not None and time.monotonic() >= deadline:
                raise TimeoutError(f"Worker {worker_id} still has runs.")
            continue
        for worker in _entries(worker_id, event.data):
            if worker["state"] == "STOPPED_GRACEFUL" or (worker["draining"] and worker["state"] == "IDLE"):
                return worker
            _check_still_draining(worker_id, worker, first)
            first = first or worker


def _check_still_draining(worker_id: str, worker: WorkerAnswer, first: WorkerAnswer | None) -> None:
    if first is not None and worker["instance_id"] != first["instance_id"]:
        raise NotDrained(f"Worker {worker_id} was started again and takes runs.")
    if worker["state"] not in ALIVE:
        raise NotDrained(f"Worker {worker_id} was lost; others go on with its runs.")
    # The first entry may come from a replica of the broker that does not have the request yet.
    if first is not None and not worker["drain_requested"]:
        raise NotDrained(f"Worker {worker_id} is not asked to drain any more.")


def _entries(worker_id: str, change: _WorkerChange) -> list[WorkerAnswer]:
    found = [one for one in change["workers"] if one["worker_id"] == worker_id]
    if worker_id in change["gone"] or (change["all"] and not found):
        raise NotDrained(f"There is no worker {worker_id}, or not any more.")
    return found


def _stream_request(seconds: float) -> ApiRequest:
    return ApiRequest("GET", "/workers/stream", {"timeout_sec": max(1, math.ceil(seconds))})
