"""Calls about the output of runs: one page, all lines, or all lines as they come."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from pyoco_server.http_client.calls import given, path_of
from pyoco_server.http_client.script import (
    RECONNECTS_MAX,
    ApiRequest,
    Emit,
    Pause,
    PolicyOf,
    ResumingStream,
    Script,
    Step,
    Stream,
    ask,
    send,
)

if TYPE_CHECKING:
    from pyoco_server.http_client.answers import LogLineAnswer, LogPageAnswer

PAGE_LINES = 5_000

# A search is sent again, at most this often, while the gateway refuses it because of too many searches.
SEARCH_TRIES_MAX = 20


class SoughtLines(TypedDict, total=False):
    """Which lines are sought: those that have all of these."""

    q: str | None
    regex: bool
    task: str | None
    since: float | None


# Called with the number of lines that are searched, and the number of lines in the log.
OnSearched = Callable[[int, int], None]


def get_logs(
    run_id: str,
    *,
    since_token: str | None = None,
    limit: int | None = None,
    tail: int | None = None,
    q: str | None = None,
    regex: bool = False,
    task: str | None = None,
    since: float | None = None,
) -> Script[LogPageAnswer]:
    """`{"entries", "next_token", "complete", "truncated"}`: pass the token on for the next page.

    A search (`q`, `task`, `since`) also has `searched`: `{"to_line", "lines", "paused_by"}`.
    """
    query = given(since_token=since_token, limit=limit, tail=tail, q=q, task=task, since=since)
    return ask(_page_request(run_id, query, regex))


def logs(
    run_id: str,
    *,
    tail: int | None = None,
    on_searched: OnSearched = lambda line, lines: None,
    **sought: Unpack[SoughtLines],
) -> Stream[LogLineAnswer]:
    """All lines that exist now, or those that match (`q`, `regex`, `task`, `since`).

    The gateway searches for a limited time per request; requests follow until it has searched all lines.
    `on_searched` is called after each pause of a search.
    """
    yield from _stored(run_id, tail, on_searched, sought)


def follow_logs(
    run_id: str,
    *,
    tail: int | None = None,
    on_searched: OnSearched = lambda line, lines: None,
    **sought: Unpack[SoughtLines],
) -> Stream[LogLineAnswer]:
    """Every line until the last line of an ended run. Gateways may restart meanwhile."""
    token, is_complete = yield from _stored(run_id, tail, on_searched, sought)
    if not is_complete:
        yield from _live(run_id, token, sought)


def lines(
    run_id: str,
    *,
    follow: bool = False,
    tail: int | None = None,
    q: str | None = None,
    regex: bool = False,
    task: str | None = None,
    since: float | None = None,
) -> Stream[LogLineAnswer]:
    """The lines of the run, or those that match; with `follow` every line until the last line of the
    ended run.

    A stream that breaks is opened again after the last line that was read: no line is missing or
    repeated.
    """
    sought: SoughtLines = {"q": q, "task": task, "since": since, "regex": regex}
    read = follow_logs if follow else logs
    return read(run_id, tail=tail, **sought)


def _stored(
    run_id: str, tail: int | None, on_searched: OnSearched, sought: SoughtLines
) -> Generator[Step | Emit[LogLineAnswer], Any, tuple[str | None, bool]]:
    """Emit what is stored. Returns the position after it, and whether the log ends there."""
    token: str | None = None
    while True:
        query = given(since_token=token, limit=tail or PAGE_LINES, tail=tail)
        query |= given(q=sought.get("q"), task=sought.get("task"), since=sought.get("since"))
        request = _page_request(run_id, query, bool(sought.get("regex")))
        response = yield from send(request, tries_max=SEARCH_TRIES_MAX)
        page: LogPageAnswer = response.raise_for_status().json()
        for entry in page["entries"]:
            yield Emit(entry)
        _report_pause(page, on_searched)
        is_last = page["next_token"] == token or page["complete"]
        token, tail = page["next_token"], None
        if is_last:
            return token, page["complete"]


def _live(run_id: str, token: str | None, sought: SoughtLines) -> Stream[LogLineAnswer]:
    stream = ResumingStream(lambda: ApiRequest("GET", path_of("runs", run_id, "logs", "stream")), token)
    empty_streams = 0
    while True:
        before = stream.last_id
        while (event := (yield from stream.next())) is not None:
            if event.name == "end":
                return
            if event.name == "logEntry" and _matches(event.data, **sought):
                yield Emit(event.data)
        if stream.is_finished:
            return
        # The connection ended in order, but the log did not: a proxy, or a gateway that stops.
        empty_streams = empty_streams + 1 if stream.last_id == before else 0
        if empty_streams > RECONNECTS_MAX:
            raise ConnectionError(
                f"The stream of the log of run {run_id} ends again and again without a line."
            )
        if empty_streams:
            policy = yield PolicyOf()
            yield Pause(policy.backoff(empty_streams))


def _page_request(run_id: str, query: dict[str, object], regex: bool) -> ApiRequest:
    query |= {"regex": "true"} if regex else {}
    return ApiRequest("GET", path_of("runs", run_id, "logs"), query)


def _report_pause(page: LogPageAnswer, on_searched: OnSearched) -> None:
    searched = page.get("searched")  # missing in answers of an older gateway
    if searched is not None and searched["paused_by"] is not None:
        on_searched(searched["to_line"], searched["lines"])


def _matches(
    entry: LogLineAnswer,
    q: str | None = None,
    regex: bool = False,
    task: str | None = None,
    since: float | None = None,
) -> bool:
    if task is not None and entry.get("task") != task:
        return False
    if since is not None and _instant(entry["timestamp"]) < since:
        return False
    if q is None:
        return True
    return re.search(q, entry["message"]) is not None if regex else q in entry["message"]


def _instant(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()
