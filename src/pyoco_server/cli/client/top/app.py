"""The screen of the live view, with Textual: tables of runs and workers, a line of numbers, and keys.

Owns what keys do. Texts of callers are shown as plain text, without control characters and markup.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable
from contextlib import suppress
from typing import ClassVar

import httpx
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.css.query import NoMatches
from textual.notifications import SeverityLevel
from textual.widgets import DataTable, Footer, Static

from pyoco_server.cli.client.browser import open_browser
from pyoco_server.cli.client.commands.approvals import question
from pyoco_server.cli.client.commands.workers import worker_runs, worker_slots, worker_state
from pyoco_server.cli.client.connection import Connection
from pyoco_server.cli.client.gateway import RETRY_POLICY, gateway_client, refusal_of
from pyoco_server.cli.client.ids import short_id
from pyoco_server.cli.client.output import run_status
from pyoco_server.cli.client.tables import COLOURS, instant, words_of
from pyoco_server.cli.client.top.board import FINISHED, STATUSES, Item, TopBoard
from pyoco_server.cli.client.top.feed import GatewayFeed
from pyoco_server.cli.client.top.questions import Question
from pyoco_server.cli.entry import INTERRUPTED
from pyoco_server.http_client import AsyncPyocoClient
from pyoco_server.printable import one_line

DRAWN_EVERY_SEC = 0.25
# The last ones are beyond the edge of a narrow terminal; the arrow keys show them.
RUN_COLUMNS = ("RUN", "FLOW", "STATUS", "CHANGED", "WAITS FOR / ERROR", "TAG", "WORKER")
WORKER_COLUMNS = ("WORKER", "STATE", "BUSY", "TAGS", "RUNS", "SEEN")
CELL_MAX = 40
FLOW_MAX = 24
LINK_SHOWN_SEC = 20


class TopApp(App[int]):
    """Returns the exit code."""

    CSS = """
    #head { height: 1; background: $panel; }
    #numbers { height: auto; max-height: 2; }
    #runs { height: 2fr; }
    #workers { height: 1fr; border-top: solid $primary; }
    #backlog { width: 28; height: 1fr; border-top: solid $primary; padding: 0 1; }
    Toast { width: 78; max-width: 100%; }
    #lower { height: 1fr; min-height: 4; }
    """
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("o", "open", "Open"),
        Binding("c", "cancel", "Cancel"),
        Binding("a", "approve", "Approve"),
        Binding("r", "reject", "Reject"),
        Binding("f", "filter", "Filter"),
        Binding("q", "leave", "Quit"),
        Binding("ctrl+c", "interrupt", "", show=False, priority=True),
    ]

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self.board = TopBoard()
        self._connection = connection
        self._server = connection.server.rstrip("/")
        self._client = AsyncPyocoClient(
            connection.server,
            api_key=connection.api_key,
            api_key_header=connection.api_key_header,
            retry_policy=RETRY_POLICY,
        )
        self._is_changed = True

    def compose(self) -> ComposeResult:
        yield Static(id="head")
        yield Static(id="numbers")
        yield DataTable[Text](id="runs", cursor_type="row", zebra_stripes=True)
        with Horizontal(id="lower"):
            yield DataTable[Text](id="workers", cursor_type="none")
            yield Static(id="backlog")
        yield Footer()

    async def on_mount(self) -> None:
        self._table("runs").add_columns(*RUN_COLUMNS)
        self._table("workers").add_columns(*WORKER_COLUMNS)
        self._table("runs").focus()
        for sig in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(sig, self.exit, INTERRUPTED)
        feed = GatewayFeed(self._client, self.board, self._on_change)
        self.run_worker(feed.follow())
        self.run_worker(feed.follow_backlog())
        self.set_interval(DRAWN_EVERY_SEC, self._draw_changes)
        self._draw()

    def on_resize(self) -> None:
        self._on_change()

    async def on_unmount(self) -> None:
        await self._client.close()

    # Keys

    def action_leave(self) -> None:
        self.exit(0)

    def action_interrupt(self) -> None:
        self.exit(INTERRUPTED)

    def action_filter(self) -> None:
        self.board.shown = self.board.shown.next
        self._draw()

    def action_open(self) -> None:
        run_id = self._selected()
        if run_id is not None:
            link = f"{self._server}/#/runs/{run_id}"
            self.notify(link, title="Dashboard", markup=False, timeout=LINK_SHOWN_SEC)
            self.run_worker(asyncio.to_thread(open_browser, link))  # some browsers return when they end

    def action_cancel(self) -> None:
        run = self._run(self._selected())
        if run is None or run.get("status") in FINISHED:
            self._say("Select a run that has not ended.")
            return
        run_id = str(run["run_id"])
        asked = f"Cancel run {short_id(run_id)} of {one_line(words_of(run.get('flow_name')))}?"
        self.push_screen(Question(asked), lambda is_yes: self._cancel(run_id) if is_yes else None)

    def action_approve(self) -> None:
        self._answer("approve")

    def action_reject(self) -> None:
        self._answer("reject")

    def _answer(self, decision: str) -> None:
        run_id = self._selected()
        approval = self.board.approval_of(run_id) if run_id else None
        if run_id is None or approval is None:
            self._say("Select a run that waits for an answer.")
            return
        task, key = str(approval["task"]), str(approval["wait_key"])
        asked = one_line(f"{decision.capitalize()} task {task} of {short_id(run_id)}? {question(approval)}")

        def send(is_yes: bool | None) -> None:
            if is_yes:
                self._do(
                    self._client.resume_task(run_id, task, wait_key=key, decision=decision),
                    f"Answered: {decision} {task}",
                )

        self.push_screen(Question(asked), send)

    def _cancel(self, run_id: str) -> None:
        self._do(self._client.cancel_run(run_id), f"Asked to stop: {short_id(run_id)}")

    def _do(self, request: Awaitable[object], done: str) -> None:
        async def act() -> None:
            try:
                await request
            except httpx.HTTPError as error:
                self._say(refusal_of(error, self._connection).message, severity="error")
            else:
                self._say(done)

        self.run_worker(act())

    def _say(self, words: str, *, severity: SeverityLevel = "information") -> None:
        self.notify(one_line(words), severity=severity, markup=False)

    # Drawing

    def _on_change(self) -> None:
        self._is_changed = True

    def _draw_changes(self) -> None:
        """Changes come more often than a person can read them."""
        if self._is_changed and len(self.screen_stack) == 1:
            self._is_changed = False
            with suppress(NoMatches):  # the view ends: its parts are removed before this timer is
                self._draw()

    def _draw(self) -> None:
        self.query_one("#head", Static).update(self._head())
        self.query_one("#numbers", Static).update(self._numbers())
        _fill(
            self._table("runs"),
            {str(run["run_id"]): _run_cells(self.board, run) for run in self.board.listed_runs},
        )
        workers = {str(one["worker_id"]): _worker_cells(one) for one in self.board.live_workers}
        _fill(self._table("workers"), workers)
        self.query_one("#backlog", Static).update(self._backlog())

    def _head(self) -> Text:
        """The address is last: it may be long."""
        head = Text(" ")
        if self.board.problem:
            head.append(f"{self.board.problem} …", style="bold red")
        else:
            head.append("live", style="bold green")
        return head.append(f"  shown: {self.board.shown}  ").append(one_line(self._server), style="dim")

    def _numbers(self) -> Text:
        """On two lines, if they do not fit one. A name and its number stay together."""
        numbers = [(status, self.board.counts.get(status, 0)) for status in STATUSES]
        shown, wide = Text(" "), 1
        for name, count in [*numbers, ("waiting", self.board.waiting)]:
            words = f"{name} {count}"
            if wide + len(words) > self.size.width:
                shown, wide = shown.append("\n "), 1
            shown.append(words, style=COLOURS.get(name, "") if count else "dim").append("  ")
            wide += len(words) + 2
        return shown

    def _backlog(self) -> Text:
        lines = [f"{_tag_backlog(tag):>6}  {one_line(words_of(tag.get('tag')))}" for tag in self.board.tags]
        return Text("\n".join(["BACKLOG BY TAG", *(lines or ["no run waits for a worker"])]))

    def _table(self, name: str) -> DataTable[Text]:
        return self.query_one(f"#{name}", DataTable)

    def _selected(self) -> str | None:
        table = self._table("runs")
        if not table.row_count:
            return None
        return table.coordinate_to_cell_key(table.cursor_coordinate).row_key.value

    def _run(self, run_id: str | None) -> Item | None:
        return next((run for run in self.board.runs.runs if run["run_id"] == run_id), None)


def watch_gateway(connection: Connection) -> int:
    """Until a key ends it. That no gateway answers, or refuses the key, is said before the screen opens."""
    with gateway_client(connection) as client:
        client.list_runs(limit=1)
    return TopApp(connection).run() or 0


def _fill(table: DataTable[Text], rows: dict[str, tuple[Text, ...]]) -> None:
    """The cursor stays on its run, also if that moves."""
    selected = None
    if table.row_count:
        selected = table.coordinate_to_cell_key(table.cursor_coordinate).row_key.value
    left, top = table.scroll_offset
    table.clear()
    for key, cells in rows.items():
        table.add_row(*cells, key=key)
    if selected in rows:
        table.move_cursor(row=list(rows).index(selected), scroll=False)
    table.scroll_to(left, top, animate=False)


def _run_cells(board: TopBoard, run: Item) -> tuple[Text, ...]:
    approval = board.approval_of(str(run["run_id"]))
    note = question(approval) if approval else words_of(run.get("waiting_for") or run.get("error"))
    return (
        _cell(short_id(str(run["run_id"]))),
        _cell(run.get("flow_name"), FLOW_MAX),
        _cell(run_status(run)),
        _cell(instant(run.get("updated_at"))),
        _cell(note),
        _cell(run.get("tag")),
        _cell(run.get("worker_id")),
    )


def _worker_cells(worker: Item) -> tuple[Text, ...]:
    runs = ", ".join(short_id(one) for one in worker_runs(worker).split(", "))
    return (
        _cell(worker.get("worker_id")),
        _cell(worker_state(worker)),
        _cell(worker_slots(worker)),
        _cell(worker.get("tags")),
        _cell(runs),
        _cell(instant(worker.get("last_seen_at"))),
    )


def _tag_backlog(tag: Item) -> str:
    return f"{tag['backlog']}+" if tag.get("backlog_is_more") else f"{tag['backlog']}"


def _cell(value: object, longest: int = CELL_MAX) -> Text:
    words = one_line(words_of(value))
    cell = Text(words, style=COLOURS.get(words.split(",")[0], ""), no_wrap=True)
    cell.truncate(longest, overflow="ellipsis")
    return cell
