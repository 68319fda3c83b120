"""`pyoco-client`: submit runs, show them, cancel them, over a gateway's HTTP API.

Owns the options before the command. `grammar` has the names of the commands, `commands` what they do.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from pyoco_server.cli.client.commands.submit import SUBMIT_EXAMPLE
from pyoco_server.cli.client.connection import (
    HEADER_DEFAULT,
    KEY_VARIABLE,
    PROFILE_VARIABLE,
    SERVER_DEFAULT,
    SERVER_VARIABLE,
    given_connection,
)
from pyoco_server.cli.client.grammar import GROUPS, ROWS
from pyoco_server.cli.entry import run as run_program

SHORT_FORMS = {row.short: row.name for row in ROWS if row.short}


class Sections(TyperGroup):
    """Lists the short forms apart from the commands that they are short for."""

    def format_commands(self, ctx: object, formatter: Any) -> None:
        names = [name for name, command in self.commands.items() if not command.hidden]
        names.sort(key=lambda name: not isinstance(self.commands[name], TyperGroup))
        wide = max(len(name) for name in names)
        with formatter.section("Commands"):
            for name in names:
                if name not in SHORT_FORMS:
                    words = self.commands[name].get_short_help_str(formatter.width - wide - 6)
                    formatter.write_text(f"{name:<{wide}}  {words}")
        with formatter.section("Short forms"):
            formatter.write_text(", ".join(SHORT_FORMS) + ": the same as run submit, run list and so on.")


def pyoco_client(
    ctx: typer.Context,
    server: Annotated[
        str | None,
        typer.Option(
            envvar=SERVER_VARIABLE, help=f"Address of the gateway. [default: the profile's, {SERVER_DEFAULT}]"
        ),
    ] = None,
    api_key: Annotated[
        str | None,
        typer.Option(
            envvar=KEY_VARIABLE,
            help="API key. Other users of the machine can see it here: use the variable or a profile.",
        ),
    ] = None,
    api_key_header: Annotated[
        str | None, typer.Option(help=f"Header that carries the API key. [default: {HEADER_DEFAULT}]")
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(envvar=PROFILE_VARIABLE, help="Profile to use. [default: that of `config use`]"),
    ] = None,
) -> None:
    """Submit runs, show them, cancel them, and operate a gateway.

    Exit codes: 0 done; 1 wrong arguments, no gateway, or refused; 130 interrupted. `--wait` and
    `run watch --until-terminal` add 2 failed, 3 cancelled, 8 still running; `run cancel --wait` 8 not ended
    yet, `worker drain --wait` 8 not drained yet.
    """
    ctx.obj = given_connection(ctx, server, api_key, api_key_header, profile)


def _program() -> typer.Typer:
    program = typer.Typer(rich_markup_mode=None, cls=Sections, epilog=f"Example: {SUBMIT_EXAMPLE}")
    program.callback()(pyoco_client)
    groups = {
        group.name: typer.Typer(rich_markup_mode=None, epilog=f"Example: {group.example}") for group in GROUPS
    }
    for row in ROWS:
        for name, is_shown in row.names:
            first, _, verb = name.rpartition(" ")
            place = groups[first] if first else program
            place.command(verb, epilog=_epilog(row.example), hidden=not is_shown)(row.call)
    for group in GROUPS:
        program.add_typer(groups[group.name], name=group.name, help=group.help)
    return program


def _epilog(example: str) -> str:
    return f"Examples: {example}" if "; " in example else f"Example: {example}"


app = _program()


def main() -> None:
    run_program(app, "pyoco-client")


if __name__ == "__main__":
    main()
