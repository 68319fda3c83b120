"""Calls of the HTTP client about workers: list, hide, drain, resume, and wait until one is drained."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx

from pyoco_server.http_client.calls import (
    RECONNECT_SEC,
    RECONNECTS_MAX,
    deadline_after,
    events_in,
    given,
    left_sec,
    list_in,
    object_in,
    open_stream,
)

ONE_STREAM_SEC = 600.0
ALIVE = ("RUNNING", "IDLE")

Worker = dict[str, Any]


class NotDrained(Exception):
    """The worker no longer drains: it was resumed, restarted, lost or removed."""


class WorkerCalls:
    """Part of `PyocoHttpClient`."""

    _http: httpx.Client

    def get_workers(
        self,
        *,
        scope: str | None = None,
        state: str | None = None,
        include_hidden: bool | None = None,
        limit: int | None = None,
    ) -> list[Worker]:
        """Workers that are alive; with `scope="all"` also those that are gone."""
        query = given(scope=scope, state=state, include_hidden=include_hidden, limit=limit)
        return list_in(self._http.get("/workers", params=query))

    def patch_worker_hidden(self, worker_id: str, hidden: bool) -> dict[str, Any]:
        return self._patch_worker(worker_id, hidden=hidden)

    def patch_worker_draining(self, worker_id: str, *, draining: bool) -> dict[str, Any]:
        """Let the running process finish its runs and take no new ones, or take runs again."""
        return self._patch_worker(worker_id, draining=draining)

    def wait_drained(self, worker_id: str, timeout_sec: float | None = None) -> Worker:
        """The worker, when it drains and has no run left, or has stopped gracefully.

        TimeoutError after `timeout_sec`; NotDrained when it no longer drains.
        """
        deadline = deadline_after(timeout_sec)
        first: Worker | None = None
        for worker in self._worker_changes(worker_id, deadline):
            if worker["state"] == "STOPPED_GRACEFUL" or (worker["draining"] and worker["state"] == "IDLE"):
                return worker
            if first is not None and worker["instance_id"] != first["instance_id"]:
                raise NotDrained(f"Worker {worker_id} was started again and takes runs.")
            if worker["state"] not in ALIVE:
                raise NotDrained(f"Worker {worker_id} was lost; others go on with its runs.")
            # The first entry may come from a replica of the broker that does not have the request yet.
            if first is not None and not worker["drain_requested"]:
                raise NotDrained(f"Worker {worker_id} is not asked to drain any more.")
            first = first or worker
        raise TimeoutError(f"Worker {worker_id} still has runs.")

    def _patch_worker(self, worker_id: str, **changes: bool) -> dict[str, Any]:
        return object_in(self._http.patch(f"/workers/{quote(worker_id, safe='')}", json=changes))

    def _worker_changes(self, worker_id: str, deadline: float | None) -> Iterator[Worker]:
        """The entry of the worker, now and after each change. Ends at the deadline."""
        tries = RECONNECTS_MAX
        while True:
            try:
                for worker in self._stream_worker(worker_id, left_sec(deadline, ONE_STREAM_SEC)):
                    tries = RECONNECTS_MAX
                    yield worker
            except httpx.TransportError:
                tries -= 1
                if not tries:
                    raise
                time.sleep(RECONNECT_SEC)
            if deadline is not None and time.monotonic() >= deadline:
                return

    def _stream_worker(self, worker_id: str, seconds: float) -> Iterator[Worker]:
        query = {"timeout_sec": max(1, math.ceil(seconds))}
        with open_stream(self._http, "/workers/stream", query) as response:
            for event in events_in(response.iter_lines()):
                found = [one for one in event.data["workers"] if one["worker_id"] == worker_id]
                if worker_id in event.data["gone"] or (event.data["all"] and not found):
                    raise NotDrained(f"There is no worker {worker_id}, or not any more.")
                yield from found
