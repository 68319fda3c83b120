"""`pyoco-client approvals`, `approve` and `reject`: the tasks that wait for an answer, and the answer."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from pyoco_server.cli.client.ids import only_id, whole_run_id
from pyoco_server.cli.client.options import (
    CursorOption,
    LimitOption,
    OutputOption,
    RunIdArgument,
    RunIdOption,
    connect,
)
from pyoco_server.cli.client.output import show_json, show_page
from pyoco_server.cli.client.params import refuse_constant
from pyoco_server.cli.entry import WrongArguments

APPROVE_EXAMPLE = """pyoco-client approve --run-id RUN_ID --task release --payload '{"version": 2}'"""
REJECT_EXAMPLE = "pyoco-client reject --run-id RUN_ID --task release --comment 'not on a Friday'"
COLUMNS = ("run_id", "task", "wait_key", "flow_name", "tag", "since", "deadline_at", "prompt")

TaskArgument = Annotated[
    str | None, typer.Argument(metavar="[TASK]", help="The task that waits, like release or review[2].")
]
TaskOption = Annotated[str | None, typer.Option("--task", help="The task, as an option.")]
KeyOption = Annotated[str | None, typer.Option(help="The key of the wait. [default: the task's name]")]
PayloadOption = Annotated[
    str | None, typer.Option(metavar="JSON", help="The answer itself: the task's result.")
]
CommentOption = Annotated[str | None, typer.Option(help="A comment that is stored with the answer.")]

app = typer.Typer(rich_markup_mode=None)


@app.command(epilog="Example: pyoco-client approvals --limit 20")
def approvals(
    ctx: typer.Context,
    limit: LimitOption = None,
    cursor: CursorOption = None,
    output: OutputOption = None,
) -> None:
    """List the tasks that wait for an answer, the longest waiting first."""
    with connect(ctx) as client:
        page = client.list_approvals(limit=limit, cursor=cursor)
    show_page(page, COLUMNS, output)


@app.command(epilog=f"Example: {APPROVE_EXAMPLE}")
def approve(
    ctx: typer.Context,
    run: RunIdArgument = None,
    waiting: TaskArgument = None,
    run_id: RunIdOption = None,
    task: TaskOption = None,
    wait_key: KeyOption = None,
    payload: PayloadOption = None,
    comment: CommentOption = None,
) -> None:
    """Approve a task that waits: it succeeds with the payload, and the run goes on."""
    wanted, named = _wanted(run, run_id, waiting, task, APPROVE_EXAMPLE)
    answer = _payload(payload)
    with connect(ctx) as client:
        show_json(
            client.resume_task(
                whole_run_id(client, wanted),
                named,
                wait_key=wait_key,
                payload=answer,
                decision="approve",
                comment=comment,
            )
        )


@app.command(epilog=f"Example: {REJECT_EXAMPLE}")
def reject(
    ctx: typer.Context,
    run: RunIdArgument = None,
    waiting: TaskArgument = None,
    run_id: RunIdOption = None,
    task: TaskOption = None,
    wait_key: KeyOption = None,
    comment: CommentOption = None,
) -> None:
    """Reject a task that waits: it fails, with the comment as its error."""
    wanted, named = _wanted(run, run_id, waiting, task, REJECT_EXAMPLE)
    with connect(ctx) as client:
        whole = whole_run_id(client, wanted)
        show_json(client.resume_task(whole, named, wait_key=wait_key, decision="reject", comment=comment))


def _wanted(
    run: str | None, run_id: str | None, waiting: str | None, task: str | None, example: str
) -> tuple[str, str]:
    """The run and the task. After --run-id, the one argument is the task."""
    if run is not None and run_id is not None and waiting is None and task is None:
        run, waiting = None, run
    command = example.removeprefix("pyoco-client ")
    return only_id(run, run_id, command), only_id(waiting, task, command, "task")


def _payload(text: str | None) -> Any:
    if text is None:
        return None
    try:
        return json.loads(text, parse_constant=refuse_constant)
    except ValueError as error:
        message = f"--payload is not JSON: {error}. A text needs quotes of its own."
        raise WrongArguments(message, hint=APPROVE_EXAMPLE) from error
