"""`run logs`: the output of a run, also while it runs."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from pyoco_server.cli.client.ids import only_run_id, whole_run_id
from pyoco_server.cli.client.instants import instant_of
from pyoco_server.cli.client.options import RunIdArgument, RunIdOption, connect
from pyoco_server.cli.client.waiting_hint import WaitingHint
from pyoco_server.printable import coloured_line, json_text

if TYPE_CHECKING:
    from pyoco_server.http_client.answers import LogLineAnswer
    from pyoco_server.http_client.logs import SoughtLines

EXAMPLE = "pyoco-client run logs -f RUN_ID --task train --since 10m --grep loss"


class ShownLog(StrEnum):
    TEXT = "text"
    JSON = "json"


def logs(
    ctx: typer.Context,
    run: RunIdArgument = None,
    run_id: RunIdOption = None,
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Follow the output until the run has ended.")
    ] = False,
    task: Annotated[str | None, typer.Option(help="Only output of this task.")] = None,
    since: Annotated[
        str | None, typer.Option(help="Only newer lines: 30s, 10m, 2h, 1d, or an instant.")
    ] = None,
    grep: Annotated[str | None, typer.Option(help="Only lines with this text.")] = None,
    regex: Annotated[bool, typer.Option("--regex", help="The text is a pattern (RE2).")] = False,
    tail: Annotated[int | None, typer.Option(min=1, max=5_000, help="Begin with the last N lines.")] = None,
    output: Annotated[
        ShownLog, typer.Option(help="The lines as text, or one JSON object per line.")
    ] = ShownLog.TEXT,
) -> None:
    """Show what a run printed, line by line."""
    wanted = only_run_id(run, run_id, "logs")
    sought: SoughtLines = {"task": task, "since": instant_of(since, EXAMPLE), "q": grep, "regex": regex}
    with connect(ctx) as client:
        read = client.follow_logs if follow else client.logs
        whole = whole_run_id(client, wanted)
        with WaitingHint(ctx, whole) if follow else nullcontext():
            for entry in read(whole, tail=tail, on_searched=_show_progress, **sought):
                _show(entry, output)


def _show(entry: LogLineAnswer, form: ShownLog) -> None:
    sys.stdout.write((_json(entry) if form is ShownLog.JSON else _text(entry["message"])) + "\n")
    sys.stdout.flush()  # a person or a program reads each line now


def _json(entry: LogLineAnswer) -> str:
    return json_text(json.dumps(entry, ensure_ascii=False))


def _text(message: str) -> str:
    """On a terminal only the colours of the output are kept; a file gets the output unchanged."""
    return coloured_line(message) if sys.stdout.isatty() else message


def _show_progress(line: int, lines: int) -> None:
    """On stderr, and on a terminal only: stdout has matching lines and nothing else."""
    if sys.stderr.isatty():
        sys.stderr.write(f"searched up to line {line} of {lines}, continuing\n")
        sys.stderr.flush()
