"""What `GET /stream` has of this face: workers, and which lists have changed."""

from __future__ import annotations

from typing import Any

import msgspec

from pyoco_server.http_api import sse
from pyoco_server.http_api.faces.operator.workers import open_workers
from pyoco_server.http_api.topics import Opener, Topic
from pyoco_server.operations.callers import Caller, Scope
from pyoco_server.operations.list_news import ListNews, ListReader, Ring


async def _workers(gateway: Any, caller: Caller, _name: str, _after: str | None) -> Topic:
    caller.require(Scope.OPS_READ)
    return Topic(open_workers(gateway, caller), comes_to_an_end=False)


async def _lists(gateway: Any, caller: Caller, _name: str, after: str | None) -> Topic:
    news: ListNews = gateway.list_news
    return Topic(_Told(news, news.enter(caller.tenant_id, after)), comes_to_an_end=False)


TOPICS: dict[str, Opener] = {"workers": _workers, "lists": _lists}


class _Told:
    def __init__(self, news: ListNews, reader: ListReader) -> None:
        self._news = news
        self._reader = reader

    def attach(self, ring: Ring) -> None:
        self._reader.attach(ring)

    def detach(self) -> None:
        self._news.leave(self._reader)

    @property
    def is_over(self) -> bool:
        return self._reader.is_over

    def take(self) -> bytes | None:
        told = self._reader.take()
        if told is None:
            return None
        changed, place = told
        return sse.event("lists", msgspec.json.encode({"changed": changed}), place)
