"""`run get`, `tasks`, `list`, `result`, `why` and `open`: read runs."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from typing import Annotated

import typer

from pyoco_server.cli.client.ids import only_run_id, whole_run_id
from pyoco_server.cli.client.instants import instant_of
from pyoco_server.cli.client.options import (
    EXIT_CODES,
    STILL_RUNNING,
    OutputOption,
    RecordsOption,
    RunIdArgument,
    RunIdOption,
    WaitOption,
    WaitTimeoutOption,
    check_timeout,
    connect,
    wait_for_run,
)
from pyoco_server.cli.client.output import (
    RUNS,
    OutputForm,
    is_json,
    show_json,
    show_outcome,
    show_page,
    show_run,
)
from pyoco_server.cli.client.place import GatewayPlace, place_of
from pyoco_server.cli.client.run_filters import RunFilters, filtered
from pyoco_server.cli.client.waiting_hint import WaitingHint
from pyoco_server.cli.entry import WrongArguments
from pyoco_server.printable import lines, one_line

LIST_EXAMPLE = "pyoco-client run list --status FAILED --since 2h --search timeout"
PAGES_EXAMPLE = "pyoco-client run pages --updated-after 1767225600 --limit 20"
RESULT_EXAMPLE = "pyoco-client run result RUN_ID --wait"


def get(
    ctx: typer.Context,
    run: RunIdArgument = None,
    run_id: RunIdOption = None,
    records: RecordsOption = False,
    output: OutputOption = None,
) -> None:
    """Show one run."""
    wanted = only_run_id(run, run_id, "get")
    with connect(ctx) as client:
        wanted = whole_run_id(client, wanted)
        found = client.get_run_with_records(wanted) if records else client.get_run(wanted)
    show_run(found, output, link=place_of(ctx).link("runs", wanted))


def tasks(
    ctx: typer.Context,
    run: RunIdArgument = None,
    run_id: RunIdOption = None,
    output: OutputOption = None,
) -> None:
    """Show the tasks of one run."""
    wanted = only_run_id(run, run_id, "tasks")
    with connect(ctx) as client:
        found = client.get_tasks(whole_run_id(client, wanted))
    if not found["tasks"] and not is_json(output):
        return show_outcome(found, ["The run has no tasks yet."], OutputForm.TEXT)
    return show_run(found, output)


@filtered
def list_(
    ctx: typer.Context,
    filters: RunFilters,
    search: Annotated[
        str | None, typer.Option(help="Only runs with this text in id, flow, tags, worker or error.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="Only runs that changed since: 30s, 10m, 2h, 1d, or an instant.")
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Keep the list up to date, until Ctrl-C; JSON: a line per change.")
    ] = False,
    output: OutputOption = None,
) -> None:
    """List runs, those that changed last first."""
    if watch and (filters.full or filters.cursor is not None):
        raise WrongArguments("--watch goes with neither --full nor --cursor.", hint=LIST_EXAMPLE)
    after, place = instant_of(since, LIST_EXAMPLE), place_of(ctx)
    with connect(ctx) as client:
        if watch:
            from pyoco_server.cli.client.run_board import ListFilter
            from pyoco_server.cli.client.watched_list import watch_list

            wanted = ListFilter(filters.status, filters.flow, filters.tag, search, after)
            return watch_list(client, wanted, filters.limit, as_json=is_json(output))
        page = filters.page(client, changed_after=after, search=search)
    if filters.cursor is None and is_json(output):
        return show_json(page["items"])
    empty = _empty(place, filters.has_any or search or after)
    return show_page(page, RUNS, output, empty=empty, further=place.command("run list …"))


@filtered
def pages(
    ctx: typer.Context,
    filters: RunFilters,
    updated_after: Annotated[
        float | None, typer.Option(help="Only runs that changed after this instant, in unix seconds.")
    ] = None,
    workflow_yaml_sha256: Annotated[
        str | None, typer.Option(help="Only runs of the flow.yaml with this digest.")
    ] = None,
    output: OutputOption = None,
) -> None:
    """List runs page by page, those that changed last first."""
    with connect(ctx) as client:
        page = filters.page(client, changed_after=updated_after, workflow_yaml_sha256=workflow_yaml_sha256)
    empty, further = _empty(place_of(ctx), "a filter"), place_of(ctx).command("run pages …")
    show_page(page, RUNS, output, empty=empty, further=further)


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
        with WaitingHint(ctx, wanted) if wait else nullcontext():
            found = wait_for_run(client, wanted, timeout_sec if wait else 0.0)
        if found["status"] == "COMPLETED":
            return show_json(client.result(wanted, 0.0))
    words = f"{wanted} is {found['status']}{': ' + found['error'] if found['error'] else ''}"
    sys.stderr.write(lines(words) + "\n")
    raise typer.Exit(EXIT_CODES.get(found["status"], STILL_RUNNING))


def why(
    ctx: typer.Context,
    run: RunIdArgument = None,
    run_id: RunIdOption = None,
    output: OutputOption = None,
) -> None:
    """Explain why a run is in its state: what it waits for, or why it failed."""
    wanted = only_run_id(run, run_id, "why")
    with connect(ctx) as client:
        wanted = whole_run_id(client, wanted)
        found = client.why(wanted)
    messages = dict.fromkeys(reason["message"] for reason in found["reasons"])
    reasons = [one_line(f"  - {message}") for message in messages if message != found["summary"]]
    sentences = [found["summary"], *reasons, f"  Dashboard  {place_of(ctx).link('runs', wanted)}"]
    show_outcome(found, sentences, output)


def open_(
    ctx: typer.Context,
    run: RunIdArgument = None,
    run_id: RunIdOption = None,
    only_print: Annotated[
        bool, typer.Option("--print", help="Print the link, and do not open a browser.")
    ] = False,
) -> None:
    """Open a run in the dashboard, or the list of runs. Prints the link too."""
    link = place_of(ctx).link()
    if run is not None or run_id is not None:
        wanted = only_run_id(run, run_id, "open")
        with connect(ctx) as client:
            link = place_of(ctx).link("runs", client.get_run(whole_run_id(client, wanted))["run_id"])
    sys.stdout.write(f"{one_line(link)}\n")
    sys.stdout.flush()
    if sys.stdout.isatty() and not only_print:
        from pyoco_server.cli.client.browser import open_browser

        open_browser(link)


def _empty(place: GatewayPlace, has_filter: object) -> str:
    if has_filter:
        return "No run matches."
    return f"No runs yet. Submit one: {place.command('run submit FLOW')}"
