"""The log of a run as server-sent events, for every face: lines, the status of the run, and its end.

The id of a line's event is its token. The last event has the token of the end, so that a browser that
reconnects gets 204, also if no line was printed. `reset`: the broker has lost lines, perhaps some that were
sent; all lines that exist follow from the first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from starlette.requests import Request
from starlette.responses import Response

from pyoco_server.http_api.gateway import Gateway
from pyoco_server.http_api.middleware.callers import caller_of
from pyoco_server.http_api.responses.error_table import FrameworkRefusal
from pyoco_server.http_api.responses.negotiation import best_kind
from pyoco_server.http_api.streaming import sse
from pyoco_server.operations.logs.cursors import BadToken, LogPosition, LogPositions
from pyoco_server.operations.logs.follower import LogFollower, NewLines
from pyoco_server.operations.logs.views import LogView
from pyoco_server.store.runs.log import StoredRun

KIND = "text/event-stream"

# Renders a run in the format of a face.
Show = Callable[[StoredRun], bytes]


def check_accept(request: Request) -> None:
    if best_kind(request.headers.get("accept"), (KIND,)) is None:
        raise FrameworkRefusal(406, f"This is a stream of events: accept {KIND}.")


async def log_stream(
    request: Request, gateway: Gateway, run_id: str, since_token: str | None, show: Show
) -> Response:
    """From the start or from a token, then live. Errors (404, 400) are raised before the stream begins."""
    tokens = [request.headers.get("last-event-id"), since_token]
    events = await open_log(gateway, caller_of(request).tenant_id, run_id, tokens, show)
    if events is None:
        return Response(status_code=204, headers=sse.HEADERS)
    return sse.EventStream(events, gateway.streams, timeout_sec=math.inf)


async def open_log(
    gateway: Gateway, tenant_id: str | None, run_id: str, tokens: Sequence[str | None], show: Show
) -> LogEvents | None:
    """`tokens`: of a reconnect, and of the first request. None: there are no more lines."""
    places = LogPositions(await gateway.store.secrets.for_tokens(), run_id)
    after = _after(places, *tokens)
    view: LogView = await gateway.log_views.subscribe(run_id, tenant_id=tenant_id)
    if after is not None and view.is_final and after.line == view.lines:
        gateway.log_views.unsubscribe(run_id, view)
        return None
    follower = LogFollower(gateway.store, run_id, view, after or LogPosition())
    return LogEvents(
        follower, view, places, show, on_gone=lambda: gateway.log_views.unsubscribe(run_id, view)
    )


class LogEvents:
    """The events for one reader. The end of the run is sent after its last line."""

    def __init__(
        self,
        follower: LogFollower,
        view: LogView,
        places: LogPositions,
        show: Show,
        on_gone: Callable[[], None],
    ) -> None:
        self._follower = follower
        self._view = view
        self._places = places
        self._show = show
        self._on_gone = on_gone
        self._told = b""
        self._ended = False
        self._notify: sse.Notify = lambda: None

    def attach(self, notify: sse.Notify) -> None:
        self._notify = notify
        self._follower.attach(notify)
        self._view.run_view.attach(notify)

    def detach(self) -> None:
        self._view.run_view.detach(self._notify)
        self._follower.detach()
        self._on_gone()

    @property
    def is_over(self) -> bool:
        return self._ended

    def take(self) -> sse.EventBatch | None:
        if self._ended:
            return None
        if self._follower.has_to_begin_again:
            self._follower.begin_again()
            return sse.event("reset", b"{}", self._places.token(self._follower.place))
        is_last = self._follower.is_over
        if not self._told or is_last or not self._view.run_view.stored.run.is_terminal:
            status = self._view.run_view.shown(("log stream", self._show), self._show)
            if status != self._told:
                self._told = status
                return sse.event("status", status)
        if is_last:
            self._ended = True
            return sse.event("end", self._told, self._places.token(self._follower.place))
        new = self._follower.take()
        return None if new is None else self._lines(new)

    def _lines(self, new: NewLines) -> sse.EventBatch:
        batch = self._view.shown(("events", new.begin), new.chunk, lambda _: self._events(new))
        if not new.lost:
            return batch
        return sse.EventBatch((sse.StreamEvent("truncated", b'{"from":%d}' % new.begin), *batch))

    def _events(self, new: NewLines) -> sse.EventBatch:
        seq, token = new.chunk.seq, self._places.token
        return sse.EventBatch(
            sse.StreamEvent("logEntry", line, token(LogPosition(number, seq)))
            for number, line in enumerate(new.lines, new.begin)
        )


def _after(places: LogPositions, last_event_id: str | None, since_token: str | None) -> LogPosition | None:
    """A browser reconnects with the last id it has read. An invalid id is ignored: it begins as before."""
    if last_event_id:
        try:
            return places.opened(last_event_id)
        except BadToken:
            pass
    return None if since_token is None else places.opened(since_token)
