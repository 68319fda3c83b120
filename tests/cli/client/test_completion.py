"""Completion in interactive bash, zsh and fish: a person loads the script, types, and presses Tab."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pyoco_server.cli.client.commands.completion import SCRIPTS, Shell
from tests.cli.programs import Programs
from tests.cli.terminal import Terminal, terminal

# A line that is typed with Tab in it, and what the completed command prints.
TYPED = {
    "pyoco-client work\tdr\t --help": "Let a worker finish its runs",
    "pyoco-client cancel --dr\t --help": "Ask a run to stop",
    "pyoco-client completion fis\t": "function _pyoco_client_completion",
    "pyoco-client --server http://127.0.0.1:9 run wat\t --help": "Follow one run",
}
START = {
    Shell.BASH: ("--noprofile", "--rcfile", "bashrc", "-i"),
    Shell.ZSH: ("-i",),
    Shell.FISH: ("--interactive",),
}
# As the first lines of the scripts say.
BASHRC = "PS1='ready> '\n. ./completions\n"
ZSHRC = "PS1='ready> '\nfpath=($PWD $fpath)\nautoload -Uz compinit\ncompinit -u\n"
FISH_CONFIG = "function fish_prompt; echo 'ready> '; end\n"


@pytest.fixture(params=list(Shell))
def shell(request: pytest.FixtureRequest) -> Shell:
    if shutil.which(request.param) is None:
        pytest.skip(f"{request.param} is not installed: make shells")
    return Shell(request.param)


@contextmanager
def with_completion(shell: Shell, home: Path) -> Iterator[Terminal]:
    fish = home / "config" / "fish"
    for path, content in {
        home / "bashrc": BASHRC,
        home / "completions": SCRIPTS[Shell.BASH],
        home / ".zshrc": ZSHRC,
        home / "_pyoco-client": SCRIPTS[Shell.ZSH],
        fish / "config.fish": FISH_CONFIG,
        fish / "completions" / "pyoco-client.fish": SCRIPTS[Shell.FISH],
    }.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    at_home, settings = str(home), str(home / "config")
    with terminal(
        shell,
        *START[shell],
        folder=home,
        HOME=at_home,
        ZDOTDIR=at_home,
        XDG_CONFIG_HOME=settings,
        XDG_DATA_HOME=at_home,
    ) as shown:
        shown.shows("ready> ")
        yield shown


@pytest.mark.parametrize(("line", "printed"), TYPED.items())
def test_a_tab_completes_what_was_typed(shell: Shell, line: str, printed: str, tmp_path: Path) -> None:
    with with_completion(shell, tmp_path) as shown:
        shown.type(f"{line}\r")
        shown.shows(printed)


def test_a_tab_completes_files_where_the_program_offers_nothing(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "numbers.json").write_text("[no JSON object")
    with with_completion(shell, tmp_path) as shown:
        shown.type("pyoco-client submit hello --params-file numb\t\r")
        shown.shows("numbers.json is neither")


def test_the_command_prints_a_script_for_each_shell(programs: Programs) -> None:
    for shell in Shell:
        assert programs.run("pyoco-client", "completion", shell).output == SCRIPTS[shell]
    assert programs.run("pyoco-client", "completion", "tcsh").ended() == 1
