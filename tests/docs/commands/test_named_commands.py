"""Commands that pages, in both languages, name in blocks and in sentences: they exist, with their options.

New pages use the first name of a command or its short form. Older names work, but are not shown.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache

import typer
from typer.core import TyperCommand, TyperGroup

from pyoco_server.cli.admin.main import app as admin
from pyoco_server.cli.client.grammar import ROWS
from pyoco_server.cli.client.main import app as client
from pyoco_server.cli.server.main import app as server
from pyoco_server.cli.worker.main import app as worker
from tests.docs.commands.test_every_command import OURS
from tests.tidy.repository import ROOT, tracked_text_files

APPS = {"pyoco-client": client, "pyoco-server": server, "pyoco-server-admin": admin, "pyoco-worker": worker}
ENDS = {"&&", "||", "|", ">", ";", "done", "#"}
SPAN = re.compile(r"`([^`]+)`")
OLDER = {name for row in ROWS for name in row.older}


def named() -> Iterator[tuple[str, str]]:
    """The page, and a command on it, from the name of its program."""
    for path in tracked_text_files():
        name = path.relative_to(ROOT).as_posix()
        if path.suffix != ".md" or name.startswith(("docs/decisions/", "CHANGELOG")):
            continue
        is_code = False
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.lstrip().startswith("```"):
                is_code = not is_code
            for text in [line] if is_code else SPAN.findall(line):
                if "is ready" in text:
                    continue
                for found in re.finditer(rf"(?:^|(?<=\s))(?<!--from )(?:{OURS.pattern})(?= [\w-])", text):
                    yield name, text[found.start() :]


@cache
def program(name: str) -> TyperGroup | TyperCommand:
    command = typer.main.get_command(APPS[name])
    assert isinstance(command, TyperGroup | TyperCommand)
    return command


def problem(line: str) -> str:
    """Why the command does not exist; empty if it does."""
    name, *words = words_of(line)
    command, path, before = program(name), "", ""
    options = {"--help"}
    for word in words:
        options |= {one for option in command.params for one in (*option.opts, *option.secondary_opts)}
        if word.startswith("-"):
            if word.partition("=")[0] not in options:
                return f"{name} {path}: no option {word}"
        elif isinstance(command, TyperGroup) and not before.startswith("--"):
            if word not in command.commands:
                return f"{name} {path}: no command {word}"
            path = f"{path} {word}".strip()
            found = command.commands[word]
            assert isinstance(found, TyperGroup | TyperCommand)
            command = found
        before = word
    return f"{path} is an older name" if name == "pyoco-client" and path in OLDER else ""


def words_of(line: str) -> list[str]:
    text = re.sub(r"<[^>]*>", "PLACEHOLDER", line).replace("\\", "").replace('"', " ")
    try:
        words = shlex.split(text, comments=True)
    except ValueError:  # a sentence with an apostrophe
        words = text.split()
    end = next((index for index, word in enumerate(words) if word in ENDS), len(words))
    return words[:end]


def test_every_command_exists_with_its_options() -> None:
    found = [(page, line, why) for page, line in named() if (why := problem(line))]
    assert found == []


def test_the_check_finds_wrong_commands() -> None:
    assert problem("pyoco-client run list --status FAILED") == ""
    assert problem("pyoco-client --profile prod worker drain w1 && systemctl stop pyoco-worker") == ""
    assert problem("pyoco-client run lists") == "pyoco-client run: no command lists"
    assert problem("pyoco-client list --state FAILED") == "pyoco-client list: no option --state"
    assert problem("pyoco-client worker-drain w1") == "worker-drain is an older name"
