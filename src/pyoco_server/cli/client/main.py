"""`pyoco-client`: submit runs, look at them, cancel them, over a gateway's HTTP API."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pyoco_server.cli.client.approvals import add_approval_commands
from pyoco_server.cli.client.logs import add_log_command
from pyoco_server.cli.client.operator import add_operator_commands
from pyoco_server.cli.client.output import OutputForm, form_or_default, show_json, show_run, show_runs
from pyoco_server.cli.client.params import merged_params
from pyoco_server.cli.client.schedules import add_schedule_commands
from pyoco_server.cli.client.submit_yaml import add_yaml_command
from pyoco_server.cli.client.watch import (
    EXIT_CODES,
    STILL_RUNNING,
    PatienceOption,
    WaitOption,
    add_watch_commands,
    wait_for_run,
)
from pyoco_server.cli.entry import WrongArguments, run

if TYPE_CHECKING:
    from pyoco_server.http_client import PyocoHttpClient

CANCEL_WAIT_SEC = 60.0

SUBMIT_EXAMPLE = "pyoco-client submit --flow-name hello --tag demo --param name=you --wait"

app = typer.Typer(rich_markup_mode=None, epilog=f"Example: {SUBMIT_EXAMPLE}")

RunIdArgument = Annotated[str | None, typer.Argument(metavar="[RUN_ID]", help="The run's id.")]
RunIdOption = Annotated[str | None, typer.Option("--run-id", help="The run's id, as an option.")]
OutputOption = Annotated[
    OutputForm | None, typer.Option(help="json or table. [default: table on a terminal, else json]")
]


@app.callback()
def pyoco_client(
    ctx: typer.Context,
    server: Annotated[str, typer.Option(help="Address of the gateway.")] = "http://127.0.0.1:8000",
    api_key: Annotated[str | None, typer.Option(help="API key, where the gateway asks for one.")] = None,
    api_key_header: Annotated[str, typer.Option(help="Header that carries the API key.")] = "X-API-Key",
) -> None:
    """Submit runs, look at them, cancel them.

    Exit codes: 0 done; 1 wrong arguments, no gateway, or refused; 130 interrupted. `--wait` and
    `watch --until-terminal` add 2 failed, 3 cancelled, 8 still running; `cancel --wait` 8 not ended yet,
    `worker-drain --wait` 8 not drained yet.
    """
    ctx.obj = (server, api_key, api_key_header)


@app.command(epilog=f"Example: {SUBMIT_EXAMPLE}")
def submit(
    ctx: typer.Context,
    flow_name: Annotated[
        str, typer.Option(help="Name of the flow, as the worker's resolver knows it.")
    ] = "main",
    params_file: Annotated[
        Path | None, typer.Option(help="File with parameters: a JSON or YAML object.")
    ] = None,
    params: Annotated[
        str | None, typer.Option(help="Parameters as a JSON object; win over those of the file.")
    ] = None,
    param: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="One parameter, JSON or text; repeatable; wins over all."),
    ] = None,
    tag: Annotated[str | None, typer.Option(help="Routing tag: who may run it. [default: default]")] = None,
    tags: Annotated[
        list[str] | None, typer.Option(metavar="TAG,TAG", help="Tags to find it by; repeatable.")
    ] = None,
    start_at: Annotated[
        float | None, typer.Option(help="Not before this instant, in unix seconds. [default: now]")
    ] = None,
    wait: WaitOption = False,
    timeout_sec: PatienceOption = None,
) -> None:
    """Submit a run."""
    wanted = merged_params(params_file, params, param)
    labels = [part.strip() for text in tags or [] for part in text.split(",") if part.strip()] or None
    with _client(ctx) as client:
        accepted = client.submit_run(flow_name, wanted, tag=tag, tags=labels, start_at=start_at)
        _finish(client, accepted, wait, timeout_sec)


@app.command(epilog="Example: pyoco-client get --run-id RUN_ID --records")
def get(
    ctx: typer.Context,
    run: RunIdArgument = None,
    run_id: RunIdOption = None,
    records: Annotated[
        bool, typer.Option("--records", help="With inputs, outputs and errors of tasks.")
    ] = False,
    output: OutputOption = None,
) -> None:
    """Show one run."""
    wanted = _one_id(run, run_id, "get")
    with _client(ctx) as client:
        found = client.get_run_with_records(wanted) if records else client.get_run(wanted)
    show_run(found, form_or_default(output))


@app.command(epilog="Example: pyoco-client tasks --run-id RUN_ID")
def tasks(
    ctx: typer.Context,
    run: RunIdArgument = None,
    run_id: RunIdOption = None,
    output: OutputOption = None,
) -> None:
    """Show the tasks of one run."""
    wanted = _one_id(run, run_id, "tasks")
    with _client(ctx) as client:
        found = client.get_tasks(wanted)
    show_run(found, form_or_default(output))


@app.command("list", epilog="Example: pyoco-client list --status RUNNING --limit 20")
def list_(
    ctx: typer.Context,
    status: Annotated[
        str | None, typer.Option(help="PENDING, RUNNING, CANCELLING, COMPLETED, FAILED or CANCELLED.")
    ] = None,
    flow: Annotated[str | None, typer.Option(help="Only runs of this flow.")] = None,
    tag: Annotated[str | None, typer.Option(help="Only runs with this tag.")] = None,
    full: Annotated[bool, typer.Option("--full", help="Whole snapshots instead of summaries.")] = False,
    limit: Annotated[int | None, typer.Option(help="How many at most, up to 200. [default: 50]")] = None,
    output: OutputOption = None,
) -> None:
    """List runs, those that changed last first."""
    with _client(ctx) as client:
        found = client.list_runs(status=status, flow=flow, tag=tag, full=full, limit=limit)
    show_runs(found, form_or_default(output))


@app.command(epilog="Example: pyoco-client cancel --run-id RUN_ID --wait")
def cancel(
    ctx: typer.Context,
    run: RunIdArgument = None,
    run_id: RunIdOption = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it has ended.")] = False,
    timeout_sec: Annotated[
        float, typer.Option(min=0, help="With --wait: give up after this long.")
    ] = CANCEL_WAIT_SEC,
) -> None:
    """Ask a run to stop. A run that has ended stays as it is."""
    wanted = _one_id(run, run_id, "cancel")
    with _client(ctx) as client:
        found = client.cancel_run(wanted)
        if wait:
            found = wait_for_run(client, wanted, timeout_sec)
    show_run(found, form_or_default(None))
    raise typer.Exit(STILL_RUNNING if wait and found["status"] not in EXIT_CODES else 0)


def _client(ctx: typer.Context) -> AbstractContextManager[PyocoHttpClient]:
    from pyoco_server.cli.client.gateway import talking_to

    return talking_to(*ctx.obj)


def _finish(client: PyocoHttpClient, accepted: dict[str, Any], wait: bool, timeout_sec: float | None) -> None:
    """Show what was accepted; with a wait how it ended, which the exit code says too."""
    if not wait:
        return show_json(accepted)
    if sys.stdout.isatty() and timeout_sec is None:
        status = _watch(client, accepted["run_id"])
        raise typer.Exit(EXIT_CODES.get(status, STILL_RUNNING))
    ended = wait_for_run(client, accepted["run_id"], timeout_sec)
    show_run(ended, form_or_default(None))
    raise typer.Exit(EXIT_CODES.get(ended["status"], STILL_RUNNING))


def _watch(client: PyocoHttpClient, run_id: str) -> str:
    """On a terminal: its tasks while they run. How it ended."""
    from pyoco_server.cli.client.live_view import watch_live

    return watch_live(client.follow_run(run_id, include_records=True))


def _one_id(argument: str | None, option: str | None, command: str) -> str:
    """By position or as an option, once."""
    if (argument is None) == (option is None):
        message = "Name one run." if option is None else "Name the run once."
        raise WrongArguments(message, hint=f"pyoco-client {command} --run-id RUN_ID")
    return argument or option or ""


add_operator_commands(app, _client)
add_yaml_command(app, _client, _finish)
add_schedule_commands(app, _client)
add_watch_commands(app, _client, _one_id, _finish)
add_approval_commands(app, _client)
add_log_command(app, _client, _one_id)


def main() -> None:
    run(app, "pyoco-client")


if __name__ == "__main__":
    main()
