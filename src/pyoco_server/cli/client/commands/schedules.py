"""`schedule add`, `list`, `runs`, `run` and `delete`: runs that start by time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypedDict

import typer

from pyoco_server.cli.client.ids import only_id, short_id, whole_schedule_id
from pyoco_server.cli.client.options import (
    LimitOption,
    OutputOption,
    RecordsOption,
    RoutingTagOption,
    connect,
    read_workflow,
)
from pyoco_server.cli.client.output import RUNS, show_items, show_outcome
from pyoco_server.cli.client.params import merged_params
from pyoco_server.cli.client.place import place_of
from pyoco_server.cli.client.tables import Column, Item, at, id_of, text, whole_instant, words_of
from pyoco_server.cli.entry import WrongArguments

if TYPE_CHECKING:
    from pyoco_server.http_client.answers import ScheduleAnswer

ADD_EXAMPLE = (
    "pyoco-client schedule add nightly --param day=yesterday --cron '30 2 * * *' --timezone Asia/Tokyo"
)
RUNS_EXAMPLE = "pyoco-client schedule runs SCHEDULE_ID --limit 10"
RUN_EXAMPLE = "pyoco-client schedule run SCHEDULE_ID"
DELETE_EXAMPLE = "pyoco-client schedule delete SCHEDULE_ID"
YAML_NAME = "main"

RunAtOption = Annotated[str | None, typer.Option(help="Once, at this instant: ISO 8601 with an offset.")]
IntervalOption = Annotated[
    float | None, typer.Option(help="Repeatedly, with this many seconds between runs.")
]
StartAtOption = Annotated[
    str | None, typer.Option(help="The first instant. [default: with an interval, after one]")
]
CronOption = Annotated[str | None, typer.Option(help="Minute, hour, day of month, month, day of week.")]
ZoneOption = Annotated[str | None, typer.Option(help="With --cron: its time zone. [default: UTC]")]
EndAtOption = Annotated[str | None, typer.Option(help="Nothing is due after this instant.")]
JitterOption = Annotated[
    float | None, typer.Option(help="Start runs up to this many seconds later, spread evenly.")
]
NameOption = Annotated[str | None, typer.Option(help="A name for people.")]
OverlapOption = Annotated[
    str | None,
    typer.Option(help="While a run goes on: allow, skip, queue_one or cancel_running. [default: allow]"),
]
CatchUpOption = Annotated[
    str | None, typer.Option(help="After an outage: none, last or all_within. [default: last]")
]
WithinOption = Annotated[
    float | None, typer.Option(help="With --catch-up all_within: up to this many seconds late.")
]
PlannedAtOption = Annotated[
    str | None, typer.Option(help="Name of a parameter that gets the planned instant.")
]

IdArgument = Annotated[str | None, typer.Argument(metavar="SCHEDULE_ID", help="The schedule's id.")]
IdOption = Annotated[str | None, typer.Option("--schedule-id", help="The schedule's id, as an option.")]


class _When(TypedDict):
    run_at: str | None
    interval_seconds: float | None
    start_at: str | None
    cron: str | None
    timezone: str | None
    end_at: str | None
    jitter_seconds: float | None
    name: str | None
    overlap: str | None
    catch_up: str | None
    catch_up_within_seconds: float | None
    planned_at_param: str | None
    paused: bool | None


def add(
    ctx: typer.Context,
    flow: Annotated[str | None, typer.Argument(metavar="FLOW", help="Name of the flow.")] = None,
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
    run_at: RunAtOption = None,
    interval_seconds: IntervalOption = None,
    start_at: StartAtOption = None,
    cron: CronOption = None,
    timezone: ZoneOption = None,
    end_at: EndAtOption = None,
    jitter_seconds: JitterOption = None,
    name: NameOption = None,
    overlap: OverlapOption = None,
    catch_up: CatchUpOption = None,
    catch_up_within_seconds: WithinOption = None,
    planned_at_param: PlannedAtOption = None,
    paused: Annotated[bool, typer.Option("--paused", help="Create it paused.")] = False,
    output: OutputOption = None,
) -> None:
    """Create a schedule: --run-at, --interval-seconds or --cron says when it starts runs."""
    when: _When = {
        "run_at": run_at,
        "interval_seconds": interval_seconds,
        "start_at": start_at,
        "cron": cron,
        "timezone": timezone,
        "end_at": end_at,
        "jitter_seconds": jitter_seconds,
        "name": name,
        "overlap": overlap,
        "catch_up": catch_up,
        "catch_up_within_seconds": catch_up_within_seconds,
        "planned_at_param": planned_at_param,
        "paused": paused or None,
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
    show_outcome(made, _words_of(ctx, made), output)


def _words_of(ctx: typer.Context, made: ScheduleAnswer) -> list[str]:
    return [
        f"Schedule {made['schedule_id']} starts flow {made['flow_name']} {timing(made)}.",
        f"  Next run   {whole_instant(made['next_at'])}",
        f"  Delete     {place_of(ctx).command('schedule delete ' + short_id(made['schedule_id']))}",
        f"  Dashboard  {place_of(ctx).link('schedules')}",
    ]


def run(
    ctx: typer.Context,
    schedule: IdArgument = None,
    schedule_id: IdOption = None,
    output: OutputOption = None,
) -> None:
    """Start one more run of a schedule, now. Its next instants stay as they are."""
    wanted = only_schedule_id(schedule, schedule_id, "run")
    with connect(ctx) as client:
        wanted = whole_schedule_id(client, wanted)
        started = client.run_schedule(wanted)
    run_id = str(started["run_id"])
    sentence = f"Run {run_id} of schedule {short_id(wanted)} was submitted."
    show_outcome(started, place_of(ctx).after_submission(run_id, sentence), output)


def delete(
    ctx: typer.Context,
    schedule: IdArgument = None,
    schedule_id: IdOption = None,
    output: OutputOption = None,
) -> None:
    """Delete a schedule. Runs that it has started go on."""
    wanted = only_schedule_id(schedule, schedule_id, "delete")
    with connect(ctx) as client:
        answer = client.delete_schedule(whole_schedule_id(client, wanted))
    show_outcome(answer, [f"Schedule {answer['schedule_id']} was deleted. It starts no more runs."], output)


def list_(ctx: typer.Context, output: OutputOption = None) -> None:
    """List schedules, the latest first."""
    with connect(ctx) as client:
        found = client.list_schedules()
    empty = f"No schedules. Create one: {place_of(ctx).command('schedule add FLOW --cron …')}"
    show_items(found, COLUMNS, output, empty=empty)


def runs(
    ctx: typer.Context,
    schedule: IdArgument = None,
    schedule_id: IdOption = None,
    limit: LimitOption = None,
    records: RecordsOption = False,
    output: OutputOption = None,
) -> None:
    """List the runs of a schedule, those that changed last first."""
    wanted = only_schedule_id(schedule, schedule_id, "runs")
    with connect(ctx) as client:
        wanted = whole_schedule_id(client, wanted)
        found = client.list_schedule_runs(wanted, include_records=records, limit=limit)
    show_items(found, RUNS, output, empty="The schedule has started no runs yet.")


def timing(item: Item) -> str:
    """When it starts runs, in words; a cron expression as it was given."""
    match item:
        case {"cron": str(cron)}:
            return f"at {cron} ({item.get('timezone') or 'UTC'})"
        case {"interval_seconds": int() | float() as seconds}:
            return f"every {_period(seconds)}"
        case {"run_at": int() | float() as instant}:
            return f"once at {whole_instant(instant)}"
    return words_of(item.get("schedule_type"))


def _period(seconds: float) -> str:
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds % length == 0:
            return f"{seconds / length:g} {unit}"
    return f"{seconds:g} s"


COLUMNS = (
    Column("SCHEDULE", id_of("schedule_id")),
    Column("FLOW", text("flow_name"), is_cut=True),
    Column("WHEN", timing),
    Column("STATUS", text("status"), rank=3),
    Column("TAG", text("tag"), rank=2, is_cut=True),
    Column("NEXT", at("next_at")),
    Column("LAST", at("last_at"), rank=1),
    Column("LAST RUN", id_of("last_run_id"), rank=4),
    Column("ERROR", text("last_error"), rank=1, is_cut=True),
)


def _check_flow(workflow_file: Path | None, flow_name: str | None, param: list[str] | None) -> None:
    if workflow_file is None and not flow_name:
        raise WrongArguments("Name the flow with --flow-name, or give --workflow-file.", hint=ADD_EXAMPLE)
    if workflow_file is not None and param:
        message = "The parameters of a flow.yaml are its own: write them under flow.defaults."
        raise WrongArguments(message, hint=ADD_EXAMPLE)


def only_schedule_id(argument: str | None, option: str | None, command: str) -> str:
    return only_id(argument, option, f"schedule {command} SCHEDULE_ID", "schedule")
