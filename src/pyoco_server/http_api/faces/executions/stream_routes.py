"""`GET /executions/{id}/stream`: all events from the first or from the reader's place, then live ones.

The id of an event is its seq. Nothing queues up for a slow reader: the next event is taken from the history.
If the broker has lost events that were sent, `reset` is sent, and all events follow from the first.
"""

from __future__ import annotations

import re

from starlette.requests import Request
from starlette.responses import Response

from pyoco_server.errors import Invalid
from pyoco_server.http_api.context import ready_gateway
from pyoco_server.http_api.faces.executions import params, requests
from pyoco_server.http_api.faces.executions.errors import execution_must_exist
from pyoco_server.http_api.faces.executions.event_history import EventHistory
from pyoco_server.http_api.gateway import Gateway
from pyoco_server.http_api.middleware.callers import caller_of
from pyoco_server.http_api.routing.operation import Content, Operation
from pyoco_server.http_api.routing.operation import events as event_stream
from pyoco_server.http_api.routing.params import TICKET
from pyoco_server.http_api.streaming import sse
from pyoco_server.http_api.streaming.topics import Topic
from pyoco_server.operations.executions.histories import Histories, RunHistory
from pyoco_server.operations.identity.callers import Caller
from pyoco_server.operations.live.notify import noop

# Bounds a connection. The client reconnects with the last id.
STREAM_SEC_MAX = 3_600.0
_SEQ = re.compile(r"[0-9]{1,15}")


async def stream_execution(request: Request) -> Response:
    gateway, execution_id = ready_gateway(request), requests.execution_id_of(request)
    # Browsers send the header when they reconnect. The query is for clients that cannot set one.
    given = params.LAST_SEQ.read(request) or params.LAST_SEQ_IN_QUERY.read(request)
    events = await open_events(gateway, caller_of(request).tenant_id, execution_id, given)
    if events.is_over:
        events.detach()
        return Response(status_code=204, headers=sse.HEADERS)
    return sse.EventStream(events, gateway.streams, timeout_sec=STREAM_SEC_MAX)


async def open_events(
    gateway: Gateway, tenant_id: str | None, execution_id: str, given: str | None
) -> Events:
    """`given`: the seq of the last event that was read."""
    events = Events(requests.histories_of(gateway), execution_id, _seen(given))
    with execution_must_exist(execution_id):
        await events.open(tenant_id, gateway.commands.runs.log_seq(execution_id))
    if events.is_ahead and not events.is_over:
        events.detach()
        raise Invalid.at(["header", "Last-Event-ID"], "Last-Event-ID is beyond the last event there is.")
    return events


async def events_topic(gateway: Gateway, caller: Caller, name: str, after: str | None) -> Topic:
    execution_id = requests.checked_id(name)
    return Topic(await open_events(gateway, caller.tenant_id, execution_id, after), comes_to_an_end=True)


class Events:
    def __init__(self, histories: Histories[EventHistory], execution_id: str, seen: int) -> None:
        self._histories = histories
        self._execution_id = execution_id
        self._seen = seen
        self._notify: sse.Notify = noop
        self._history: RunHistory[EventHistory] | None = None
        self._losses = 0

    async def open(self, tenant_id: str | None, known_seq: int) -> None:
        self._history = await self._histories.follow(
            self._execution_id, self._on_growth, tenant_id=tenant_id, known_seq=known_seq
        )
        self._losses = self._history.losses

    @property
    def is_ahead(self) -> bool:
        return self._seen > len(self._events.events)

    @property
    def is_over(self) -> bool:
        run = self._events.run
        is_final = run is None or run.gone or run.is_terminal
        if run is not None and self._history is not None and self._losses != self._history.losses:
            return False
        return is_final and self._seen >= len(self._events.events)

    def take(self) -> sse.EventBatch | None:
        assert self._history is not None, "opened before it is read"
        if self._losses != self._history.losses and self._events.run is not None:
            self._losses, self._seen = self._history.losses, 0
            return sse.event("reset", b"{}", "0")
        if self._seen >= len(self._events.events):
            return None
        self._seen += 1
        return sse.event("message", self._events.events[self._seen - 1], str(self._seen))

    def attach(self, notify: sse.Notify) -> None:
        self._notify = notify

    def detach(self) -> None:
        if self._history is not None:
            self._histories.unfollow(self._execution_id, self._history, self._on_growth)

    @property
    def _events(self) -> EventHistory:
        assert self._history is not None, "opened before it is read"
        return self._history.projection

    def _on_growth(self) -> None:
        self._notify()


def _seen(given: str | None) -> int:
    given = given or "0"
    if not _SEQ.fullmatch(given):
        raise Invalid.at(["header", "Last-Event-ID"], "Last-Event-ID (or afterSeq) is the seq of an event.")
    return int(given)


_STREAM = {
    200: event_stream("Server-sent events; the id of each is its seq"),
    204: Content("It is over, and the reader has seen all of it"),
}
OPERATIONS = [
    Operation(
        "GET",
        "/executions/{executionId}/stream",
        stream_execution,
        "Its events as they happen, from the first one or after Last-Event-ID; closes after the last",
        _STREAM,
        [params.EXECUTION_ID, params.LAST_SEQ_IN_QUERY, params.LAST_SEQ, TICKET],
        errors=[404, 422, 429],
    )
]
