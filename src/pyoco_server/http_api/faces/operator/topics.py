"""The topics of this face for `GET /stream`: workers, and which lists have changed."""

from __future__ import annotations

import msgspec

from pyoco_server.http_api.faces.operator.workers import open_workers
from pyoco_server.http_api.gateway import Gateway
from pyoco_server.http_api.streaming import sse
from pyoco_server.http_api.streaming.reader_source import ReaderSource
from pyoco_server.http_api.streaming.topics import Opener, Topic
from pyoco_server.operations.identity.callers import Caller, Scope
from pyoco_server.operations.live.list_changes import ListChange


async def _workers(gateway: Gateway, caller: Caller, _name: str, _after: str | None) -> Topic:
    caller.require(Scope.OPS_READ)
    return Topic(open_workers(gateway, caller), comes_to_an_end=False)


async def _lists(gateway: Gateway, caller: Caller, _name: str, after: str | None) -> Topic:
    changes = gateway.list_changes
    reader = changes.subscribe(caller.tenant_id, after)
    source = ReaderSource(reader, _event, leave=lambda: changes.unsubscribe(reader))
    return Topic(source, comes_to_an_end=False)


TOPICS: dict[str, Opener] = {"workers": _workers, "lists": _lists}


def _event(change: ListChange) -> sse.EventBatch:
    return sse.event("lists", msgspec.json.encode({"changed": change.names}), change.place)
