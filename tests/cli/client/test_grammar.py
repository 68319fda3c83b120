"""The names of the commands: each older name does what the new one does, help and completion know them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup

from pyoco_server.cli.client.commands.completion import SCRIPTS, Shell
from pyoco_server.cli.client.grammar import GROUPS, ROWS, CommandRow
from pyoco_server.cli.client.main import app
from tests.cli.programs import BIN, Programs, clean_environment

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


def test_completion_prints_a_script_for_each_shell(programs: Programs) -> None:
    for shell in Shell:
        assert programs.run("pyoco-client", "completion", shell).output == SCRIPTS[shell]
    assert programs.run("pyoco-client", "completion", "tcsh").ended() == 1


TYPED = {
    "pyoco-client work": "worker",
    "pyoco-client worker dr": "drain",
    "pyoco-client run list --sea": "--search",
    "pyoco-client cancel --dr": "--dry-run",
}


@pytest.mark.parametrize(("line", "expected"), TYPED.items())
def test_bash_completes_commands_and_options(line: str, expected: str, tmp_path: Path) -> None:
    words = " ".join(f"'{word}'" for word in line.split())
    script = f"""
        eval "$(pyoco-client completion bash)"
        COMP_WORDS=({words}); COMP_CWORD={len(line.split()) - 1}
        _pyoco_client_completion pyoco-client
        printf '%s\\n' "${{COMPREPLY[@]}}"
        complete -p pyoco-client
    """
    done = in_shell("bash", script, tmp_path)
    assert expected in done.stdout.splitlines(), done.stderr
    assert "-F _pyoco_client_completion pyoco-client" in done.stdout


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_accepts_its_script(tmp_path: Path) -> None:
    script = 'autoload -Uz compinit; compinit -u; eval "$(pyoco-client completion zsh)"'
    script += "; print $_comps[pyoco-client]"
    assert in_shell("zsh", script, tmp_path).stdout.split() == ["_pyoco_client_completion"]


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_completes_commands(tmp_path: Path) -> None:
    script = "pyoco-client completion fish | source; complete --do-complete 'pyoco-client worker dr'"
    assert "drain" in in_shell("fish", script, tmp_path).stdout


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_program_answers_what_the_scripts_of_zsh_and_fish_ask(shell: str, programs: Programs) -> None:
    assert f"_PYOCO_CLIENT_COMPLETE=complete_{shell}" in SCRIPTS[Shell(shell)]
    asked = {
        "_PYOCO_CLIENT_COMPLETE": f"complete_{shell}",
        "_TYPER_COMPLETE_ARGS": "pyoco-client worker dr",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    environment = clean_environment(**asked)
    done = subprocess.run([BIN / "pyoco-client"], env=environment, capture_output=True, text=True)
    assert "drain" in done.stdout


def in_shell(shell: str, script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = clean_environment(HOME=str(folder))
    environment["PATH"] = f"{BIN}:{environment['PATH']}"
    return subprocess.run([shell, "-c", script], env=environment, capture_output=True, text=True, cwd=folder)
