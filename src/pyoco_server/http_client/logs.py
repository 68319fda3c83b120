"""Calls of the HTTP client about the output of runs: one page, all lines, or all lines as they come."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import httpx

from pyoco_server.http_client.calls import (
    RECONNECT_SEC,
    RECONNECTS_MAX,
    events_in,
    given,
    object_in,
    open_stream,
)

PAGE_LINES = 5_000
NO_CONTENT = 204

# A search is sent again, at most this often, while the gateway refuses it because of too many searches.
TOO_MANY_REQUESTS = 429
SEARCH_TRIES_MAX = 20
RETRY_AFTER_SEC_MAX = 30.0

Entry = dict[str, Any]
# Called with the number of lines that are searched, and the number of lines in the log.
OnSearched = Callable[[int, int], None]


class LogCalls:
    """Part of `PyocoHttpClient`."""

    _http: httpx.Client

    def get_logs(
        self,
        run_id: str,
        *,
        since_token: str | None = None,
        limit: int | None = None,
        tail: int | None = None,
        q: str | None = None,
        regex: bool = False,
        task: str | None = None,
        since: float | None = None,
    ) -> dict[str, Any]:
        """`{"entries", "next_token", "complete", "truncated"}`: pass the token on for the next page.

        A search (`q`, `task`, `since`) also has `searched`: `{"to_line", "lines", "paused_by"}`.
        """
        query = given(since_token=since_token, limit=limit, tail=tail, q=q, task=task, since=since)
        query |= {"regex": "true"} if regex else {}
        return object_in(self._http.get(f"/runs/{quote(run_id, safe='')}/logs", params=query))

    def logs(
        self,
        run_id: str,
        *,
        tail: int | None = None,
        on_searched: OnSearched = lambda line, lines: None,
        **sought: Any,
    ) -> Iterator[Entry]:
        """All lines that exist now, or those that match (`q`, `regex`, `task`, `since`).

        The gateway searches for a limited time per request; requests follow until it has searched all lines.
        `on_searched` is called after each pause of a search.
        """
        for page in self._pages(run_id, tail, sought):
            yield from page["entries"]
            _report_pause(page, on_searched)

    def follow_logs(
        self,
        run_id: str,
        *,
        tail: int | None = None,
        on_searched: OnSearched = lambda line, lines: None,
        **sought: Any,
    ) -> Iterator[Entry]:
        """Every line until the last line of an ended run. Gateways may restart meanwhile."""
        token = None
        for page in self._pages(run_id, tail, sought):
            yield from page["entries"]
            _report_pause(page, on_searched)
            token = page["next_token"]
            if page["complete"]:
                return
        for entry in self._stream(run_id, token):
            if _matches(entry, **sought):
                yield entry

    def _pages(self, run_id: str, tail: int | None, sought: dict[str, Any]) -> Iterator[dict[str, Any]]:
        token = None
        while True:
            limit = tail or PAGE_LINES
            page = self._get_page(run_id, since_token=token, limit=limit, tail=tail, **sought)
            yield page
            if page["next_token"] == token or page["complete"]:
                return
            token, tail = page["next_token"], None

    def _get_page(self, run_id: str, **query: Any) -> dict[str, Any]:
        """Tries again while the gateway has too many searches."""
        for _ in range(SEARCH_TRIES_MAX - 1):
            try:
                return self.get_logs(run_id, **query)
            except httpx.HTTPStatusError as error:
                if error.response.status_code != TOO_MANY_REQUESTS:
                    raise
                time.sleep(_retry_after_sec(error.response))
        return self.get_logs(run_id, **query)

    def _stream(self, run_id: str, token: str | None) -> Iterator[Entry]:
        path = f"/runs/{quote(run_id, safe='')}/logs/stream"
        tries = RECONNECTS_MAX
        while True:
            try:
                with open_stream(self._http, path, last_id=token) as response:
                    if response.status_code == NO_CONTENT:
                        return
                    for event in events_in(response.iter_lines()):
                        tries = RECONNECTS_MAX
                        token = event.id or token
                        if event.name == "end":
                            return
                        if event.name == "logEntry":
                            yield event.data
            except httpx.TransportError:
                tries -= 1
                if not tries:
                    raise
                time.sleep(RECONNECT_SEC)


def _report_pause(page: dict[str, Any], on_searched: OnSearched) -> None:
    searched = page.get("searched")  # missing in answers of an older gateway
    if searched is not None and searched["paused_by"] is not None:
        on_searched(searched["to_line"], searched["lines"])


def _retry_after_sec(response: httpx.Response) -> float:
    value = response.headers.get("retry-after", "")
    return min(float(value), RETRY_AFTER_SEC_MAX) if value.isdecimal() else RECONNECT_SEC


def _matches(
    entry: Entry,
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
