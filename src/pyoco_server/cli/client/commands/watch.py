"""`run watch`: follow one run, as a live tree or as one line per change."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from pyoco_server.cli.client.ids import only_run_id, whole_run_id
from pyoco_server.cli.client.options import (
    EXIT_CODES,
    STILL_RUNNING,
    RecordsOption,
    RunIdArgument,
    RunIdOption,
    connect,
)
from pyoco_server.cli.client.waiting_hint import WaitingHint
from pyoco_server.printable import json_text

if TYPE_CHECKING:
    from pyoco_server.http_client.answers import RunAnswer, RunChangeAnswer

WATCH_EXAMPLE = "pyoco-client run watch RUN_ID --until-terminal --output status"


class ShownRun(StrEnum):
    JSON = "json"
    STATUS = "status"
    TREE = "tree"


def watch(
    ctx: typer.Context,
    run: RunIdArgument = None,
    run_id: RunIdOption = None,
    records: RecordsOption = False,
    since: Annotated[
        float | None, typer.Option(help="Only changes since this instant, in unix seconds.")
    ] = None,
    timeout_sec: Annotated[
        int | None,
        typer.Option(min=1, help="Stop after this many seconds. [default: 60; never with --until-terminal]"),
    ] = None,
    max_events: Annotated[int, typer.Option(min=0, help="Stop after this many events; 0: no limit.")] = 0,
    until_terminal: Annotated[
        bool, typer.Option("--until-terminal", help="Until it has ended; the exit code shows how.")
    ] = False,
    output: Annotated[
        ShownRun | None,
        typer.Option(
            help="One JSON line per event, a short line, or a live tree. "
            "[default: tree on a terminal, else json]"
        ),
    ] = None,
) -> None:
    """Follow one run: its tasks as they change, or one line per change."""
    wanted = only_run_id(run, run_id, "watch")
    with connect(ctx) as client:
        wanted = whole_run_id(client, wanted)
        follow = client.follow_run if until_terminal else client.watch_run
        form = output or (ShownRun.TREE if sys.stdout.isatty() else ShownRun.JSON)
        with_records = records or form is ShownRun.TREE
        events = follow(wanted, include_records=with_records, since=since, timeout_sec=timeout_sec)
        with WaitingHint(ctx, wanted, is_drawn=form is ShownRun.TREE) as hint:
            status = _show_events(events, form, max_events, hint)
        if until_terminal and status not in EXIT_CODES:
            status = client.get_run(wanted)["status"]
    if until_terminal:
        raise typer.Exit(EXIT_CODES.get(status, STILL_RUNNING))


def _show_events(
    events: Iterable[RunChangeAnswer], form: ShownRun, events_max: int, hint: WaitingHint
) -> str:
    """Returns the status that was shown last."""
    if form is ShownRun.TREE:
        from pyoco_server.cli.client.live_view import watch_live

        return watch_live(itertools.islice(events, events_max or None), hint=hint)
    status = ""
    for number, event in enumerate(events, start=1):
        snapshot = event["data"].get("snapshot") or {}
        status = snapshot.get("status", status)
        line = json.dumps(event, ensure_ascii=False) if form is ShownRun.JSON else _short(event, snapshot)
        sys.stdout.write(json_text(line) + "\n")
        sys.stdout.flush()  # a person or a program reads each line now
        if number == events_max:
            break
    return status


def _short(event: RunChangeAnswer, snapshot: RunAnswer) -> str:
    data = event["data"]
    return "\t".join((str(data["ts"]), event["event"], snapshot.get("status", "-"), data["run_id"]))
