"""Calls of the HTTP client about workers: who there is, which are shown, and which take no new runs."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx

from pyoco_server.http_client.event_stream import events_in

# How often in a row a broken stream is opened again; it begins with all workers.
RECONNECTS_MAX = 10
RECONNECT_SEC = 1.0
ONE_STREAM_SEC = 600.0
ALIVE = ("RUNNING", "IDLE")

Worker = dict[str, Any]


class NotDrained(Exception):
    """The worker that was waited for does not drain any more: it was resumed, restarted, lost or removed."""


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
        """Those that run or wait; with `scope="all"` also those that are gone."""
        query = {"scope": scope, "state": state, "include_hidden": include_hidden, "limit": limit}
        given = {name: value for name, value in query.items() if value is not None}
        found: list[Worker] = self._http.get("/workers", params=given).raise_for_status().json()
        return found

    def patch_worker_hidden(self, worker_id: str, hidden: bool) -> dict[str, Any]:
        return self._patch_worker(worker_id, hidden=hidden)

    def patch_worker_draining(self, worker_id: str, *, draining: bool) -> dict[str, Any]:
        """Take no new runs and finish those it has, or take runs again: asked of the process that runs."""
        return self._patch_worker(worker_id, draining=draining)

    def wait_drained(self, worker_id: str, timeout_sec: float | None = None) -> Worker:
        """The worker, when it drains and has no run left; also when it has said goodbye instead.

        TimeoutError when that takes longer; NotDrained when it does not drain any more.
        """
        deadline = None if timeout_sec is None else time.monotonic() + timeout_sec
        first: Worker | None = None
        for worker in self._worker_as_it_changes(worker_id, deadline):
            if worker["state"] == "STOPPED_GRACEFUL" or (worker["draining"] and worker["state"] == "IDLE"):
                return worker
            if first is not None and worker["instance_id"] != first["instance_id"]:
                raise NotDrained(f"Worker {worker_id} was started anew, and takes runs.")
            if worker["state"] not in ALIVE:
                raise NotDrained(f"Worker {worker_id} was lost; others go on with its runs.")
            # What was asked a moment ago a replica of the broker may not know yet; a beat later it does.
            if first is not None and not worker["drain_requested"]:
                raise NotDrained(f"Worker {worker_id} is not asked to drain any more.")
            first = first or worker
        raise TimeoutError(f"Worker {worker_id} still has runs.")

    def _patch_worker(self, worker_id: str, **changes: bool) -> dict[str, Any]:
        answer = self._http.patch(f"/workers/{quote(worker_id, safe='')}", json=changes).raise_for_status()
        changed: dict[str, Any] = answer.json()
        return changed

    def _worker_as_it_changes(self, worker_id: str, deadline: float | None) -> Iterator[Worker]:
        """Pushed. Ends at the deadline."""
        tries = RECONNECTS_MAX
        while True:
            try:
                for worker in self._one_stream(worker_id, _left_sec(deadline)):
                    tries = RECONNECTS_MAX
                    yield worker
            except httpx.TransportError:
                tries -= 1
                if not tries:
                    raise
                time.sleep(RECONNECT_SEC)
            if deadline is not None and time.monotonic() >= deadline:
                return

    def _one_stream(self, worker_id: str, seconds: float) -> Iterator[Worker]:
        query = {"timeout_sec": max(1, math.ceil(seconds))}
        with self._http.stream("GET", "/workers/stream", params=query) as answer:
            if answer.is_error:
                answer.read()  # the error shows the body
            answer.raise_for_status()
            for event in events_in(answer.iter_lines()):
                found = [one for one in event.data["workers"] if one["worker_id"] == worker_id]
                if worker_id in event.data["gone"] or (event.data["all"] and not found):
                    raise NotDrained(f"There is no worker {worker_id}, or not any more.")
                yield from found


def _left_sec(deadline: float | None) -> float:
    return ONE_STREAM_SEC if deadline is None else min(ONE_STREAM_SEC, deadline - time.monotonic())
