"""Calls of the HTTP client about what runs print: a page, all there is, or everything as it comes."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import httpx

from pyoco_server.http_client.event_stream import events_in

PAGE_LINES = 5_000
NOTHING_MORE = 204
# A stream that breaks is taken up again where it broke, so often in a row.
RECONNECTS_MAX = 10
RECONNECT_SEC = 1.0

# A search that is refused because too many are under way is asked again, so often in a row.
TOO_MANY_REQUESTS = 429
ALLOWED_TRIES_MAX = 20
RETRY_AFTER_SEC_MAX = 30.0

Entry = dict[str, Any]
# Up to which line a search got, of how many.
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
        """`{"entries", "next_token", "complete", "truncated"}`: pass the token on for what comes after.

        Of a search (`q`, `task`, `since`) there is `searched` besides: `{"to_line", "lines", "paused_by"}`.
        """
        query = {
            "since_token": since_token,
            "limit": limit,
            "tail": tail,
            "q": q,
            "task": task,
            "since": since,
        }
        given = {name: value for name, value in query.items() if value is not None}
        if regex:
            given["regex"] = "true"
        answer = self._http.get(f"/runs/{quote(run_id, safe='')}/logs", params=given)
        answer.raise_for_status()
        page: dict[str, Any] = answer.json()
        return page

    def logs(
        self,
        run_id: str,
        *,
        tail: int | None = None,
        on_searched: OnSearched = lambda line, lines: None,
        **sought: Any,
    ) -> Iterator[Entry]:
        """Every line there is now, or those that are sought (`q`, `regex`, `task`, `since`).

        The gateway searches for a limited time at once; it is asked to go on until it has searched all.
        `on_searched` is told how far it got whenever it paused: up to which line, of how many.
        """
        for page in self._pages(run_id, tail, sought):
            yield from page["entries"]
            _tell(page, on_searched)

    def follow_logs(
        self,
        run_id: str,
        *,
        tail: int | None = None,
        on_searched: OnSearched = lambda line, lines: None,
        **sought: Any,
    ) -> Iterator[Entry]:
        """Every line, until the run is over and its last one was given. Gateways may come and go."""
        token = None
        for page in self._pages(run_id, tail, sought):
            yield from page["entries"]
            _tell(page, on_searched)
            token = page["next_token"]
            if page["complete"]:
                return
        for entry in self._stream(run_id, token):
            if _is_sought(entry, **sought):
                yield entry

    def _pages(self, run_id: str, tail: int | None, sought: dict[str, Any]) -> Iterator[dict[str, Any]]:
        token = None
        while True:
            limit = tail or PAGE_LINES
            page = self._page_when_allowed(run_id, since_token=token, limit=limit, tail=tail, **sought)
            yield page
            if page["next_token"] == token or page["complete"]:
                return
            token, tail = page["next_token"], None

    def _page_when_allowed(self, run_id: str, **asked: Any) -> dict[str, Any]:
        """Where too many searches are under way, once there are fewer."""
        for _ in range(ALLOWED_TRIES_MAX - 1):
            try:
                return self.get_logs(run_id, **asked)
            except httpx.HTTPStatusError as error:
                if error.response.status_code != TOO_MANY_REQUESTS:
                    raise
                time.sleep(_retry_after_sec(error.response))
        return self.get_logs(run_id, **asked)

    def _stream(self, run_id: str, token: str | None) -> Iterator[Entry]:
        path = f"/runs/{quote(run_id, safe='')}/logs/stream"
        tries = RECONNECTS_MAX
        while True:
            headers = {"Last-Event-ID": token} if token else {}
            try:
                with self._http.stream("GET", path, headers=headers) as answer:
                    if answer.is_error:
                        answer.read()  # the error shows the body
                    answer.raise_for_status()
                    if answer.status_code == NOTHING_MORE:
                        return
                    for event in events_in(answer.iter_lines()):
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


def _tell(page: dict[str, Any], on_searched: OnSearched) -> None:
    searched = page.get("searched")  # a gateway of an older version does not say
    if searched is not None and searched["paused_by"] is not None:
        on_searched(searched["to_line"], searched["lines"])


def _retry_after_sec(response: httpx.Response) -> float:
    said = response.headers.get("retry-after", "")
    return min(float(said), RETRY_AFTER_SEC_MAX) if said.isdecimal() else RECONNECT_SEC


def _is_sought(
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
