"""Run a typer app as a program: its exit code, and its errors on stderr. Contains no command.

A wrong argument gives exit code 1 (the contract; click uses 2) and shows the command's example, which is the
`epilog` of that command.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from pyoco_server.cli.value_names import command_of
from pyoco_server.errors import ConfigError, message_id_of
from pyoco_server.printable import lines
from pyoco_server.texts import CATALOGUES

CANNOT = 1
INTERRUPTED = 130
WRONG_ARGUMENTS = "ERR-PYOCO-0018"

# typer bundles click or uses the installed one. This is the base of the errors of the one it uses.
_CLICK_ERROR: type[Exception] = next(
    kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException"
)

# The commands of a program. A process that is forked later has them at once.
build = cache(command_of)


class CliRefusal(Exception):
    """The command failed. The message says why, `hint` what to type instead."""

    def __init__(self, message: str, *, hint: str = "", err_id: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.err_id = err_id


class WrongArguments(CliRefusal):
    """The arguments are wrong (ERR-PYOCO-0018)."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint, err_id=WRONG_ARGUMENTS)


class UpByDefault(TyperGroup):
    """`pyoco-server --port 9000` means `pyoco-server up --port 9000`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        is_help = args[:1] == ["--help"]
        if not is_help and (not args or args[0].startswith("-")):
            args = ["up", *args]
        return super().parse_args(ctx, args)


def run(app: typer.Typer, name: str) -> NoReturn:
    sys.exit(exit_code(app, name, sys.argv[1:]))


def exit_code(app: typer.Typer, name: str, arguments: Sequence[str]) -> int:
    try:
        code = build(app).main(list(arguments), prog_name=name, standalone_mode=False)
    except CliRefusal as refusal:
        return print_refusal(refusal)
    except ConfigError as wrong:
        return print_refusal(CliRefusal(wrong.message, err_id=wrong.err_id or ""))
    except (typer.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except _CLICK_ERROR as wrong:
        return print_refusal(_from_click(wrong, name))
    return code if isinstance(code, int) else 0


def _from_click(wrong: Any, name: str) -> CliRefusal:
    context = getattr(wrong, "ctx", None)
    if context is None:
        return WrongArguments(wrong.format_message(), hint=f"{name} --help")
    example = (context.command.epilog or "").removeprefix("Example: ").removeprefix("Examples: ")
    return WrongArguments(wrong.format_message(), hint=example or f"{context.command_path} --help")


def print_refusal(refusal: CliRefusal) -> int:
    mark = f" ({refusal.err_id})" if refusal.err_id else ""
    printed = [*_heading(refusal.err_id), f"error: {refusal.message}{mark}"]
    if refusal.hint:
        printed.append(f"try:   {refusal.hint}")
    sys.stderr.write(lines("\n".join(printed)) + "\n")
    return CANNOT


def _heading(err_id: str) -> list[str]:
    """The specification's message for the error id, for readers of another language than English: the
    sentence that says what is wrong is in English only, and says more.
    """
    from pyoco_server.config import own_language  # pydantic: half of the start of `pyoco-client`

    language = own_language() or "en"
    heading = CATALOGUES[language].get(message_id_of(err_id) or "") if language != "en" else None
    return [heading] if heading else []
