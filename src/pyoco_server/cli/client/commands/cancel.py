"""`run cancel`: one run, or all runs that match a filter."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from pyoco_server.cli.client.ids import only_run_id, short_id, whole_run_id
from pyoco_server.cli.client.options import (
    EXIT_CODES,
    STILL_RUNNING,
    OutputOption,
    RunIdArgument,
    RunIdOption,
    connect,
    wait_for_run,
)
from pyoco_server.cli.client.output import (
    RUNS,
    OutputForm,
    is_json,
    show_items,
    show_outcome,
    show_run,
)
from pyoco_server.cli.client.place import place_of
from pyoco_server.cli.client.waiting_hint import WaitingHint
from pyoco_server.cli.entry import CliRefusal, WrongArguments

if TYPE_CHECKING:
    from pyoco_server.http_client import PyocoHttpClient
    from pyoco_server.http_client.answers import RunAnswer

CANCEL_WAIT_SEC = 60.0
RUNS_MAX = 10_000
PAGE_RUNS = 200
FILTER_EXAMPLE = "pyoco-client run cancel --filter status=PENDING --filter flow=hello --dry-run"
EXAMPLES = f"pyoco-client run cancel RUN_ID --wait; {FILTER_EXAMPLE}"
ACTIVE = ("PENDING", "RUNNING")
NAMES = ("status", "flow", "tag")


@dataclass(frozen=True, slots=True)
class CancelFilter:
    status: str | None = None
    flow: str | None = None
    tag: str | None = None

    @property
    def statuses(self) -> tuple[str, ...]:
        """Those of runs that a cancel changes."""
        return ACTIVE if self.status is None else (self.status,)


def cancel(
    ctx: typer.Context,
    run: RunIdArgument = None,
    run_id: RunIdOption = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it has ended.")] = False,
    timeout_sec: Annotated[
        float, typer.Option(min=0, help="With --wait: give up after this many seconds.")
    ] = CANCEL_WAIT_SEC,
    filters: Annotated[
        list[str] | None,
        typer.Option(
            "--filter",
            metavar="NAME=VALUE",
            help="Instead of a run: all active runs with this status (PENDING or RUNNING), flow or "
            "routing tag; repeatable, all must match.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="With --filter: list the runs, and cancel none.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="With --filter: do not ask.")] = False,
    output: OutputOption = None,
) -> None:
    """Ask a run to stop, or all runs that match filters. A run that has ended stays as it is."""
    if filters:
        if run is not None or run_id is not None or wait:
            message = "--filter names the runs: give no run, and no --wait."
            raise WrongArguments(message, hint=FILTER_EXAMPLE)
        return _cancel_many(ctx, _filter_of(filters), dry_run=dry_run, yes=yes, output=output)
    if dry_run or yes:
        raise WrongArguments("--dry-run and --yes go with --filter.", hint=FILTER_EXAMPLE)
    wanted = only_run_id(run, run_id, "cancel")
    with connect(ctx) as client:
        wanted = whole_run_id(client, wanted)
        found = client.cancel_run(wanted)
        if wait:
            with WaitingHint(ctx, wanted):
                found = wait_for_run(client, wanted, timeout_sec)
    show_run(found, output, link=place_of(ctx).link("runs", wanted))
    raise typer.Exit(STILL_RUNNING if wait and found["status"] not in EXIT_CODES else 0)


def _cancel_many(
    ctx: typer.Context, wanted: CancelFilter, *, dry_run: bool, yes: bool, output: OutputForm | None
) -> None:
    with connect(ctx) as client:
        found = _matching(client, wanted)
        if dry_run:
            return show_items(found, RUNS, output, empty="No active run matches.")
        if found and not yes:
            _ask(found, output)
        refused = [run for run in found if not _is_cancelled(client, run)]
    asked = [run["run_id"] for run in found if run not in refused]
    answer = {"cancelled": asked, "refused": [run["run_id"] for run in refused]}
    words = [f"{_runs(len(asked))} asked to stop." if found else "No active run matches."]
    words += [f"Run {short_id(run['run_id'])} was refused." for run in refused]
    show_outcome(answer, words, output)
    raise typer.Exit(1 if refused else 0)


def _matching(client: PyocoHttpClient, wanted: CancelFilter) -> list[RunAnswer]:
    """All pages are read first: a cancel changes the order of the list."""
    found: dict[str, RunAnswer] = {}
    for status in wanted.statuses:
        cursor: str | None = None
        while True:
            page = client.list_runs_vnext(
                status=status, flow=wanted.flow, tag=wanted.tag, limit=PAGE_RUNS, cursor=cursor
            )
            found |= {run["run_id"]: run for run in page["items"]}
            cursor = page["next_cursor"]
            if len(found) > RUNS_MAX:
                message = f"More than {RUNS_MAX} runs match. Add a filter, and cancel them in parts."
                raise CliRefusal(message, hint=FILTER_EXAMPLE)
            if cursor is None:
                break
    return list(found.values())


def _ask(found: list[RunAnswer], output: OutputForm | None) -> None:
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        message = f"{_runs(len(found))} would be cancelled. Give --yes, or look at them with --dry-run."
        raise WrongArguments(message, hint=f"{FILTER_EXAMPLE.replace('--dry-run', '--yes')}")
    if not is_json(output):
        show_items(found, RUNS, output, empty="")
    typer.confirm(f"Cancel {_runs(len(found))}?", abort=True, err=True)


def _is_cancelled(client: PyocoHttpClient, run: RunAnswer) -> bool:
    import httpx

    try:
        client.cancel_run(run["run_id"])
    except httpx.HTTPStatusError:
        return False
    return True


def _filter_of(given: list[str]) -> CancelFilter:
    pairs: dict[str, str] = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not equals or not value or name not in NAMES or name in pairs:
            message = f"--filter {one!r} is not one of status=…, flow=… and tag=…, each given once."
            raise WrongArguments(message, hint=FILTER_EXAMPLE)
        pairs[name] = value
    if pairs.get("status", ACTIVE[0]) not in ACTIVE:
        message = f"A run that is {pairs['status']} cannot be cancelled: write status=PENDING or RUNNING."
        raise WrongArguments(message, hint=FILTER_EXAMPLE)
    return CancelFilter(**pairs)


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"
