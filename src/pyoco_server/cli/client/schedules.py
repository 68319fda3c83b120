"""`pyoco-client schedule`: runs that start by time. Upstream's command names work too, unlisted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from pyoco_server.cli.client.ids import only_id, whole_schedule_id
from pyoco_server.cli.client.options import (
    LimitOption,
    OutputOption,
    RecordsOption,
    RoutingTagOption,
    connect,
    read_workflow,
)
from pyoco_server.cli.client.output import RUNS, show_items, show_json
from pyoco_server.cli.client.params import merged_params
from pyoco_server.cli.entry import WrongArguments

ADD_EXAMPLE = (
    "pyoco-client schedule add --flow-name nightly --param day=yesterday "
    "--cron '30 2 * * *' --timezone Asia/Tokyo"
)
YAML_NAME = "main"
COLUMNS = ("schedule_id", "flow_name", "tag", "schedule_type", "status", "next_at", "last_at", "last_run_id")

IdArgument = Annotated[str | None, typer.Argument(metavar="[SCHEDULE_ID]", help="The schedule's id.")]
IdOption = Annotated[str | None, typer.Option("--schedule-id", help="The schedule's id, as an option.")]

app = typer.Typer(rich_markup_mode=None)
group = typer.Typer(rich_markup_mode=None, epilog=f"Example: {ADD_EXAMPLE}")
app.add_typer(group, name="schedule", help="Start runs by time: once, at intervals, or by cron.")


@app.command("schedule-yaml", hidden=True)
@group.command(epilog=f"Example: {ADD_EXAMPLE}")
def add(
    ctx: typer.Context,
    flow: Annotated[str | None, typer.Argument(metavar="[FLOW]", help="Name of the flow.")] = None,
    workflow_file: Annotated[
        Path | None, typer.Option(help="A flow.yaml to run. [default: a flow of the workers]")
    ] = None,
    flow_name: Annotated[
        str | None,
        typer.Option(help="The flow's name; of a flow.yaml, the name of its runs. [there: main]"),
    ] = None,
    param: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="A parameter, JSON or text; repeatable. Not for a file."),
    ] = None,
    tag: RoutingTagOption = None,
    run_at: Annotated[
        str | None, typer.Option(help="Once, at this instant: ISO 8601 with an offset.")
    ] = None,
    interval_seconds: Annotated[
        float | None, typer.Option(help="Repeatedly, with this many seconds between runs.")
    ] = None,
    start_at: Annotated[
        str | None,
        typer.Option(help="With --interval-seconds: the first run. [default: after one interval]"),
    ] = None,
    cron: Annotated[str | None, typer.Option(help="Minute, hour, day of month, month, day of week.")] = None,
    timezone: Annotated[str | None, typer.Option(help="With --cron: its time zone. [default: UTC]")] = None,
) -> None:
    """Create a schedule: --run-at, --interval-seconds or --cron says when it starts runs."""
    when: dict[str, Any] = {
        "run_at": run_at,
        "interval_seconds": interval_seconds,
        "start_at": start_at,
        "cron": cron,
        "timezone": timezone,
    }
    if flow is not None and flow_name is not None:
        raise WrongArguments("Name the flow once.", hint=ADD_EXAMPLE)
    flow_name = flow or flow_name
    _check_flow(workflow_file, flow_name, param)
    with connect(ctx) as client:
        if workflow_file is None:
            params = merged_params(None, None, param)
            made = client.create_schedule(flow_name or "", params, tag=tag, **when)
        else:
            workflow = read_workflow(workflow_file, ADD_EXAMPLE)
            made = client.create_yaml_schedule(workflow, flow_name=flow_name or YAML_NAME, tag=tag, **when)
    show_json(made)


@app.command("schedule-delete", hidden=True)
@group.command(epilog="Example: pyoco-client schedule delete SCHEDULE_ID")
def delete(ctx: typer.Context, schedule: IdArgument = None, schedule_id: IdOption = None) -> None:
    """Delete a schedule. Runs that it has started go on."""
    wanted = _only_schedule_id(schedule, schedule_id, "delete")
    with connect(ctx) as client:
        show_json(client.delete_schedule(whole_schedule_id(client, wanted)))


@app.command("schedules", hidden=True)
@group.command("list", epilog="Example: pyoco-client schedule list --output table")
def list_(ctx: typer.Context, output: OutputOption = None) -> None:
    """List schedules, the latest first."""
    with connect(ctx) as client:
        found = client.list_schedules()
    show_items(found, COLUMNS, output)


@app.command("schedule-runs", hidden=True)
@group.command(epilog="Example: pyoco-client schedule runs SCHEDULE_ID --limit 10")
def runs(
    ctx: typer.Context,
    schedule: IdArgument = None,
    schedule_id: IdOption = None,
    limit: LimitOption = None,
    records: RecordsOption = False,
    output: OutputOption = None,
) -> None:
    """List the runs of a schedule, those that changed last first."""
    wanted = _only_schedule_id(schedule, schedule_id, "runs")
    with connect(ctx) as client:
        wanted = whole_schedule_id(client, wanted)
        found = client.list_schedule_runs(wanted, include_records=records, limit=limit)
    show_items(found, RUNS, output)


def _check_flow(workflow_file: Path | None, flow_name: str | None, param: list[str] | None) -> None:
    if workflow_file is None and not flow_name:
        raise WrongArguments("Name the flow with --flow-name, or give --workflow-file.", hint=ADD_EXAMPLE)
    if workflow_file is not None and param:
        message = "The parameters of a flow.yaml are its own: write them under flow.defaults."
        raise WrongArguments(message, hint=ADD_EXAMPLE)


def _only_schedule_id(argument: str | None, option: str | None, command: str) -> str:
    return only_id(argument, option, f"schedule {command} SCHEDULE_ID", "schedule")
