"""Calls about many runs: short ids, searches, numbers by status, and the stream of several topics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import httpx

from pyoco_server.http_client.calls import Event, EventParser, given
from pyoco_server.http_client.script import ApiRequest, Emit, NextLine, Open, Script, Stream, ask

if TYPE_CHECKING:
    from pyoco_server.http_client.answers import RunAnswer, RunNumbersAnswer, RunPageAnswer

CANDIDATES_MAX = 10


def find_runs(id_prefix: str, *, limit: int = CANDIDATES_MAX) -> Script[list[RunAnswer]]:
    """The runs whose id begins with this text, by id. It needs four characters."""
    found = yield from ask(ApiRequest("GET", "/runs", {"id_prefix": id_prefix, "limit": limit}))
    # A gateway that does not know the parameter answers with a list of any runs.
    items = found["items"] if isinstance(found, dict) else []
    return [run for run in items if run["run_id"].startswith(id_prefix)]


def search_runs(
    *,
    q: str | None = None,
    status: str | None = None,
    flow: str | None = None,
    tag: str | None = None,
    limit: int | None = None,
    updated_after: float | None = None,
    cursor: str | None = None,
) -> Script[RunPageAnswer]:
    """`{"items", "next_cursor"}`: also by text in id, flow, tags, worker or error."""
    query = given(q=q, status=status, flow=flow, tag=tag, limit=limit, updated_after=updated_after)
    return ask(ApiRequest("GET", "/runs", query | {"cursor": cursor or ""}))


def run_stats() -> Script[RunNumbersAnswer]:
    """Numbers of runs by status."""
    return ask(ApiRequest("GET", "/runs/stats"))


def stream(topics: Sequence[str], *, timeout_sec: int = 600) -> Stream[Event]:
    """Events of several topics over one connection. An event has its topic as name, until the end.

    If the connection breaks, `httpx.TransportError` is raised.
    """
    query = {"topic": list(topics), "timeout_sec": timeout_sec}
    response: httpx.Response = yield Open(ApiRequest("GET", "/stream", query))
    response.raise_for_status()
    parser = EventParser()
    while (line := (yield NextLine())) is not None:
        if (event := parser.feed(line)) is not None:
            yield Emit(event)
