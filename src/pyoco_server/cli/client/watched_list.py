"""`run list --watch`: the list on a terminal, redrawn when runs change; in a pipe one JSON line per change.

The changes come from the gateway's stream. After a lost connection the list is read again.
"""

from __future__ import annotations

import json
import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING

import httpx

from pyoco_server.cli.client.output import RUNS
from pyoco_server.cli.client.run_board import SHOWN_MAX, ListFilter, Run, RunBoard
from pyoco_server.cli.client.tables import console, table_lines
from pyoco_server.printable import json_text

if TYPE_CHECKING:
    from rich.console import RenderableType

    from pyoco_server.http_client import PyocoHttpClient

RECONNECT_SEC = 1.0
ONE_STREAM_SEC = 600
# Runs whose last printed state is known.
MARKS_MAX = 10_000
# The header, the note, and the line of the cursor.
SCREEN_LINES = 3
UNAVAILABLE = (429, 502, 503, 504)


def watch_list(client: PyocoHttpClient, wanted: ListFilter, limit: int | None, *, as_json: bool) -> None:
    """Until Ctrl-C. What fails at first is an error; what fails later is tried again."""
    board = RunBoard(wanted, limit or SHOWN_MAX)
    _read(client, board)
    shown = _Lines() if as_json else _Screen(board)
    with shown:
        shown.show(board.runs)
        while True:
            try:
                _follow(client, board, shown)
            except (httpx.TransportError, httpx.HTTPStatusError) as error:
                if isinstance(error, httpx.HTTPStatusError) and error.response.status_code not in UNAVAILABLE:
                    raise
                shown.is_away(True)
                time.sleep(RECONNECT_SEC)


def _follow(client: PyocoHttpClient, board: RunBoard, shown: _Lines | _Screen) -> None:
    is_first = True
    for event in client.stream(["runs"], timeout_sec=ONE_STREAM_SEC):
        news = event.data
        if is_first or news["event"] == "reset":
            _read(client, board)
            shown.is_away(False)
        if news["event"] in ("runs", "reset"):
            changed = board.apply(news["data"]["runs"], news["data"]["gone"])
            shown.show(board.runs if is_first else changed)
        is_first = False


def _read(client: PyocoHttpClient, board: RunBoard) -> None:
    wanted = board.wanted
    page = client.list_runs_vnext(
        status=wanted.status,
        flow=wanted.flow,
        tag=wanted.tag,
        q=wanted.search,
        updated_after=wanted.changed_after,
        limit=board.limit,
    )
    board.reset(page["items"])


class _Lines:
    """Each state of a run is one line, also if it was read twice."""

    def __init__(self) -> None:
        self._marks: dict[object, object] = {}

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(self, *error: object) -> None:
        """Nothing to restore."""

    def show(self, runs: list[Run]) -> None:
        for run in reversed(runs):
            mark = (run["status"], run["updated_at"])
            if self._marks.pop(run["run_id"], None) != mark:
                sys.stdout.write(json_text(json.dumps(run, ensure_ascii=False)) + "\n")
            self._marks[run["run_id"]] = mark
        while len(self._marks) > MARKS_MAX:
            del self._marks[next(iter(self._marks))]
        sys.stdout.flush()

    def is_away(self, away: bool) -> None:
        """Lines stay as they are."""


class _Screen:
    def __init__(self, board: RunBoard) -> None:
        from rich.live import Live

        self._board, self._note, self._console = board, "", console()
        self._live = Live(console=self._console, get_renderable=self._drawn, auto_refresh=False)

    def __enter__(self) -> None:
        self._live.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.__exit__(kind, error, trace)

    def show(self, runs: list[Run]) -> None:
        """The runs of the board, which has the changed ones."""
        self._live.refresh()

    def is_away(self, away: bool) -> None:
        self._note = "The gateway does not answer; trying again …" if away else ""
        self._live.refresh()

    def _drawn(self) -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        runs = self._board.runs[: max(1, self._console.height - SCREEN_LINES)]
        lines = table_lines(RUNS, runs, self._console.width) if runs else [Text("No run matches.")]
        return Group(*lines, Text(self._note, style="yellow"))
