"""`pyoco-client top` as a person sees it: against a real `up`, with keys, and on a terminal of its own."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest
from textual.pilot import Pilot

from pyoco_server.cli.client.commands import top as command
from pyoco_server.cli.client.connection import Connection
from pyoco_server.cli.client.main import app as program
from pyoco_server.cli.client.top import app as top_app
from pyoco_server.cli.client.top.app import TopApp
from pyoco_server.cli.entry import exit_code
from pyoco_server.http_client import AsyncPyocoClient
from tests.cli.conftest import StartUp
from tests.cli.programs import DEADLINE_SEC, Programs, Up
from tests.cli.terminal import terminal
from tests.conftest import free_port

NARROW, WIDE = (80, 24), (140, 30)


@pytest.fixture(autouse=True)
def messages_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the screen, for longer than a test looks for them."""
    monkeypatch.setattr(TopApp, "NOTIFICATION_TIMEOUT", 4 * DEADLINE_SEC)
    monkeypatch.setattr(top_app, "LINK_SHOWN_SEC", 4 * DEADLINE_SEC)


class Screen:
    """What is on the screen, and keys."""

    def __init__(self, pilot: Pilot[int]) -> None:
        self.app, self._pilot = pilot.app, pilot

    @property
    def lines(self) -> list[str]:
        return [strip.text.rstrip() for strip in self.app.screen._compositor.render_strips()]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    async def shows(self, *words: str) -> None:
        await self.is_so(lambda: all(one in self.text for one in words), f"{words} on the screen")

    async def shows_run(self, run_id: str, status: str) -> None:
        def is_shown() -> bool:
            return any(run_id[:8] in line and status in line for line in self.lines)

        await self.is_so(is_shown, f"{run_id} {status}")

    async def is_so(self, condition: Callable[[], object], what: str) -> None:
        give_up_at = time.monotonic() + DEADLINE_SEC
        while not condition():
            assert time.monotonic() < give_up_at, f"{what} did not come:\n{self.text}"
            await asyncio.sleep(0.02)

    async def press(self, key: str) -> None:
        await self._pilot.press(key)

    async def selects(self, run_id: str) -> None:
        """Moves the cursor down to the run, which another one may push away meanwhile."""
        assert isinstance(self.app, TopApp)
        give_up_at = time.monotonic() + DEADLINE_SEC
        await self.shows(run_id[:8])
        while self.app._selected() != run_id:
            assert time.monotonic() < give_up_at, self.text
            listed = [str(run["run_id"]) for run in self.app.board.listed_runs]
            selected = self.app._selected()
            is_above = selected in listed and listed.index(run_id) < listed.index(selected)
            await self.press("up" if is_above else "down")


def seen(url: str, size: tuple[int, int] = WIDE) -> AbstractAsyncContextManager[Pilot[int]]:
    return TopApp(Connection(url, "of the test")).run_test(size=size, notifications=True)


async def submit(up: Up, flow: str, tag: str = "demo") -> str:
    async with AsyncPyocoClient(up.url) as client:
        return str((await client.submit_run(flow, {}, tag))["run_id"])


async def test_runs_workers_and_the_backlog_are_live(shared_up: Up) -> None:
    async with seen(shared_up.url) as pilot:
        screen = Screen(pilot)
        await screen.shows("live", "shown: all", "BACKLOG BY TAG", "IDLE")
        run_id = await submit(shared_up, "hello")
        await screen.shows_run(run_id, "COMPLETED")
        assert " COMPLETED 0 " not in screen.text
        await submit(shared_up, "hello", "a-queue")
        await screen.shows("     1  a-queue")
        await screen.is_so(lambda: " PENDING 0 " not in screen.text, "the number of PENDING")


async def test_a_run_is_cancelled_after_a_question(shared_up: Up) -> None:
    run_id = await submit(shared_up, "hello", "unserved")
    question = f"Cancel run {run_id[:8]} of hello?"
    async with seen(shared_up.url) as pilot, AsyncPyocoClient(shared_up.url) as client:
        screen = Screen(pilot)
        await screen.selects(run_id)
        await screen.press("c")
        await screen.shows(question, "y: yes")
        await screen.press("n")
        await screen.is_so(lambda: question not in screen.text, "the end of the question")
        assert (await client.get_run(run_id))["status"] == "PENDING"
        await screen.press("c")
        await screen.shows(question)
        await screen.press("y")
        await screen.shows(f"Asked to stop: {run_id[:8]}")
        await screen.shows_run(run_id, "CANCELLED")
        await screen.press("c")
        await screen.shows("Select a run that has not ended.")


async def test_an_approval_is_answered_after_its_question(shared_up: Up) -> None:
    run_id = await submit(shared_up, "release")
    async with seen(shared_up.url) as pilot:
        screen = Screen(pilot)
        await screen.shows("Deploy it?")
        await screen.selects(run_id)
        await screen.press("a")
        await screen.shows(f"Approve task approve of {run_id[:8]}? Deploy it?")
        await screen.press("y")
        await screen.shows("Answered: approve approve")
        await screen.shows_run(run_id, "COMPLETED")
        await screen.press("a")
        await screen.shows("Select a run that waits for an answer.")


async def test_a_change_while_the_view_ends_is_not_drawn(shared_up: Up) -> None:
    """Its parts are removed one by one, and its timer last."""
    async with seen(shared_up.url) as pilot:
        await Screen(pilot).shows("live")
        assert isinstance(pilot.app, TopApp)
        await pilot.app.query_one("#head").remove()
        pilot.app._on_change()
        pilot.app._draw_changes()


async def test_a_run_is_opened_in_the_browser(shared_up: Up, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(top_app, "open_browser", opened.append)
    run_id = await submit(shared_up, "hello")
    async with seen(shared_up.url, NARROW) as pilot:
        screen = Screen(pilot)
        await screen.selects(run_id)
        await screen.press("o")
        link = f"{shared_up.url}/#/runs/{run_id}"
        await screen.shows("Dashboard", link)
        await screen.is_so(lambda: opened == [link], "the browser")


async def test_a_lost_gateway_is_shown_until_it_is_back(start_up: StartUp) -> None:
    up = start_up("--no-worker")
    port = up.url.rpartition(":")[2]
    run_id = await submit(up, "hello")
    async with seen(up.url, NARROW) as pilot:
        screen = Screen(pilot)
        await screen.shows("live", run_id[:8])
        up.program.send(signal.SIGINT)
        await screen.shows("no answer, trying again …", run_id[:8])
        await asyncio.to_thread(up.program.ended)
        await asyncio.to_thread(start_up, "--no-worker", "--port", port, data_dir=up.data_dir)
        await screen.shows("live")
        again = await submit(up, "hello")
        await screen.shows(run_id[:8], again[:8])


HOSTILE = {
    "run_id": "hostile-run",
    "flow_name": "[red]f[/red]\x1b[2J",
    "status": "FAILED",
    "tag": "[b]\u202e",
    "updated_at": 1.0,
    "worker_id": "[link]\x07",
    "error": "[/] broken\r\n\x9b2J",
}


async def test_texts_of_callers_are_shown_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(top_app, "open_browser", opened.append)
    async with seen(f"http://127.0.0.1:{free_port()}") as pilot:
        screen, app = Screen(pilot), pilot.app
        assert isinstance(app, TopApp)
        app.board.apply_runs({"runs": [HOSTILE, {**HOSTILE, "run_id": "other", "status": "PENDING"}]})
        app.board.apply_workers({"all": True, "workers": [{"worker_id": "[i]w\x1b", "state": "IDLE"}]})
        app.board.apply_tags([{"tag": "[u]t\x1b", "backlog": 1000, "backlog_is_more": True}])
        app._on_change()
        await screen.shows(r"[red]f[/red]\x1b[2J", r"[b]\u202e", r"[link]\x07", r"[/] broken\r\n\x9b2J")
        await screen.shows(r"[i]w\x1b", r" 1000+  [u]t\x1b")
        await screen.selects("other")
        await screen.press("c")
        await screen.shows(r"Cancel run other of [red]f[/red]\x1b[2J?")
        assert all(line.isprintable() for line in screen.lines)


async def test_eighty_columns_are_enough() -> None:
    many = dict.fromkeys(("PENDING", "RUNNING", "CANCELLING", "COMPLETED", "FAILED", "CANCELLED"), 1234)
    run = {
        "flow_name": "a-flow-with-a-very-long-name",
        "status": "RUNNING",
        "waiting_for": {},
        "tag": "x" * 60,
    }
    async with seen(f"http://127.0.0.1:{free_port()}", NARROW) as pilot:
        screen, app = Screen(pilot), pilot.app
        assert isinstance(app, TopApp)
        runs = [{**run, "run_id": f"run-{number}", "updated_at": number} for number in range(50)]
        app.board.apply_runs({"runs": runs, "counts": many, "waiting": 50})
        app._on_change()
        await screen.shows("no run waits for a")  # the rest is on the next line
        await screen.shows("run-49", "a-flow-with-a-very-long…", "RUNNING", "CHANGED", "WAITS FOR")
        await screen.shows(*(f"{name} 1234" for name in many), "waiting 50", "no answer, trying again …")
        await screen.shows("o Open", "c Cancel", "a Approve", "r Reject", "f Filter", "q Quit")
        for shown in ("active", "waiting", "failed"):
            await screen.press("f")
            await screen.shows(f"shown: {shown}")
        assert "run-49" not in screen.text
        await screen.press("q")
    assert app.return_value == 0


def test_ctrl_c_leaves_the_terminal_as_it_was(shared_up: Up) -> None:
    with terminal("pyoco-client", "top", columns=80, rows=24, PYOCO_SERVER=shared_up.url) as shown:
        shown.shows("live")
        assert not shown.echoes
        shown.type("\x03")
        assert shown.ended() == 130
        assert shown.echoes
        for on, off in (
            ("\x1b[?1049h", "\x1b[?1049l"),
            ("\x1b[?25l", "\x1b[?25h"),
            ("\x1b[?1000h", "\x1b[?1000l"),
        ):
            assert shown.said.rfind(off) > shown.said.rfind(on) > -1
        assert "Traceback" not in shown.said


def test_no_gateway_is_an_error_before_the_screen_opens(programs: Programs) -> None:
    with terminal("pyoco-client", "top", PYOCO_SERVER=f"http://127.0.0.1:{free_port()}") as shown:
        assert shown.ended() == 1
        assert "error: No gateway answers at" in shown.text
        assert "\x1b[?1049h" not in shown.said


def test_without_a_terminal_another_command_is_named(programs: Programs) -> None:
    refused = programs.run("pyoco-client", "top")
    assert refused.ended() == 1
    assert "try:   pyoco-client run list --watch" in refused.errors


def test_without_the_package_the_command_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "find_spec", lambda name: None)
    assert exit_code(program, "pyoco-client", ["top"]) == 1
    assert "pip install 'pyoco-server[top]'" in capsys.readouterr().err
