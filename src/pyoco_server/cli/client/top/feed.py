"""Reads what the live view shows: one stream of the gateway, and lists when the stream says so.

A lost connection is made again, and everything is read again. The board says meanwhile why it stands still.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import httpx

from pyoco_server.cli.client.top.board import APPROVALS_MAX, RUNS_MAX, TopBoard
from pyoco_server.http_client import AsyncPyocoClient

ONE_STREAM_SEC = 600
RECONNECT_SEC, RECONNECT_SEC_MAX = 0.5, 5.0
BACKLOG_SEC = 2.0
# The caller may not read it, or the gateway is of a version that does not have it.
NOT_SHOWN = (401, 403, 404)


class GatewayFeed:
    """`on_change` is called after each change of the board."""

    def __init__(self, client: AsyncPyocoClient, board: TopBoard, on_change: Callable[[], None]) -> None:
        self._client, self._board, self._on_change = client, board, on_change

    async def follow(self) -> None:
        """Runs, workers and approvals, until it is cancelled."""
        pause_sec = RECONNECT_SEC
        while True:
            try:
                await self._follow_one_stream()
                pause_sec = RECONNECT_SEC
            except (httpx.HTTPError, ValueError) as error:
                pause_sec = min(pause_sec * 2, RECONNECT_SEC_MAX) if self._board.problem else RECONNECT_SEC
                self._problem(f"{_words_of(error)}, trying again")
            await asyncio.sleep(pause_sec)

    async def follow_backlog(self) -> None:
        """No stream has it. A caller that may not read it sees none."""
        while True:
            try:
                self._board.apply_tags(await self._client.list_worker_tags())
                self._on_change()
            except httpx.HTTPStatusError as error:
                if error.response.status_code in NOT_SHOWN:
                    return
            except (httpx.HTTPError, ValueError):
                pass  # the stream says so too
            await asyncio.sleep(BACKLOG_SEC)

    async def _follow_one_stream(self) -> None:
        """The lists are read after the first event, so that no change is lost between them."""
        is_read = False
        async for event in self._client.stream(["runs", "workers", "lists"], timeout_sec=ONE_STREAM_SEC):
            name, data = event.data["event"], event.data.get("data") or {}
            if not is_read or (event.name == "runs" and name == "reset"):
                await self._read_runs()
                await self._read_approvals()
                is_read = True
            match event.name:
                case "runs" if name in ("runs", "reset"):
                    self._board.apply_runs(data)
                case "workers" if name == "workers":
                    self._board.apply_workers(data)
                case "lists" if "approvals" in data.get("changed", ()):
                    await self._read_approvals()
            self._problem("")

    async def _read_runs(self) -> None:
        page = await self._client.list_runs_vnext(limit=RUNS_MAX)
        self._board.runs.reset(page["items"])

    async def _read_approvals(self) -> None:
        page = await self._client.list_approvals(limit=APPROVALS_MAX)
        self._board.approvals = list(page["items"])

    def _problem(self, problem: str) -> None:
        self._board.problem = problem
        self._on_change()


def _words_of(error: httpx.HTTPError | ValueError) -> str:
    if isinstance(error, httpx.HTTPStatusError):
        return f"HTTP {error.response.status_code}"
    return "no answer" if isinstance(error, httpx.TransportError) else "an answer that is not understood"
