"""`GET /runs/stream`: changes of the list. `GET /runs/stats`: runs by status, and the last hour.

The id of an event is a position in the log and the commit there. A reader that reconnects with it gets the
changes since then, or `reset`: it must read the list again.
"""

from __future__ import annotations

import zlib

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from pyoco_server import clock
from pyoco_server.cursors import TokenRefused, seal, unseal
from pyoco_server.errors import Invalid
from pyoco_server.http_api.context import ready_gateway
from pyoco_server.http_api.faces.runs import params, wire
from pyoco_server.http_api.gateway import Gateway
from pyoco_server.http_api.middleware.callers import caller_of
from pyoco_server.http_api.responses.json import json_answer
from pyoco_server.http_api.routing.operation import Operation, events, json_of
from pyoco_server.http_api.routing.schemas import OBJECT
from pyoco_server.http_api.streaming import sse
from pyoco_server.http_api.streaming.reader_source import ReaderSource
from pyoco_server.json_value import JsonObject
from pyoco_server.operations.live.run_changes import At, ChangeBatch

EVENT_ID = "run list events"
NOWHERE = At(2**62)


async def stream_runs(request: Request) -> Response:
    gateway = ready_gateway(request)
    asked = params.watch_asked(request)
    source = await open_changes(gateway, caller_of(request).tenant_id, asked.last_event_id)
    return sse.EventStream(source, gateway.streams, timeout_sec=asked.timeout_sec)


async def open_changes(gateway: Gateway, tenant_id: str | None, last_event_id: str | None) -> sse.Source:
    secret = await gateway.store.secrets.for_tokens()
    log_id = zlib.crc32(gateway.read_model.log_created.encode())
    seal_of = _Seal(secret, tenant_id, log_id)
    changes = gateway.run_changes
    place = seal_of.place_in(last_event_id)
    is_lost = place is not None and not await changes.holds(place)
    reader = changes.subscribe(tenant_id, None if is_lost else place, reset=is_lost)

    def render(batch: ChangeBatch) -> sse.EventBatch:
        return _event(batch, seal_of.token(batch.place))

    return ReaderSource(reader, render, leave=lambda: changes.unsubscribe(reader))


async def run_stats(request: Request) -> Response:
    gateway = ready_gateway(request)
    tenant_id = caller_of(request).tenant_id
    now = clock.now()
    await gateway.read_model.catch_up()
    minutes = gateway.read_model.tally.minutes(tenant_id, now)
    counts = gateway.read_model.tally.of(tenant_id)
    return json_answer(
        {
            "counts": wire.counts(counts),
            "waiting": wire.waiting(counts),
            "minutes": [wire.minute(one) for one in minutes],
            "ts": now,
        }
    )


_NEWS = """`event: runs` with `{runs, gone, counts, waiting, minute, standing?}` and an `id:`: at once, then
whenever runs have changed, at most ten times a second. `gone` are ids of runs that were erased; `waiting` is
the number of RUNNING runs that wait for an answer or an instant; `standing` comes when the readiness of the
gateway has changed. `event: reset`: too many changes were missed, or the broker has lost changes that were
sent: read the list again."""
OPERATIONS = [
    Operation(
        "GET",
        "/runs/stream",
        stream_runs,
        "Follow the list of runs as server-sent events",
        {200: events()},
        params.FOLLOW_PARAMS,
        errors=[422, 429],
        description=_NEWS,
        is_hot=True,
    ),
    Operation(
        "GET",
        "/runs/stats",
        run_stats,
        "Number of runs by status, and by minute of the last hour",
        {
            200: json_of(
                "`{counts, waiting, minutes, ts}`; `waiting`: so many of the RUNNING ones wait", OBJECT
            )
        },
        is_hot=True,
    ),
]


class _Seal:
    """Positions as tokens of one tenant. `log_id`: the log that they belong to."""

    def __init__(self, secret: bytes, tenant_id: str | None, log_id: int) -> None:
        self._secret = secret
        self._scope = {"tenant": tenant_id}
        self._log_id = log_id

    def token(self, place: At) -> str:
        stored_at = int(place.stored_at or 0)
        return seal(self._secret, EVENT_ID, self._scope, [place.seq, stored_at, self._log_id])

    def place_in(self, token: str | None) -> At | None:
        """None without a token. A position in a log that no longer exists counts as beyond the end."""
        if token is None:
            return None
        try:
            seq, stored_at, log_id = unseal(self._secret, EVENT_ID, self._scope, token)
        except (TokenRefused, ValueError):
            message = "Last-Event-ID is not one of this stream. Follow it without."
            raise Invalid.at(["header", "Last-Event-ID"], message) from None
        return At(seq, str(stored_at)) if log_id == self._log_id else NOWHERE


def _event(batch: ChangeBatch, event_id: str) -> sse.EventBatch:
    data: JsonObject = {
        "runs": [wire.summary(run) for run in batch.runs if not run.gone],
        "gone": [*batch.gone, *(run.run_id for run in batch.runs if run.gone)],
        "counts": wire.counts(batch.counts),
        "waiting": wire.waiting(batch.counts),
        "minute": wire.minute(batch.minute),
        "ts": clock.now(),
    }
    if batch.standing is not None:
        data["standing"] = batch.standing
    return sse.event("reset" if batch.is_reset else "runs", msgspec.json.encode(data), event_id)
