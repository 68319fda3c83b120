"""Several sources as one stream: each event names its topic, and its id has the position in that topic.

The name of an event is its topic; its data are `{"event", "data"}`, with the name and data of the event in
its own stream. Independent of faces.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

import msgspec

from pyoco_server.http_api.gateway import Gateway
from pyoco_server.http_api.streaming import sse
from pyoco_server.json_value import JsonObject
from pyoco_server.operations.identity.callers import Caller

# Between a topic and a position in it, in the ids of events.
PLACE_MARK = "~"


class Topic(NamedTuple):
    """`comes_to_an_end`: its source is over when it has no more events, not only when it lags behind."""

    source: sse.Source
    comes_to_an_end: bool


# Takes the gateway, the caller, the part of the topic after the colon, and the place to resume from.
Opener = Callable[[Gateway, Caller, str, str | None], Awaitable[Topic]]


class TopicSources:
    """The topics of one reader, in turn: a busy topic does not delay the others."""

    def __init__(self, topics: Mapping[str, Topic], refused: Mapping[str, JsonObject]) -> None:
        self._open = dict(topics)
        self._turns = deque(topics)
        self._told = [_event(name, "refused", why) for name, why in refused.items()]
        self._broken_off = False

    def attach(self, notify: sse.Notify) -> None:
        for topic in self._open.values():
            topic.source.attach(notify)

    def detach(self) -> None:
        for topic in self._open.values():
            topic.source.detach()
        self._open.clear()

    @property
    def is_over(self) -> bool:
        return self._broken_off or not (self._open or self._told)

    def take(self) -> sse.EventBatch | None:
        if self._told:
            return self._told.pop(0)
        for _ in range(len(self._turns)):
            name = self._turns[0]
            self._turns.rotate(-1)
            batch = self._open[name].source.take()
            if batch is not None:
                return labelled(name, batch)
            if self._open[name].source.is_over:
                return self._leave(name)
        return None

    def _leave(self, name: str) -> sse.EventBatch | None:
        topic = self._open[name]
        if not topic.comes_to_an_end:
            self._broken_off = True  # the reader reconnects with all its places
            return None
        del self._open[name]
        self._turns.remove(name)
        topic.source.detach()
        return _event(name, "over", None)


def labelled(topic: str, batch: sse.EventBatch) -> sse.EventBatch:
    """Events of one source as those of its topic."""
    return sse.EventBatch(
        sse.StreamEvent(
            topic,
            b'{"event":' + msgspec.json.encode(one.name) + b',"data":' + one.data + b"}",
            None if one.id is None else f"{topic}{PLACE_MARK}{one.id}",
        )
        for one in batch
    )


def _event(topic: str, name: str, data: object) -> sse.EventBatch:
    return labelled(topic, sse.event(name, msgspec.json.encode(data)))
