"""`pyoco-client`: submit runs, show them, cancel them, over a gateway's HTTP API.

The other commands are in `watch`, `logs`, `approvals`, `schedules`, `operator` and `config`; all share
`options`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pyoco_server.cli.client import approvals, config, logs, operator, schedules, watch
from pyoco_server.cli.client.connection import (
    HEADER_DEFAULT,
    KEY_VARIABLE,
    PROFILE_VARIABLE,
    SERVER_DEFAULT,
    SERVER_VARIABLE,
    given_connection,
)
from pyoco_server.cli.client.ids import only_run_id, whole_run_id
from pyoco_server.cli.client.options import (
    EXIT_CODES,
    STILL_RUNNING,
    FlowOption,
    FullOption,
    LimitOption,
    OutputOption,
    RecordsOption,
    RoutingTagOption,
    RunIdArgument,
    RunIdOption,
    StatusOption,
    TagOption,
    WaitOption,
    WaitTimeoutOption,
    check_timeout,
    connect,
    only_file,
    read_workflow,
    show_accepted,
    wait_for_run,
)
from pyoco_server.cli.client.output import RUNS, show_items, show_run
from pyoco_server.cli.client.params import merged_params
from pyoco_server.cli.entry import WrongArguments
from pyoco_server.cli.entry import run as run_program
from pyoco_server.cli.mcp import command as mcp

CANCEL_WAIT_SEC = 60.0
FLOW_NAME = "main"

SUBMIT_EXAMPLE = "pyoco-client submit --flow-name hello --tag demo --param name=you --wait"
YAML_EXAMPLE = "pyoco-client submit-yaml --workflow-file flow.yaml --flow-name nightly --wait"

app = typer.Typer(rich_markup_mode=None, epilog=f"Example: {SUBMIT_EXAMPLE}")


@app.callback()
def pyoco_client(
    ctx: typer.Context,
    server: Annotated[
        str | None,
        typer.Option(
            envvar=SERVER_VARIABLE, help=f"Address of the gateway. [default: the profile's, {SERVER_DEFAULT}]"
        ),
    ] = None,
    api_key: Annotated[
        str | None,
        typer.Option(
            envvar=KEY_VARIABLE,
            help="API key. Other users of the machine can see it here: use the variable or a profile.",
        ),
    ] = None,
    api_key_header: Annotated[
        str | None, typer.Option(help=f"Header that carries the API key. [default: {HEADER_DEFAULT}]")
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(envvar=PROFILE_VARIABLE, help="Profile to use. [default: that of `config use`]"),
    ] = None,
) -> None:
    """Submit runs, show them, cancel them.

    Exit codes: 0 done; 1 wrong arguments, no gateway, or refused; 130 interrupted. `--wait` and
    `watch --until-terminal` add 2 failed, 3 cancelled, 8 still running; `cancel --wait` 8 not ended yet,
    `worker-drain --wait` 8 not drained yet.
    """
    ctx.obj = given_connection(ctx, server, api_key, api_key_header, profile)


@app.command(epilog=f"Example: {SUBMIT_EXAMPLE}")
def submit(
    ctx: typer.Context,
    flow: Annotated[str | None, typer.Argument(metavar="[FLOW]", help="Name of the flow.")] = None,
    flow_name: Annotated[
        str | None, typer.Option(help="Name of the flow, as an option. [default: main]")
    ] = None,
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
    tag: RoutingTagOption = None,
    tags: Annotated[
        list[str] | None, typer.Option(metavar="TAG,TAG", help="Tags for lists and searches; repeatable.")
    ] = None,
    start_at: Annotated[
        float | None, typer.Option(help="Not before this instant, in unix seconds. [default: now]")
    ] = None,
    wait: WaitOption = False,
    timeout_sec: WaitTimeoutOption = None,
) -> None:
    """Submit a run."""
    if flow is not None and flow_name is not None:
        raise WrongArguments("Name the flow once.", hint=SUBMIT_EXAMPLE)
    check_timeout(wait, timeout_sec, SUBMIT_EXAMPLE)
    wanted = merged_params(params_file, params, param)
    labels = [part.strip() for text in tags or [] for part in text.split(",") if part.strip()] or None
    with connect(ctx) as client:
        accepted = client.submit_run(
            flow or flow_name or FLOW_NAME, wanted, tag=tag, tags=labels, start_at=start_at
        )
        show_accepted(client, accepted, wait, timeout_sec)


@app.command("submit-yaml", epilog=f"Example: {YAML_EXAMPLE}")
def submit_yaml(
    ctx: typer.Context,
    file: Annotated[Path | None, typer.Argument(metavar="[FILE]", help="The workflow: a flow.yaml.")] = None,
    workflow_file: Annotated[Path | None, typer.Option(help="The same, as an option.")] = None,
    flow_name: Annotated[str, typer.Option(help="The name of the run's flow; the file has none.")] = "main",
    tag: RoutingTagOption = None,
    wait: WaitOption = False,
    timeout_sec: WaitTimeoutOption = None,
) -> None:
    """Submit a flow.yaml as a run. Its parameters are the defaults in the file."""
    check_timeout(wait, timeout_sec, YAML_EXAMPLE)
    workflow = read_workflow(only_file(file, workflow_file, "workflow", YAML_EXAMPLE), YAML_EXAMPLE)
    with connect(ctx) as client:
        accepted = client.submit_run_yaml(workflow, flow_name=flow_name, tag=tag)
        show_accepted(client, accepted, wait, timeout_sec)


@app.command(epilog="Example: pyoco-client get --run-id RUN_ID --records")
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
    show_run(found, output)


@app.command(epilog="Example: pyoco-client tasks --run-id RUN_ID")
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
    show_run(found, output)


@app.command("list", epilog="Example: pyoco-client list --status RUNNING --limit 20")
def list_(
    ctx: typer.Context,
    status: StatusOption = None,
    flow: FlowOption = None,
    tag: TagOption = None,
    full: FullOption = False,
    limit: LimitOption = None,
    output: OutputOption = None,
) -> None:
    """List runs, those that changed last first."""
    with connect(ctx) as client:
        found = client.list_runs(status=status, flow=flow, tag=tag, full=full, limit=limit)
    show_items(found, RUNS, output)


@app.command(epilog="Example: pyoco-client cancel --run-id RUN_ID --wait")
def cancel(
    ctx: typer.Context,
    run: RunIdArgument = None,
    run_id: RunIdOption = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it has ended.")] = False,
    timeout_sec: Annotated[
        float, typer.Option(min=0, help="With --wait: give up after this many seconds.")
    ] = CANCEL_WAIT_SEC,
) -> None:
    """Ask a run to stop. A run that has ended stays as it is."""
    wanted = only_run_id(run, run_id, "cancel")
    with connect(ctx) as client:
        wanted = whole_run_id(client, wanted)
        found = client.cancel_run(wanted)
        if wait:
            found = wait_for_run(client, wanted, timeout_sec)
    show_run(found)
    raise typer.Exit(STILL_RUNNING if wait and found["status"] not in EXIT_CODES else 0)


for commands in (operator, schedules, watch, approvals, logs, config, mcp):
    app.add_typer(commands.app)


def main() -> None:
    run_program(app, "pyoco-client")


if __name__ == "__main__":
    main()
