"""`GET /stream`: everything that one page shows, over one connection.

A browser opens few connections to one server. So a page that shows a list, a run and its log at once names
them as topics, and reconnects with the place it has reached in each.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pyoco_server.errors import Invalid, PyocoError, Unavailable
from pyoco_server.http_api.context import Gateway, ready_gateway
from pyoco_server.http_api.error_answers import refusal
from pyoco_server.http_api.middleware.callers import caller_of
from pyoco_server.http_api.streaming import sse
from pyoco_server.http_api.streaming.topics import PLACE_MARK, Opener, Topic, TopicSources

TOPICS_MAX = 16
STREAM_SEC_DEFAULT, STREAM_SEC_MAX = 600, 3_600
OF_ONE_RUN = frozenset({"run", "events", "log"})
_FEW = re.compile(r"[0-9]{1,4}")
_TOPIC = re.compile(r"[a-z]+(:[A-Za-z0-9._-]{1,128})?")


class _Asked(NamedTuple):
    """Topics in their order, each with the place to resume from."""

    topics: Mapping[str, str | None]
    timeout_sec: int


def route(openers: Mapping[str, Opener]) -> Route:
    """`openers`: by the first word of a topic."""

    async def stream(request: Request) -> Response:
        gateway = ready_gateway(request)
        asked = _asked(request, openers)
        many = await _open_topics(request, gateway, asked, openers)
        return sse.EventStream(many, gateway.streams, timeout_sec=asked.timeout_sec)

    return Route("/stream", stream, methods=["GET"])


async def _open_topics(
    request: Request, gateway: Gateway, asked: _Asked, openers: Mapping[str, Opener]
) -> TopicSources:
    """A refused topic gets an event in the stream; the others go on. Without the broker all are refused."""
    caller = caller_of(request)
    found: dict[str, Topic] = {}
    refused: dict[str, dict[str, Any]] = {}
    with contextlib.ExitStack() as on_error:
        for topic, after in asked.topics.items():
            kind, _, name = topic.partition(":")
            try:
                found[topic] = await openers[kind](gateway, caller, name, after)
            except Unavailable:
                raise
            except PyocoError as error:
                refused[topic] = refusal(error)
            else:
                on_error.callback(found[topic].source.detach)
        on_error.pop_all()
    return TopicSources(found, refused)


def _asked(request: Request, openers: Mapping[str, Opener]) -> _Asked:
    query = request.query_params
    topics = dict.fromkeys(query.getlist("topic"))
    if not 1 <= len(topics) <= TOPICS_MAX:
        raise _wrong("query", "topic", f"Name 1 to {TOPICS_MAX} topics, each as topic=.")
    for topic in topics:
        kind, mark, _ = topic.partition(":")
        if not _TOPIC.fullmatch(topic) or kind not in openers or bool(mark) != (kind in OF_ONE_RUN):
            known = ", ".join(sorted(openers))
            raise _wrong("query", "topic", f"A topic is one of {known}; those of one run end with :<run id>.")
    places = [("query", one) for one in query.getlist("after")]
    if last := request.headers.get("last-event-id"):
        places.insert(0, ("header", last))
    return _Asked(topics | _places(places, topics), _seconds(query.get("timeout_sec")))


def _places(given: Iterable[tuple[str, str]], topics: Mapping[str, Any]) -> dict[str, str]:
    """The last place of each topic. Places of topics that are not asked for are left out."""
    found: dict[str, str] = {}
    for where, one in given:
        topic, mark, place = one.partition(PLACE_MARK)
        if not mark:
            name = "after" if where == "query" else "Last-Event-ID"
            raise _wrong(where, name, f"{name} is the id of an event of this stream: topic{PLACE_MARK}place.")
        if topic in topics:
            found[topic] = place
    return found


def _seconds(raw: str | None) -> int:
    if raw is None:
        return STREAM_SEC_DEFAULT
    if not _FEW.fullmatch(raw) or not 1 <= int(raw) <= STREAM_SEC_MAX:
        raise _wrong("query", "timeout_sec", f"timeout_sec is a whole number from 1 to {STREAM_SEC_MAX}.")
    return int(raw)


def _wrong(place: str, name: str, message: str) -> Invalid:
    return Invalid(message, details=[{"loc": [place, name], "msg": message, "type": "value_error"}])
