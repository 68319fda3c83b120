"""`pyoco-client logs`: what a run printed, and what it prints."""

from __future__ import annotations

import json
import re
import sys
import time
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

import typer

from pyoco_server.cli.client.watch import Connect, OneId, RunIdArgument, RunIdOption
from pyoco_server.cli.entry import WrongArguments
from pyoco_server.printable import coloured_line, json_text

EXAMPLE = "pyoco-client logs -f RUN_ID --task train --since 10m --grep loss"
UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_AGO = re.compile(r"(\d+)([smhd])")


class ShownLog(StrEnum):
    TEXT = "text"
    JSON = "json"


def add_log_command(app: typer.Typer, connect: Connect, one_id: OneId) -> None:
    @app.command(epilog=f"Example: {EXAMPLE}")
    def logs(
        ctx: typer.Context,
        run: RunIdArgument = None,
        run_id: RunIdOption = None,
        follow: Annotated[
            bool, typer.Option("-f", "--follow", help="Go on with what it prints, until it is over.")
        ] = False,
        task: Annotated[str | None, typer.Option(help="Only what this task printed.")] = None,
        since: Annotated[
            str | None, typer.Option(help="Only what is newer: 30s, 10m, 2h, 1d, or an instant.")
        ] = None,
        grep: Annotated[str | None, typer.Option(help="Only lines with this text.")] = None,
        regex: Annotated[bool, typer.Option("--regex", help="The text is a pattern (RE2).")] = False,
        tail: Annotated[
            int | None, typer.Option(min=1, max=5_000, help="Begin with the last so many lines.")
        ] = None,
        output: Annotated[
            ShownLog, typer.Option(help="The lines, or an object of JSON a line.")
        ] = ShownLog.TEXT,
    ) -> None:
        """Show what a run printed, line by line."""
        wanted = one_id(run, run_id, "logs")
        sought: dict[str, Any] = {"task": task, "since": _instant(since), "q": grep, "regex": regex}
        with connect(ctx) as client:
            read = client.follow_logs if follow else client.logs
            for entry in read(wanted, tail=tail, on_searched=_say_how_far, **sought):
                _show(entry, output)


def _show(entry: dict[str, Any], form: ShownLog) -> None:
    sys.stdout.write((_json(entry) if form is ShownLog.JSON else _text(entry["message"])) + "\n")
    sys.stdout.flush()  # a person reads it now, or a program waits for it


def _json(entry: dict[str, Any]) -> str:
    return json_text(json.dumps(entry, ensure_ascii=False))


def _text(message: str) -> str:
    """A terminal gets the colours of a run and no other sequence of its; a file gets what was printed."""
    return coloured_line(message) if sys.stdout.isatty() else message


def _say_how_far(line: int, lines: int) -> None:
    """For people who wait; stdout has matching lines and nothing else."""
    if sys.stderr.isatty():
        sys.stderr.write(f"searched up to line {line} of {lines}, continuing\n")
        sys.stderr.flush()


def _instant(since: str | None) -> float | None:
    """In unix seconds."""
    if since is None:
        return None
    if ago := _AGO.fullmatch(since):
        return time.time() - int(ago.group(1)) * UNITS[ago.group(2)]
    try:
        return float(since)
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(since).astimezone().timestamp()
    except ValueError:
        raise WrongArguments(
            "--since is 30s, 10m, 2h, 1d, or an instant like 2026-02-18T12:00:00Z.", hint=EXAMPLE
        ) from None
