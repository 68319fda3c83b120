"""`pyoco-client schedule`: flows that are run at their time. Upstream's names for it work too, unlisted."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pyoco_server.cli.client.output import OutputForm, form_or_default, show_json, show_runs, show_table
from pyoco_server.cli.client.params import merged_params
from pyoco_server.cli.entry import WrongArguments

if TYPE_CHECKING:
    from pyoco_server.http_client import PyocoHttpClient

ADD_EXAMPLE = (
    "pyoco-client schedule add --flow-name nightly --param day=yesterday "
    "--cron '30 2 * * *' --timezone Asia/Tokyo"
)
YAML_NAME = "main"
COLUMNS = ("schedule_id", "flow_name", "tag", "schedule_type", "status", "next_at", "last_at", "last_run_id")

Connect = Callable[[typer.Context], "AbstractContextManager[PyocoHttpClient]"]
IdArgument = Annotated[str | None, typer.Argument(metavar="[SCHEDULE_ID]", help="The schedule's id.")]
IdOption = Annotated[str | None, typer.Option("--schedule-id", help="The schedule's id, as an option.")]
OutputOption = Annotated[
    OutputForm | None, typer.Option(help="json or table. [default: table on a terminal, else json]")
]


def add_schedule_commands(app: typer.Typer, connect: Connect) -> None:
    """`connect` gives each command the gateway that was named before it."""
    group = typer.Typer(rich_markup_mode=None, epilog=f"Example: {ADD_EXAMPLE}")
    _add_making(group, app, connect)
    _add_deleting(group, app, connect)
    _add_looking(group, app, connect)
    app.add_typer(group, name="schedule", help="Run flows at their time: once, at intervals, or by cron.")


def _add_making(group: typer.Typer, app: typer.Typer, connect: Connect) -> None:
    def add(
        ctx: typer.Context,
        workflow_file: Annotated[
            Path | None, typer.Option(help="A flow.yaml to run. [default: a flow that workers know]")
        ] = None,
        flow_name: Annotated[
            str | None,
            typer.Option(help="The flow; of a flow.yaml, what its runs are called. [there: main]"),
        ] = None,
        param: Annotated[
            list[str] | None,
            typer.Option(metavar="NAME=VALUE", help="A parameter, JSON or text; repeatable. Not for a file."),
        ] = None,
        tag: Annotated[
            str | None, typer.Option(help="Routing tag: who may run it. [default: default]")
        ] = None,
        run_at: Annotated[
            str | None, typer.Option(help="Once, at this instant: ISO 8601 with an offset.")
        ] = None,
        interval_seconds: Annotated[
            float | None, typer.Option(help="Again and again, this far apart.")
        ] = None,
        start_at: Annotated[
            str | None, typer.Option(help="With --interval-seconds: the first time. [default: after one]")
        ] = None,
        cron: Annotated[
            str | None, typer.Option(help="Minute, hour, day of month, month, day of week.")
        ] = None,
        timezone: Annotated[
            str | None, typer.Option(help="With --cron: whose clock counts. [default: UTC]")
        ] = None,
    ) -> None:
        """Make a schedule: --run-at, --interval-seconds or --cron says when."""
        when: dict[str, Any] = {
            "run_at": run_at,
            "interval_seconds": interval_seconds,
            "start_at": start_at,
            "cron": cron,
            "timezone": timezone,
        }
        _check_what(workflow_file, flow_name, param)
        with connect(ctx) as client:
            if workflow_file is None:
                params = merged_params(None, None, param)
                made = client.create_schedule(flow_name or "", params, tag=tag, **when)
            else:
                workflow = _content(workflow_file)
                made = client.create_yaml_schedule(
                    workflow, flow_name=flow_name or YAML_NAME, tag=tag, **when
                )
        show_json(made)

    group.command("add", epilog=f"Example: {ADD_EXAMPLE}")(add)
    app.command("schedule-yaml", hidden=True)(add)


def _add_deleting(group: typer.Typer, app: typer.Typer, connect: Connect) -> None:
    def delete(ctx: typer.Context, schedule: IdArgument = None, schedule_id: IdOption = None) -> None:
        """Begin no more runs of it. Those that were begun go on."""
        wanted = _one_id(schedule, schedule_id, "delete")
        with connect(ctx) as client:
            show_json(client.delete_schedule(wanted))

    group.command("delete", epilog="Example: pyoco-client schedule delete SCHEDULE_ID")(delete)
    app.command("schedule-delete", hidden=True)(delete)


def _add_looking(group: typer.Typer, app: typer.Typer, connect: Connect) -> None:
    def list_(ctx: typer.Context, output: OutputOption = None) -> None:
        """List schedules, the latest first."""
        with connect(ctx) as client:
            found = client.list_schedules()
        if form_or_default(output) is OutputForm.JSON:
            return show_json(found)
        return show_table(found, COLUMNS)

    group.command("list", epilog="Example: pyoco-client schedule list --output table")(list_)
    app.command("schedules", hidden=True)(list_)

    def runs(
        ctx: typer.Context,
        schedule: IdArgument = None,
        schedule_id: IdOption = None,
        limit: Annotated[int | None, typer.Option(help="How many at most, up to 200. [default: 50]")] = None,
        records: Annotated[
            bool, typer.Option("--records", help="With inputs, outputs and errors of tasks.")
        ] = False,
        output: OutputOption = None,
    ) -> None:
        """List the runs of a schedule, those that changed last first."""
        wanted = _one_id(schedule, schedule_id, "runs")
        with connect(ctx) as client:
            found = client.list_schedule_runs(wanted, include_records=records, limit=limit)
        show_runs(found, form_or_default(output))

    group.command("runs", epilog="Example: pyoco-client schedule runs SCHEDULE_ID --limit 10")(runs)
    app.command("schedule-runs", hidden=True)(runs)


def _check_what(workflow_file: Path | None, flow_name: str | None, param: list[str] | None) -> None:
    if workflow_file is None and not flow_name:
        raise WrongArguments("Name the flow with --flow-name, or give --workflow-file.", hint=ADD_EXAMPLE)
    if workflow_file is not None and param:
        message = "The parameters of a flow.yaml are its own: write them under flow.defaults."
        raise WrongArguments(message, hint=ADD_EXAMPLE)


def _one_id(argument: str | None, option: str | None, command: str) -> str:
    """By position or as an option, once."""
    if (argument is None) == (option is None):
        message = "Name one schedule." if option is None else "Name the schedule once."
        raise WrongArguments(message, hint=f"pyoco-client schedule {command} SCHEDULE_ID")
    return argument or option or ""


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise WrongArguments(f"--workflow-file {path} cannot be read: {error}", hint=ADD_EXAMPLE) from error
