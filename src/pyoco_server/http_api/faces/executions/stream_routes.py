"""`GET /executions/{id}/stream`: every listed event, from the first or from where the reader was, then live.

The id of an event is its seq. Nothing piles up for a slow reader: what comes next is taken from the list.
"""

from __future__ import annotations

import re

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pyoco_server.errors import NotFound
from pyoco_server.http_api import sse
from pyoco_server.http_api.callers import caller_of
from pyoco_server.http_api.faces.executions import asking
from pyoco_server.http_api.faces.executions.chronicle import Chronicle
from pyoco_server.http_api.faces.executions.errors import ExecutionNotFound
from pyoco_server.operations.histories import Histories, History

# By then every proxy in between has had its say; whoever reads on comes back with the last id.
STREAM_SEC_MAX = 3_600.0
_SEQ = re.compile(r"[0-9]{1,15}")


async def stream_execution(request: Request) -> Response:
    gateway, execution_id = asking.ready_gateway(request), asking.execution_id_of(request)
    seen = _seen(request)
    events = _Events(gateway.histories, execution_id, seen)
    try:
        await events.open(caller_of(request).tenant_id, gateway.desk.held.log_seq(execution_id))
    except NotFound:
        raise ExecutionNotFound(execution_id) from None
    if events.is_over:
        events.detach()
        return Response(status_code=204, headers=sse.HEADERS)
    if events.is_ahead:
        events.detach()
        raise asking.wrong("header", "Last-Event-ID", "Last-Event-ID is beyond the last event there is.")
    return sse.EventStream(events, gateway.streams, timeout_sec=STREAM_SEC_MAX)


class _Events:
    def __init__(self, histories: Histories[Chronicle], execution_id: str, seen: int) -> None:
        self._histories = histories
        self._execution_id = execution_id
        self._seen = seen
        self._ring: sse.Ring = lambda: None
        self._history: History[Chronicle] | None = None

    async def open(self, tenant_id: str | None, known_seq: int) -> None:
        self._history = await self._histories.follow(
            self._execution_id, self._rung, tenant_id=tenant_id, known_seq=known_seq
        )

    @property
    def is_ahead(self) -> bool:
        return self._seen > len(self._chronicle.events)

    @property
    def is_over(self) -> bool:
        run = self._chronicle.run
        is_final = run is None or run.gone or run.is_terminal
        return is_final and self._seen >= len(self._chronicle.events)

    def take(self) -> bytes | None:
        if self._seen >= len(self._chronicle.events):
            return None
        self._seen += 1
        return sse.event("message", self._chronicle.events[self._seen - 1], str(self._seen))

    def attach(self, ring: sse.Ring) -> None:
        self._ring = ring

    def detach(self) -> None:
        if self._history is not None:
            self._histories.unfollow(self._execution_id, self._history, self._rung)

    @property
    def _chronicle(self) -> Chronicle:
        assert self._history is not None, "opened before it is read"
        return self._history.grown

    def _rung(self) -> None:
        self._ring()


def _seen(request: Request) -> int:
    """The header, as browsers send it when they come back; the query for whoever cannot set one."""
    given = request.headers.get("last-event-id") or request.query_params.get("afterSeq") or "0"
    if not _SEQ.fullmatch(given):
        raise asking.wrong("header", "Last-Event-ID", "Last-Event-ID (or afterSeq) is the seq of an event.")
    return int(given)


ROUTES = [Route("/executions/{executionId}/stream", stream_execution, methods=["GET"])]
