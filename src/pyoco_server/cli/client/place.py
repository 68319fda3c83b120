"""Where a person goes on after a command: links to the dashboard, and commands to type next."""

from __future__ import annotations

from dataclasses import dataclass
from shlex import quote as shell_quote
from urllib.parse import quote

import typer

from pyoco_server.cli.client.connection import GivenConnection, chosen_connection
from pyoco_server.cli.client.ids import short_id


@dataclass(frozen=True, slots=True)
class GatewayPlace:
    """The gateway of a command. `flags`: what was typed to reach it, for the next command."""

    server: str
    flags: str

    def link(self, page: str = "runs", id_: str = "") -> str:
        return f"{self.server}/#/{page}" + (f"/{quote(id_, safe='')}" if id_ else "")

    def command(self, words: str) -> str:
        return f"pyoco-client {self.flags}{words}"

    def after_submission(self, run_id: str, sentence: str) -> list[str]:
        """What people read when a run was accepted."""
        short = short_id(run_id)
        return [
            sentence,
            f"  Follow     {self.command(f'run watch {short}')}",
            f"  Log        {self.command(f'run logs -f {short}')}",
            f"  Dashboard  {self.link('runs', run_id)}",
        ]


def place_of(ctx: typer.Context) -> GatewayPlace:
    given: GivenConnection = ctx.obj
    return GatewayPlace(chosen_connection(given).server.rstrip("/"), _flags(given))


def _flags(given: GivenConnection) -> str:
    """Not the key: it would be shown, and stay in the history of the shell."""
    typed = {"--server": given.server, "--profile": given.profile}
    return "".join(
        f"{flag} {shell_quote(value.value)} " for flag, value in typed.items() if value and value.is_flag
    )
