"""`GET /runs/{run_id}/watch`: a snapshot of the run after each change, until the run ends.

The id of an event is a position in the log of the run. A client that reconnects with it gets the current
state if that is newer, and 204 if the run had ended: a browser then stops to reconnect.
"""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from pyoco_server import clock
from pyoco_server.cursors import TokenRefused, seal, unseal
from pyoco_server.errors import Invalid
from pyoco_server.http_api.context import ready_gateway
from pyoco_server.http_api.faces.runs import wire
from pyoco_server.http_api.faces.runs.params import FOLLOW_PARAMS, RUN_ID, WatchParams, watch_asked
from pyoco_server.http_api.faces.runs.request_context import run_id_of
from pyoco_server.http_api.gateway import Gateway
from pyoco_server.http_api.middleware.callers import caller_of
from pyoco_server.http_api.routing.operation import Content, Operation, events
from pyoco_server.http_api.streaming import sse
from pyoco_server.operations.live.notify import Notify
from pyoco_server.operations.live.run_views import RunView, RunViews
from pyoco_server.store.runs.log import StoredRun

EVENT_ID = "run events"


async def watch_run(request: Request) -> Response:
    gateway = ready_gateway(request)
    run_id, asked = run_id_of(request), watch_asked(request)
    snapshots = await open_snapshots(gateway, caller_of(request).tenant_id, run_id, asked)
    if snapshots.is_over and not snapshots.has_news:
        snapshots.detach()
        return Response(status_code=204, headers=sse.HEADERS)
    return sse.EventStream(
        snapshots, gateway.streams, timeout_sec=asked.timeout_sec, keep_alive=lambda: _heartbeat(run_id)
    )


async def open_snapshots(
    gateway: Gateway, tenant_id: str | None, run_id: str, asked: WatchParams
) -> Snapshots:
    secret = await gateway.store.secrets.for_tokens()
    seen = _seen(secret, run_id, asked.last_event_id)
    views: RunViews = gateway.run_views
    view = await views.subscribe(run_id, tenant_id=tenant_id)
    return Snapshots(views, view, asked, seen, secret)


_STREAM = """`retry:` first, then `event: snapshot` with `{run_id, snapshot, ts}` and an `id:`, at once and
whenever the run has changed (the latest state, if it changes faster than it is read), and `event: heartbeat`
without an id after 15 seconds without a change. Ends after the snapshot of a run that has ended."""
OPERATIONS = [
    Operation(
        "GET",
        "/runs/{run_id}/watch",
        watch_run,
        "Follow one run as server-sent events",
        {200: events(), 204: Content("The run has ended, and nothing is newer: do not reconnect")},
        [RUN_ID, *FOLLOW_PARAMS],
        errors=[404, 422, 429],
        description=_STREAM,
    )
]


class Snapshots:
    """Snapshots for one reader. A slow reader skips states: the next event is always the latest state."""

    def __init__(self, views: RunViews, view: RunView, asked: WatchParams, seen: int, secret: bytes) -> None:
        self._views = views
        self._view = view
        self._run_id = view.stored.run.run_id
        self._asked = asked
        self._secret = secret
        # A position beyond the end belongs to a log that no longer exists: the current state is new.
        self._seen = seen if seen <= view.stored.log_seq else 0
        self._losses = view.losses
        self._ring: Notify | None = None

    @property
    def has_news(self) -> bool:
        stored, since = self._view.stored, self._asked.since
        is_seen = stored.log_seq == self._seen and self._losses == self._view.losses
        if stored.run.gone or self._view.is_lost or is_seen:
            return False
        return since is None or stored.run.updated_at >= since

    @property
    def is_over(self) -> bool:
        return self._view.is_lost or self._view.stored.run.is_terminal

    def take(self) -> sse.EventBatch | None:
        if not self.has_news:
            return None
        self._seen, self._losses = self._view.stored.log_seq, self._view.losses
        return self._view.shown(("watch", self._asked.records), self._event)

    def attach(self, ring: Notify) -> None:
        self._ring = ring
        self._view.attach(ring)

    def detach(self) -> None:
        if self._ring is not None:
            self._view.detach(self._ring)
        self._views.unsubscribe(self._run_id, self._view)

    def _event(self, stored: StoredRun) -> sse.EventBatch:
        snapshot = wire.snapshot(stored, records=self._asked.records)
        data = {"run_id": self._run_id, "snapshot": snapshot, "ts": clock.now()}
        event_id = seal(self._secret, EVENT_ID, {"run_id": self._run_id}, [stored.log_seq])
        return sse.event("snapshot", msgspec.json.encode(data), event_id)


def _heartbeat(run_id: str) -> bytes:
    """Without an id: a client that reconnects resumes after the last snapshot."""
    return sse.event("heartbeat", msgspec.json.encode({"run_id": run_id, "ts": clock.now()})).encoded


def _seen(secret: bytes, run_id: str, last_event_id: str | None) -> int:
    if last_event_id is None:
        return 0
    try:
        return unseal(secret, EVENT_ID, {"run_id": run_id}, last_event_id)[0]
    except TokenRefused:
        message = "Last-Event-ID is not one of this run. Watch it without."
        raise Invalid.at(["header", "Last-Event-ID"], message) from None
