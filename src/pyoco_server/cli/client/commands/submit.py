"""`run submit`, `run submit-yaml` and `run retry`: start runs."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from pyoco_server.cli.client.ids import only_run_id, short_id, whole_run_id
from pyoco_server.cli.client.options import (
    OutputOption,
    RoutingTagOption,
    RunIdArgument,
    RunIdOption,
    WaitOption,
    Waits,
    WaitTimeoutOption,
    check_timeout,
    connect,
    only_file,
    read_workflow,
    show_accepted,
)
from pyoco_server.cli.client.params import merged_params
from pyoco_server.cli.entry import WrongArguments

FLOW_NAME = "main"
SUBMIT_EXAMPLE = "pyoco-client run submit hello --tag demo --param name=you --wait"
YAML_EXAMPLE = "pyoco-client run submit-yaml flow.yaml --flow-name nightly --wait"
RETRY_EXAMPLE = "pyoco-client run retry RUN_ID --wait"
FORK_EXAMPLE = "pyoco-client run retry RUN_ID --from-task NAME"


class Begin(StrEnum):
    FAILED = "failed"
    START = "start"


def submit(
    ctx: typer.Context,
    flow: Annotated[str | None, typer.Argument(metavar="FLOW", help="Name of the flow.")] = None,
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
    expires_at: Annotated[
        float | None,
        typer.Option(help="Cancel the run unless it starts before this instant, in unix seconds."),
    ] = None,
    wait: WaitOption = False,
    timeout_sec: WaitTimeoutOption = None,
    output: OutputOption = None,
) -> None:
    """Submit a run."""
    if flow is not None and flow_name is not None:
        raise WrongArguments("Name the flow once.", hint=SUBMIT_EXAMPLE)
    check_timeout(wait, timeout_sec, SUBMIT_EXAMPLE)
    name = flow or flow_name or FLOW_NAME
    wanted = merged_params(params_file, params, param)
    labels = [part.strip() for text in tags or [] for part in text.split(",") if part.strip()] or None
    with connect(ctx) as client:
        accepted = client.submit_run(
            name, wanted, tag=tag, tags=labels, start_at=start_at, expires_at=expires_at
        )
        sentence = f"Run {accepted['run_id']} of flow {name} was submitted."
        show_accepted(ctx, client, accepted, sentence, Waits(wait, timeout_sec, output))


def submit_yaml(
    ctx: typer.Context,
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="The workflow: a flow.yaml.")] = None,
    workflow_file: Annotated[Path | None, typer.Option(help="The same, as an option.")] = None,
    flow_name: Annotated[str, typer.Option(help="The name of the run's flow; the file has none.")] = "main",
    tag: RoutingTagOption = None,
    wait: WaitOption = False,
    timeout_sec: WaitTimeoutOption = None,
    output: OutputOption = None,
) -> None:
    """Submit a flow.yaml as a run. Its parameters are the defaults in the file."""
    check_timeout(wait, timeout_sec, YAML_EXAMPLE)
    workflow = read_workflow(only_file(file, workflow_file, "workflow", YAML_EXAMPLE), YAML_EXAMPLE)
    with connect(ctx) as client:
        accepted = client.submit_run_yaml(workflow, flow_name=flow_name, tag=tag)
        sentence = f"Run {accepted['run_id']} of flow {flow_name} was submitted."
        show_accepted(ctx, client, accepted, sentence, Waits(wait, timeout_sec, output))


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
    output: OutputOption = None,
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
        sentence = f"Run {accepted['run_id']} runs {short_id(wanted)} again."
        show_accepted(ctx, client, accepted, sentence, Waits(wait, timeout_sec, output))
