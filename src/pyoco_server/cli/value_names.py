"""The names of values in help: `--server URL` and not `--server <str>`. Owns the names, for every program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

BY_OPTION: Mapping[str, str] = {
    "--server": "URL",
    "--nats-url": "URL",
    "--profile": "PROFILE",
    "--host": "ADDRESS",
    "--run-id": "RUN_ID",
    "--schedule-id": "SCHEDULE_ID",
    "--worker-id": "WORKER_ID",
    "--key-id": "KEY_ID",
    "--task": "TASK",
    "--flow": "FLOW",
    "--flow-name": "FLOW",
    "--flow-resolver": "MODULE:FUNCTION",
    "--tag": "TAG",
    "--tags": "TAG,TAG",
    "--tenant": "TENANT",
    "--scope": "SCOPE",
    "--status": "STATUS",
    "--params": "JSON",
    "--cursor": "CURSOR",
    "--cron": "CRON",
    "--timezone": "ZONE",
    "--run-at": "INSTANT",
    "--start-at": "INSTANT",
    "--since": "INSTANT",
    "--updated-after": "INSTANT",
    "--expires-in": "DURATION",
    "--grace": "DURATION",
    "--timeout-sec": "SECONDS",
    "--interval-seconds": "SECONDS",
    "--poll-timeout": "SECONDS",
    "--data-dir": "FOLDER",
    "--log-level": "LEVEL",
}
BY_TYPE: Mapping[str, str] = {"int": "N", "float": "NUMBER", "path": "FILE"}
OTHER = "TEXT"


def command_of(app: typer.Typer) -> TyperCommand | TyperGroup:
    """The parser of a program, with names for the values of its options."""
    command = typer.main.get_command(app)
    assert isinstance(command, TyperCommand | TyperGroup)
    for option in _options(command):
        if option.metavar is None and not option.is_flag:
            option.metavar = _name(option)
    return command


def _options(command: object) -> Iterator[TyperOption]:
    if isinstance(command, TyperCommand | TyperGroup):
        yield from (one for one in command.params if isinstance(one, TyperOption))
    if isinstance(command, TyperGroup):
        for below in command.commands.values():
            yield from _options(below)


def _name(option: TyperOption) -> str | None:
    """None: the help lists the choices."""
    for spelling in option.opts:
        if spelling in BY_OPTION:
            return BY_OPTION[spelling]
    shown = option.display_type(typer.Context(TyperCommand("none"))).strip("<>")
    if "|" in shown:
        return None
    kind = shown.removesuffix(" range")
    return BY_TYPE.get(kind, OTHER)
