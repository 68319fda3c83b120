"""The names of the commands: each older name does what the new one does, help knows them."""

from __future__ import annotations

import re
import subprocess

import pytest
import typer
from typer.core import TyperGroup

from pyoco_server.cli.client.grammar import GROUPS, ROWS, CommandRow
from pyoco_server.cli.client.main import app
from tests.cli.programs import BIN, Programs, Up

# What programs and people have typed so far.
OLDER = {
    *("submit", "submit-yaml", "get", "tasks", "list", "cancel", "list-vnext", "watch", "result", "retry"),
    *("logs", "approvals", "approve", "reject", "workers", "worker-hide", "worker-drain", "worker-resume"),
    *("metrics", "wheels", "wheel-history", "wheel-upload", "wheel-download", "wheel-delete", "dlq list"),
    *("dlq get", "dlq redrive", "schedule add", "schedule delete", "schedule list", "schedule runs"),
    *("schedule-yaml", "schedule-delete", "schedules", "schedule-runs", "config set", "config list"),
    *("config use", "config remove", "config path", "mcp"),
}


def commands(group: TyperGroup, before: str = "") -> dict[str, object]:
    found: dict[str, object] = {}
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            found |= commands(command, f"{before}{name} ")
        else:
            found[before + name] = command
    return found


def program() -> TyperGroup:
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    return group


def test_every_name_of_earlier_versions_still_works() -> None:
    assert OLDER - commands(program()).keys() == set()


def test_every_command_is_a_verb_of_a_noun_or_stands_alone() -> None:
    nouns = {group.name for group in GROUPS}
    assert {row.name.split()[0] for row in ROWS if " " in row.name} == nouns
    assert {row.name for row in ROWS if " " not in row.name} <= {"top", "metrics", "mcp", "completion"}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_example_of_a_command_uses_its_name_and_its_options(row: CommandRow) -> None:
    command = commands(program())[row.name]
    options = {name for one in command.params for name in (*one.opts, *one.secondary_opts)}  # type: ignore[attr-defined]
    for example in row.example.split("; "):
        assert f"pyoco-client {row.name}" in example
        assert {word for word in example.split() if word.startswith("--")} <= options


def test_help_has_groups_and_short_forms_and_no_older_name(programs: Programs) -> None:
    said = programs.run("pyoco-client", "--help").output
    assert [group.name for group in GROUPS if f"\n  {group.name} " not in said] == []
    assert "submit, list, get, watch, logs, result, why, open, cancel, retry" in " ".join(said.split())
    assert "worker-drain" not in said


def test_a_mistyped_command_gets_the_nearest_one(programs: Programs) -> None:
    wrong = programs.run("pyoco-client", "worker", "drian")
    assert wrong.ended() == 1
    assert wrong.errors.startswith("error: No such command 'drian'. Did you mean 'drain'?")
    assert "try:   pyoco-client worker list" in wrong.errors


def test_what_help_needs_is_imported_and_no_more() -> None:
    """An HTTP client and the drawing of tables take longer than the rest."""
    check = "import sys, pyoco_server.cli.client.main; print(*sys.modules)"
    done = subprocess.run([BIN / "python", "-c", check], capture_output=True, text=True, check=True)
    late = {"httpx", "rich.table", "rich.live", "textual", "asyncio", "webbrowser", "mcp", "nats", "yaml"}
    assert late & set(done.stdout.split()) == set()


@pytest.mark.parametrize("name", ["pyoco-client", "pyoco-server", "pyoco-server-admin", "pyoco-worker"])
def test_help_names_values_by_what_they_mean(programs: Programs, name: str) -> None:
    """Not by the types of Python, and with one pair of brackets."""
    commands: dict[str, list[tuple[str, ...]]] = {
        "pyoco-client": [("run", "submit"), ("run", "cancel"), ("schedule", "add"), ("config", "set")],
        "pyoco-server": [("up",)],
        "pyoco-server-admin": [("api-key", "create"), ("doctor",)],
    }
    for command in ((), *commands.get(name, ())):
        said = programs.run(name, *command, "--help").output
        options = said.partition("Options:")[2]
        assert re.findall(r"<(?:str|int|float|path|list)[^>]*>", options) == []
        assert "[[" not in said


def test_an_unknown_id_is_answered_with_the_command_that_lists(shared_up: Up, programs: Programs) -> None:
    for noun, verb in (("run", "get"), ("schedule", "run")):
        refused = programs.run("pyoco-client", noun, verb, "zzzz", PYOCO_SERVER=shared_up.url)
        assert refused.ended() == 1
        assert "GET /" not in refused.errors
        assert f"try:   pyoco-client {noun} list\n" in refused.errors
