"""`pyoco-client` after a submission: list runs in pages, watch a run, show its result, retry it."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from pyoco_server.cli.client.ids import only_run_id, whole_run_id
from pyoco_server.cli.client.options import (
    EXIT_CODES,
    STILL_RUNNING,
    CursorOption,
    FlowOption,
    FullOption,
    LimitOption,
    OutputOption,
    RecordsOption,
    RunIdArgument,
    RunIdOption,
    StatusOption,
    TagOption,
    WaitOption,
    WaitTimeoutOption,
    check_timeout,
    connect,
    show_accepted,
    wait_for_run,
)
from pyoco_server.cli.client.output import RUNS, show_json, show_page
from pyoco_server.cli.client.params import merged_params
from pyoco_server.cli.entry import WrongArguments
from pyoco_server.printable import json_text

LIST_EXAMPLE = "pyoco-client list-vnext --updated-after 1767225600 --limit 20"
RETRY_EXAMPLE = "pyoco-client retry --run-id RUN_ID --wait"
RESULT_EXAMPLE = "pyoco-client result --run-id RUN_ID --wait"
FORK_EXAMPLE = "pyoco-client retry --run-id RUN_ID --from-task NAME"
WATCH_EXAMPLE = "pyoco-client watch --run-id RUN_ID --until-terminal --output status"

app = typer.Typer(rich_markup_mode=None)


class ShownRun(StrEnum):
    JSON = "json"
    STATUS = "status"
    TREE = "tree"


class Begin(StrEnum):
    FAILED = "failed"
    START = "start"


@app.command("list-vnext", epilog=f"Example: {LIST_EXAMPLE}")
def list_vnext(
    ctx: typer.Context,
    status: StatusOption = None,
    flow: FlowOption = None,
    tag: TagOption = None,
    full: FullOption = False,
    limit: LimitOption = None,
    updated_after: Annotated[
        float | None, typer.Option(help="Only runs that changed after this instant, in unix seconds.")
    ] = None,
    cursor: CursorOption = None,
    workflow_yaml_sha256: Annotated[
        str | None, typer.Option(help="Only runs of the flow.yaml with this digest.")
    ] = None,
    output: OutputOption = None,
) -> None:
    """List runs page by page, those that changed last first."""
    with connect(ctx) as client:
        page = client.list_runs_vnext(
            status=status,
            flow=flow,
            tag=tag,
            full=full,
            limit=limit,
            updated_after=updated_after,
            cursor=cursor,
            workflow_yaml_sha256=workflow_yaml_sha256,
        )
    show_page(page, RUNS, output)


@app.command(epilog=f"Example: {WATCH_EXAMPLE}")
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
        status = _show_events(events, form, max_events)
        if until_terminal and status not in EXIT_CODES:
            status = client.get_run(wanted)["status"]
    if until_terminal:
        raise typer.Exit(EXIT_CODES.get(status, STILL_RUNNING))


@app.command(epilog=f"Example: {RESULT_EXAMPLE}")
def result(
    ctx: typer.Context,
    run: RunIdArgument = None,
    run_id: RunIdOption = None,
    wait: WaitOption = False,
    timeout_sec: WaitTimeoutOption = None,
) -> None:
    """Show the result of a run: the output of its last task."""
    wanted = only_run_id(run, run_id, "result")
    check_timeout(wait, timeout_sec, RESULT_EXAMPLE)
    with connect(ctx) as client:
        wanted = whole_run_id(client, wanted)
        found = wait_for_run(client, wanted, timeout_sec if wait else 0.0)
        if found["status"] == "COMPLETED":
            return show_json(client.result(wanted, 0.0))
    sys.stderr.write(f"{wanted} is {found['status']}{': ' + found['error'] if found['error'] else ''}\n")
    raise typer.Exit(EXIT_CODES.get(found["status"], STILL_RUNNING))


@app.command(epilog=f"Examples: {RETRY_EXAMPLE}; {FORK_EXAMPLE}")
def retry(
    ctx: typer.Context,
    run: RunIdArgument = None,
    run_id: RunIdOption = None,
    begin: Annotated[
        Begin | None,
        typer.Option("--from", help="Execute what has not succeeded, or everything. [default: failed]"),
    ] = None,
    from_task: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Execute also this task and everything after it."),
    ] = None,
    params_file: Annotated[
        Path | None, typer.Option(help="File with other parameters: a JSON or YAML object.")
    ] = None,
    params: Annotated[
        str | None, typer.Option(help="Other parameters, all of them, as a JSON object.")
    ] = None,
    wait: WaitOption = False,
    timeout_sec: WaitTimeoutOption = None,
) -> None:
    """Run an ended run again, as a new run. Results that it reuses do not change."""
    wanted = only_run_id(run, run_id, "retry")
    if begin is not None and from_task is not None:
        raise WrongArguments("Give --from or --from-task, not both.", hint=FORK_EXAMPLE)
    check_timeout(wait, timeout_sec, RETRY_EXAMPLE)
    is_given = params_file is not None or params is not None
    others = merged_params(params_file, params, None) if is_given else None
    with connect(ctx) as client:
        from_start, wanted = begin is Begin.START, whole_run_id(client, wanted)
        accepted = client.retry(wanted, from_start=from_start, from_task=from_task, params=others)
        show_accepted(client, accepted, wait, timeout_sec)


def _show_events(events: Iterable[dict[str, Any]], form: ShownRun, events_max: int) -> str:
    """Returns the status that was shown last."""
    if form is ShownRun.TREE:
        from pyoco_server.cli.client.live_view import watch_live

        return watch_live(itertools.islice(events, events_max or None))
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


def _short(event: dict[str, Any], snapshot: dict[str, Any]) -> str:
    data = event["data"]
    return "\t".join((str(data["ts"]), event["event"], snapshot.get("status", "-"), data["run_id"]))
