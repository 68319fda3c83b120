"""`pyoco-client` after a submission: watch a run, list in pages, its result, another try."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pyoco_server.cli.client.output import OutputForm, form_or_default, show_json, show_runs
from pyoco_server.cli.client.params import merged_params
from pyoco_server.cli.entry import WrongArguments
from pyoco_server.printable import json_text

if TYPE_CHECKING:
    from pyoco_server.http_client import PyocoHttpClient

FAILED, CANCELLED, STILL_RUNNING = 2, 3, 8
EXIT_CODES = {"COMPLETED": 0, "FAILED": FAILED, "CANCELLED": CANCELLED}

LIST_EXAMPLE = "pyoco-client list-vnext --updated-after 1767225600 --limit 20"
FORK_EXAMPLE = "pyoco-client retry --run-id RUN_ID --from-task NAME"
WATCH_EXAMPLE = "pyoco-client watch --run-id RUN_ID --until-terminal --output status"

RunIdArgument = Annotated[str | None, typer.Argument(metavar="[RUN_ID]", help="The run's id.")]
RunIdOption = Annotated[str | None, typer.Option("--run-id", help="The run's id, as an option.")]
WaitOption = Annotated[bool, typer.Option("--wait", help="Wait until it has ended; the exit code says how.")]
PatienceOption = Annotated[
    float | None, typer.Option(min=0, help="With --wait: give up after this long. [default: never]")
]

Connect = Callable[[typer.Context], "AbstractContextManager[PyocoHttpClient]"]
# The id by position or as an option, once; the last is the command's name, for its example.
OneId = Callable[[str | None, str | None, str], str]
# Show what was accepted, or with a wait how it ended.
Finish = Callable[["PyocoHttpClient", dict[str, Any], bool, float | None], None]


class ShownRun(StrEnum):
    JSON = "json"
    STATUS = "status"
    TREE = "tree"


class Begin(StrEnum):
    FAILED = "failed"
    START = "start"


def add_watch_commands(app: typer.Typer, connect: Connect, one_id: OneId, finish: Finish) -> None:
    _add_list_vnext(app, connect)
    _add_watch(app, connect, one_id)
    _add_result(app, connect, one_id)
    _add_retry(app, connect, one_id, finish)


def _add_list_vnext(app: typer.Typer, connect: Connect) -> None:
    @app.command("list-vnext", epilog=f"Example: {LIST_EXAMPLE}")
    def list_vnext(
        ctx: typer.Context,
        status: Annotated[
            str | None, typer.Option(help="PENDING, RUNNING, CANCELLING, COMPLETED, FAILED or CANCELLED.")
        ] = None,
        flow: Annotated[str | None, typer.Option(help="Only runs of this flow.")] = None,
        tag: Annotated[str | None, typer.Option(help="Only runs with this tag.")] = None,
        full: Annotated[bool, typer.Option("--full", help="Whole snapshots instead of summaries.")] = False,
        limit: Annotated[int | None, typer.Option(help="How many a page, up to 200. [default: 50]")] = None,
        updated_after: Annotated[
            float | None, typer.Option(help="Only runs that changed after this instant, in unix seconds.")
        ] = None,
        cursor: Annotated[
            str | None, typer.Option(help="Where the last page ended: its next_cursor. Same filters.")
        ] = None,
        workflow_yaml_sha256: Annotated[
            str | None, typer.Option(help="Only runs of the flow.yaml with this digest.")
        ] = None,
        output: Annotated[
            OutputForm | None, typer.Option(help="json or table. [default: table on a terminal, else json]")
        ] = None,
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
        if form_or_default(output) is OutputForm.JSON:
            return show_json(page)
        show_runs(page["items"], OutputForm.TABLE)
        if page["next_cursor"]:
            sys.stdout.write(f"next_cursor: {page['next_cursor']}\n")
        return None


def _add_watch(app: typer.Typer, connect: Connect, one_id: OneId) -> None:
    @app.command(epilog=f"Example: {WATCH_EXAMPLE}")
    def watch(
        ctx: typer.Context,
        run: RunIdArgument = None,
        run_id: RunIdOption = None,
        records: Annotated[
            bool, typer.Option("--records", help="With inputs, outputs and errors of tasks.")
        ] = False,
        since: Annotated[
            float | None, typer.Option(help="Only what changed since this instant, in unix seconds.")
        ] = None,
        timeout_sec: Annotated[
            int | None,
            typer.Option(min=1, help="Stop after this long. [default: 60; never with --until-terminal]"),
        ] = None,
        max_events: Annotated[int, typer.Option(min=0, help="Stop after so many; 0: no limit.")] = 0,
        until_terminal: Annotated[
            bool, typer.Option("--until-terminal", help="Until it has ended; the exit code says how.")
        ] = False,
        output: Annotated[
            ShownRun | None,
            typer.Option(
                help="A line of JSON an event, a short one, or a live tree. "
                "[default: tree on a terminal, else json]"
            ),
        ] = None,
    ) -> None:
        """Follow one run: its tasks as they change, or a line whenever something has."""
        wanted = one_id(run, run_id, "watch")
        with connect(ctx) as client:
            follow = client.follow_run if until_terminal else client.watch_run
            form = output or (ShownRun.TREE if sys.stdout.isatty() else ShownRun.JSON)
            with_records = records or form is ShownRun.TREE
            coming = follow(wanted, include_records=with_records, since=since, timeout_sec=timeout_sec)
            status = _show_events(coming, form, max_events)
            if until_terminal and status not in EXIT_CODES:
                status = client.get_run(wanted)["status"]
        if until_terminal:
            raise typer.Exit(EXIT_CODES.get(status, STILL_RUNNING))


def _show_events(coming: Iterable[dict[str, Any]], form: ShownRun, most: int) -> str:
    """The status that was shown last."""
    if form is ShownRun.TREE:
        from pyoco_server.cli.client.live_view import watch_live

        return watch_live(itertools.islice(coming, most or None))
    status = ""
    for number, event in enumerate(coming, start=1):
        snapshot = event["data"].get("snapshot") or {}
        status = snapshot.get("status", status)
        line = json.dumps(event, ensure_ascii=False) if form is ShownRun.JSON else _short(event, snapshot)
        sys.stdout.write(json_text(line) + "\n")
        sys.stdout.flush()  # a person reads it now, or a program waits for it
        if number == most:
            break
    return status


def _short(event: dict[str, Any], snapshot: dict[str, Any]) -> str:
    data = event["data"]
    return "\t".join((str(data["ts"]), event["event"], snapshot.get("status", "-"), data["run_id"]))


def _add_result(app: typer.Typer, connect: Connect, one_id: OneId) -> None:
    @app.command(epilog="Example: pyoco-client result --run-id RUN_ID --wait")
    def result(
        ctx: typer.Context,
        run: RunIdArgument = None,
        run_id: RunIdOption = None,
        wait: WaitOption = False,
        timeout_sec: PatienceOption = None,
    ) -> None:
        """Show what a run has come to: the output of its last task."""
        wanted = one_id(run, run_id, "result")
        with connect(ctx) as client:
            found = wait_for_run(client, wanted, timeout_sec if wait else 0.0)
            if found["status"] == "COMPLETED":
                return show_json(client.result(wanted, 0.0))
        sys.stderr.write(f"{wanted} is {found['status']}{': ' + found['error'] if found['error'] else ''}\n")
        raise typer.Exit(EXIT_CODES.get(found["status"], STILL_RUNNING))


def wait_for_run(client: PyocoHttpClient, run_id: str, timeout_sec: float | None) -> dict[str, Any]:
    """The run as it ended, or as it is when the time is over."""
    try:
        return client.wait_run(run_id, timeout_sec)
    except TimeoutError:
        return client.get_run(run_id)


def _add_retry(app: typer.Typer, connect: Connect, one_id: OneId, finish: Finish) -> None:
    @app.command(epilog=f"Examples: pyoco-client retry --run-id RUN_ID --wait; {FORK_EXAMPLE}")
    def retry(
        ctx: typer.Context,
        run: RunIdArgument = None,
        run_id: RunIdOption = None,
        begin: Annotated[
            Begin | None,
            typer.Option("--from", help="Execute what had not succeeded, or everything. [default: failed]"),
        ] = None,
        from_task: Annotated[
            str | None,
            typer.Option(metavar="NAME", help="Execute this task and what comes after it, too."),
        ] = None,
        params_file: Annotated[
            Path | None, typer.Option(help="File with other parameters: a JSON or YAML object.")
        ] = None,
        params: Annotated[
            str | None, typer.Option(help="Other parameters, all of them, as a JSON object.")
        ] = None,
        wait: WaitOption = False,
        timeout_sec: PatienceOption = None,
    ) -> None:
        """Try a run that is over again, as a new run. Results it takes over stay as they were made."""
        wanted = one_id(run, run_id, "retry")
        if begin is not None and from_task is not None:
            raise WrongArguments("--from and --from-task are two beginnings.", hint=FORK_EXAMPLE)
        is_given = params_file is not None or params is not None
        others = merged_params(params_file, params, None) if is_given else None
        with connect(ctx) as client:
            from_start = begin is Begin.START
            accepted = client.retry(wanted, from_start=from_start, from_task=from_task, params=others)
            finish(client, accepted, wait, timeout_sec)
