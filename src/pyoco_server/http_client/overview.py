"""Calls of the HTTP client about many runs: short ids, searches, flows, reasons, the live stream."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any
from urllib.parse import quote

import httpx

from pyoco_server.http_client.calls import Event, answer, events_in, given, list_in, object_in, open_stream

CANDIDATES_MAX = 10


class OverviewCalls:
    """Part of `PyocoHttpClient`."""

    _http: httpx.Client

    def find_runs(self, id_prefix: str, *, limit: int = CANDIDATES_MAX) -> list[dict[str, Any]]:
        """The runs whose id begins with this text, by id. It needs four characters."""
        found = answer(self._http.get("/runs", params={"id_prefix": id_prefix, "limit": limit}))
        # A gateway that does not know the parameter answers with a list of any runs.
        items = found["items"] if isinstance(found, dict) else []
        return [run for run in items if run["run_id"].startswith(id_prefix)]

    def search_runs(
        self,
        *,
        q: str | None = None,
        status: str | None = None,
        flow: str | None = None,
        tag: str | None = None,
        limit: int | None = None,
        updated_after: float | None = None,
        cursor: str | None = None,
    ) -> dict[str, Any]:
        """`{"items", "next_cursor"}`: also by text in id, flow, tags, worker or error."""
        query = given(q=q, status=status, flow=flow, tag=tag, limit=limit, updated_after=updated_after)
        return object_in(self._http.get("/runs", params=query | {"cursor": cursor or ""}))

    def list_flows(self) -> list[dict[str, Any]]:
        """The known flows, by name, with how their runs went."""
        return list_in(self._http.get("/flows"))

    def why(self, run_id: str) -> dict[str, Any]:
        """Why the run does not make progress, or how it ended."""
        return object_in(self._http.get(f"/executions/{quote(run_id, safe='')}/why"))

    def run_stats(self) -> dict[str, Any]:
        """Numbers of runs by status."""
        return object_in(self._http.get("/runs/stats"))

    def stream(self, topics: Sequence[str], *, timeout_sec: int = 600) -> Generator[Event, None, None]:
        """Events of several topics over one connection. An event has its topic as name, until the end."""
        query = {"topic": list(topics), "timeout_sec": timeout_sec}
        with open_stream(self._http, "/stream", query) as response:
            yield from events_in(response.iter_lines())
