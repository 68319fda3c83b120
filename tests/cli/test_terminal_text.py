"""What the commands show to people: nothing that steers a terminal, in the language of the locale."""

from __future__ import annotations

import httpx
import pytest

from pyoco_server.texts import JAPANESE
from tests.cli.conftest import starter
from tests.cli.programs import Programs, Up, wait_for
from tests.cli.terminal import terminal

FLOWS = """
from pyoco.core.models import Flow, Task

def shouts(ctx):
    print("\\x1b[31mred\\x1b[0m \\x1b]0;PWNED\\x07 \\x1b[2J done")
    raise ValueError("no \\x1b]0;PWNED\\x07 [red]markup")

def resolve(name):
    flow = Flow(name=name)
    flow >> Task(func=shouts, name="shouts")
    return flow
"""


@pytest.fixture(scope="module")
def up(shared_programs: Programs) -> Up:
    (shared_programs.folder / "loud_flows.py").write_text(FLOWS)
    return starter(shared_programs)("--flow-resolver", "loud_flows.py:resolve")


@pytest.fixture(scope="module")
def run_id(up: Up) -> str:
    run_id: str = httpx.post(f"{up.url}/runs", json={"flow_name": "loud"}).json()["run_id"]
    wait_for(lambda: httpx.get(f"{up.url}/runs/{run_id}").json()["status"] == "FAILED", "its end")
    return run_id


def on_a_terminal(*command: str) -> str:
    """What a terminal gets of a command."""
    with terminal(*command, columns=160) as shown:
        shown.ended()
        return shown.said


def test_a_terminal_gets_the_colours_of_a_log_and_no_other_sequence(
    up: Up, run_id: str, programs: Programs
) -> None:
    shown = on_a_terminal("pyoco-client", "--server", up.url, "logs", run_id)
    assert "\x1b[31mred\x1b[0m \\x1b]0;PWNED\\x07 \\x1b[2J done\x1b[0m" in shown
    assert "\x1b]" not in shown
    piped = programs.run("pyoco-client", "--server", up.url, "logs", run_id)
    assert "\x1b]0;PWNED\x07" in piped.output


@pytest.mark.parametrize("arguments", [("get",), ("list",), ("watch",), ("get", "--output", "table")])
def test_no_answer_of_a_gateway_steers_a_terminal(up: Up, run_id: str, arguments: tuple[str, ...]) -> None:
    which = () if arguments[0] == "list" else (run_id,)
    shown = on_a_terminal("pyoco-client", "--server", up.url, arguments[0], *which, *arguments[1:])
    assert (run_id[:8] if arguments[0] == "list" else run_id) in shown  # a table on a terminal has short ids
    assert "\x1b]" not in shown
    assert "\x07" not in shown


@pytest.mark.parametrize("command", ["why RUN", "get RUN --records", "dlq list", "dlq get 1", "result RUN"])
def test_no_error_of_a_flow_steers_a_terminal(up: Up, run_id: str, command: str) -> None:
    shown = on_a_terminal("pyoco-client", "--server", up.url, *command.replace("RUN", run_id).split())
    assert "\\x1b]0;PWNED\\x07" in shown
    assert "\x1b]" not in shown
    assert "\x07" not in shown


@pytest.mark.parametrize("locale", [{"LC_ALL": "ja_JP.UTF-8"}, {"LANG": "ja_JP.UTF-8"}])
def test_a_japanese_locale_gets_the_messages_of_the_specification(
    programs: Programs, locale: dict[str, str]
) -> None:
    wrong = programs.run("pyoco-server", "--dashboard-lang", "fr", **locale)
    assert wrong.process.returncode == 1
    assert wrong.errors.splitlines()[0] == JAPANESE["MSG-PYOCO-0018"]
    assert "(ERR-PYOCO-0018)" in wrong.errors
    away = programs.run("pyoco-client", "--server", "http://127.0.0.1:9", "list", **locale)
    assert away.process.returncode == 1
    assert away.errors.splitlines()[0] == JAPANESE["MSG-PYOCO-0001"]


def test_any_other_locale_gets_english_that_begins_with_what_is_wrong(programs: Programs) -> None:
    wrong = programs.run("pyoco-server", "--dashboard-lang", "fr", LC_ALL="fr_FR.UTF-8")
    assert wrong.process.returncode == 1
    assert wrong.errors.startswith("error: --dashboard-lang is 'fr'; write")
    assert "(ERR-PYOCO-0018)" in wrong.errors
    assert "try:   --dashboard-lang auto" in wrong.errors
    level = programs.run("pyoco-worker", "--demo", "--log-level", "LOUD")
    assert level.process.returncode == 1
    assert "ERR-PYOCO-0018" in level.errors
