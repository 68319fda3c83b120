"""`GET /stream`: several streams over one connection.

Browsers open few connections to one server. So a page that shows a list, a run and its log requests them as
topics of one stream, and reconnects with its position in each.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from pyoco_server.errors import Invalid, PyocoError, Unavailable
from pyoco_server.http_api.context import ready_gateway
from pyoco_server.http_api.error_answers import refusal
from pyoco_server.http_api.gateway import Gateway
from pyoco_server.http_api.middleware.callers import caller_of
from pyoco_server.http_api.routing.face import Face
from pyoco_server.http_api.routing.kinds import IntegerKind, TextKind
from pyoco_server.http_api.routing.operation import Operation
from pyoco_server.http_api.routing.operation import events as sse_of
from pyoco_server.http_api.routing.params import TICKET, ListParam, Param, header
from pyoco_server.http_api.streaming import sse
from pyoco_server.http_api.streaming.topics import PLACE_MARK, Opener, Topic, TopicSources
from pyoco_server.json_value import JsonObject

TOPICS_MAX = 16
STREAM_SEC_DEFAULT, STREAM_SEC_MAX = 600, 3_600
# A page that receives nothing for longer than two of these shows that the gateway does not answer.
KEEP_ALIVE_SEC = 5.0
OF_ONE_RUN = frozenset({"run", "events", "log"})
TOPIC = ListParam(
    "topic", TextKind(), "What to follow; repeat it for more.", required=True, least=1, most=TOPICS_MAX
)
AFTER = ListParam(
    "after", TextKind(), "The id of an event that was read last of its topic; repeat it for more."
)
TIMEOUT_SEC = Param(
    "timeout_sec",
    IntegerKind(1, STREAM_SEC_MAX, says="is a whole number from {least} to {most}."),
    STREAM_SEC_DEFAULT,
    "The stream ends after this long.",
)
LAST_PLACE = header("Last-Event-ID", "As one more `after`: what browsers send by themselves.")
_TOPICS = """The name of an event is its topic, its data `{event, data}` as in the stream of its own:

- `runs`: the list, as `GET /runs/stream`
- `run:<id>`: one run with its task records, as `GET /runs/{run_id}/watch?include=records`
- `events:<id>`: what happened in it, as `GET /executions/{executionId}/stream`
- `log:<id>`: what it prints, as `GET /runs/{run_id}/logs/stream`
- `workers`: as `GET /workers/stream`
- `lists`: which other lists have changed and should be read again: `{changed}` of `approvals`,
  `dead_letters`, `schedules`, `strategies`, `wheels`

`{"event": "over"}` says that a topic has no more to tell, `{"event": "refused"}` with `{status, message}`
that it cannot be followed; the others go on. Come back with the last id of each topic as `after`."""
_TOPIC = re.compile(r"[a-z]+(:[A-Za-z0-9._-]{1,128})?")


class _StreamParams(NamedTuple):
    """Topics in their order, each with the place to resume from."""

    topics: Mapping[str, str | None]
    timeout_sec: int


def face(openers: Mapping[str, Opener]) -> Face:
    """`openers`: by the kind of a topic."""

    async def stream(request: Request) -> Response:
        gateway = ready_gateway(request)
        asked = _read_params(request, openers)
        many = await _open_topics(request, gateway, asked, openers)
        return sse.EventStream(
            many, gateway.streams, timeout_sec=asked.timeout_sec, keep_alive_sec=KEEP_ALIVE_SEC
        )

    operation = Operation(
        "GET",
        "/stream",
        stream,
        "Several streams over one connection, as server-sent events",
        {200: sse_of()},
        [TOPIC, AFTER, TIMEOUT_SEC, LAST_PLACE, TICKET],
        errors=[422, 429],
        description=_TOPICS,
    )
    return Face(tag="live", error="Error", operations=[operation])


async def _open_topics(
    request: Request, gateway: Gateway, asked: _StreamParams, openers: Mapping[str, Opener]
) -> TopicSources:
    """A refused topic gets an event in the stream; the others go on. Without the broker all are refused."""
    caller = caller_of(request)
    found: dict[str, Topic] = {}
    refused: dict[str, JsonObject] = {}
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


def _read_params(request: Request, openers: Mapping[str, Opener]) -> _StreamParams:
    topics: dict[str, str | None] = dict.fromkeys(TOPIC.read(request))
    if not 1 <= len(topics) <= TOPICS_MAX:
        raise Invalid.at(["query", "topic"], f"Name 1 to {TOPICS_MAX} topics, each as topic=.")
    for topic in topics:
        kind, mark, _ = topic.partition(":")
        if not _TOPIC.fullmatch(topic) or kind not in openers or bool(mark) != (kind in OF_ONE_RUN):
            known = ", ".join(sorted(openers))
            raise Invalid.at(
                ["query", "topic"], f"A topic is one of {known}; those of one run end with :<run id>."
            )
    places = [("query", one) for one in AFTER.read(request)]
    if last := LAST_PLACE.read(request):
        places.insert(0, ("header", last))
    return _StreamParams(topics | _places(places, topics), TIMEOUT_SEC.read(request))


def _places(given: Iterable[tuple[str, str]], topics: Mapping[str, object]) -> dict[str, str]:
    """The last place of each topic. Places of topics that are not asked for are left out."""
    found: dict[str, str] = {}
    for where, one in given:
        topic, mark, place = one.partition(PLACE_MARK)
        if not mark:
            name = "after" if where == "query" else "Last-Event-ID"
            raise Invalid.at(
                [where, name], f"{name} is the id of an event of this stream: topic{PLACE_MARK}place."
            )
        if topic in topics:
            found[topic] = place
    return found
