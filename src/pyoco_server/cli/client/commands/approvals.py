"""`approval list`, `approve` and `reject`: the tasks that wait for an answer, and the answer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from pyoco_server.cli.client.ids import only_id, short_id, whole_run_id
from pyoco_server.cli.client.options import (
    CursorOption,
    LimitOption,
    OutputOption,
    RunIdArgument,
    RunIdOption,
    connect,
)
from pyoco_server.cli.client.output import OutputForm, show_outcome, show_page
from pyoco_server.cli.client.params import refuse_constant
from pyoco_server.cli.client.place import place_of
from pyoco_server.cli.client.tables import Column, Item, at, id_of, text, words_of
from pyoco_server.cli.entry import WrongArguments

if TYPE_CHECKING:
    from pyoco_server.http_client.answers import CommandAnswer

LIST_EXAMPLE = "pyoco-client approval list --limit 20"
APPROVE_EXAMPLE = """pyoco-client approval approve RUN_ID release --payload '{"version": 2}'"""
REJECT_EXAMPLE = "pyoco-client approval reject RUN_ID release --comment 'not on a Friday'"

TaskArgument = Annotated[
    str | None, typer.Argument(metavar="TASK", help="The task that waits, like release or review[2].")
]
TaskOption = Annotated[str | None, typer.Option("--task", help="The task, as an option.")]
KeyOption = Annotated[str | None, typer.Option(help="The key of the wait. [default: the task's name]")]
PayloadOption = Annotated[
    str | None, typer.Option(metavar="JSON", help="The answer itself: the task's result.")
]
CommentOption = Annotated[str | None, typer.Option(help="A comment that is stored with the answer.")]


def approvals(
    ctx: typer.Context,
    limit: LimitOption = None,
    cursor: CursorOption = None,
    output: OutputOption = None,
) -> None:
    """List the tasks that wait for an answer, the longest waiting first."""
    with connect(ctx) as client:
        page = client.list_approvals(limit=limit, cursor=cursor)
    further = place_of(ctx).command("approval list")
    show_page(page, COLUMNS, output, empty="No task waits for an answer.", further=further)


def approve(
    ctx: typer.Context,
    run: RunIdArgument = None,
    waiting: TaskArgument = None,
    run_id: RunIdOption = None,
    task: TaskOption = None,
    wait_key: KeyOption = None,
    payload: PayloadOption = None,
    comment: CommentOption = None,
    output: OutputOption = None,
) -> None:
    """Approve a task that waits: it succeeds with the payload, and the run continues."""
    wanted, named = _wanted(run, run_id, waiting, task, APPROVE_EXAMPLE)
    answer = _payload(payload)
    with connect(ctx) as client:
        whole = whole_run_id(client, wanted)
        accepted = client.resume_task(
            whole, named, wait_key=wait_key, payload=answer, decision="approve", comment=comment
        )
    _show_answered(ctx, accepted, whole, f"Task {named} was approved, and the run continues.", output)


def reject(
    ctx: typer.Context,
    run: RunIdArgument = None,
    waiting: TaskArgument = None,
    run_id: RunIdOption = None,
    task: TaskOption = None,
    wait_key: KeyOption = None,
    comment: CommentOption = None,
    output: OutputOption = None,
) -> None:
    """Reject a task that waits: it fails, with the comment as its error."""
    wanted, named = _wanted(run, run_id, waiting, task, REJECT_EXAMPLE)
    with connect(ctx) as client:
        whole = whole_run_id(client, wanted)
        accepted = client.resume_task(whole, named, wait_key=wait_key, decision="reject", comment=comment)
    _show_answered(ctx, accepted, whole, f"Task {named} was rejected, and fails.", output)


def _show_answered(
    ctx: typer.Context, accepted: CommandAnswer, run_id: str, sentence: str, output: OutputForm | None
) -> None:
    place = place_of(ctx)
    words = [sentence, f"  Follow     {place.command(f'run watch {short_id(run_id)}')}"]
    show_outcome(accepted, [*words, f"  Dashboard  {place.link('runs', run_id)}"], output)


def question(item: Item) -> str:
    """What the flow asks. Other prompts are shown without the schema of the answer."""
    match item.get("prompt"):
        case {"question": str(question)}:
            return question
        case {"answer_schema": _, **others}:
            return words_of(others)
        case other:
            return words_of(other)


def _key(item: Item) -> str:
    """Only a key that must be named."""
    return "" if item.get("wait_key") == item.get("task") else words_of(item.get("wait_key"))


COLUMNS = (
    Column("RUN", id_of("run_id")),
    Column("TASK", text("task"), is_cut=True),
    Column("KEY", _key, rank=1),
    Column("QUESTION", question, is_cut=True),
    Column("FLOW", text("flow_name"), rank=2, is_cut=True),
    Column("TAG", text("tag"), rank=4, is_cut=True),
    Column("SINCE", at("since")),
    Column("DEADLINE", at("deadline_at"), rank=3),
)


def _wanted(
    run: str | None, run_id: str | None, waiting: str | None, task: str | None, example: str
) -> tuple[str, str]:
    """The run and the task. After --run-id, the one argument is the task."""
    if run is not None and run_id is not None and waiting is None and task is None:
        run, waiting = None, run
    command = example.removeprefix("pyoco-client ")
    return only_id(run, run_id, command), only_id(waiting, task, command, "task")


def _payload(given: str | None) -> object:
    if given is None:
        return None
    try:
        return json.loads(given, parse_constant=refuse_constant)
    except ValueError as error:
        message = f"--payload is not JSON: {error}. A text needs quotes of its own."
        raise WrongArguments(message, hint=APPROVE_EXAMPLE) from error
