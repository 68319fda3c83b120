"""`pyoco-client approvals`, `approve` and `reject`: what waits for an answer, and the answer."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pyoco_server.cli.client.output import OutputForm, form_or_default, show_json, show_table
from pyoco_server.cli.entry import WrongArguments

if TYPE_CHECKING:
    from pyoco_server.http_client import PyocoHttpClient

APPROVE_EXAMPLE = """pyoco-client approve --run-id RUN_ID --task release --payload '{"version": 2}'"""
REJECT_EXAMPLE = "pyoco-client reject --run-id RUN_ID --task release --comment 'not on a Friday'"
COLUMNS = ("run_id", "task", "wait_key", "flow_name", "tag", "since", "deadline_at", "prompt")

RunOption = Annotated[str, typer.Option("--run-id", help="The run's id.")]
TaskOption = Annotated[str, typer.Option(help="The task that waits, like release or review[2].")]
KeyOption = Annotated[str | None, typer.Option(help="What it waits for. [default: the task's name]")]
PayloadOption = Annotated[
    str | None, typer.Option(metavar="JSON", help="The answer itself: the task's result.")
]
CommentOption = Annotated[str | None, typer.Option(help="Kept beside the answer.")]
OutputOption = Annotated[
    OutputForm | None, typer.Option(help="json or table. [default: table on a terminal, else json]")
]
Client = Callable[[typer.Context], AbstractContextManager["PyocoHttpClient"]]


def add_approval_commands(app: typer.Typer, client: Client) -> None:
    """`client` gives each command the gateway that was named before it."""
    _add_list(app, client)
    _add_answers(app, client)


def _add_list(app: typer.Typer, client: Client) -> None:
    @app.command(epilog="Example: pyoco-client approvals --limit 20")
    def approvals(
        ctx: typer.Context,
        limit: Annotated[int | None, typer.Option(help="How many at most, up to 200. [default: 50]")] = None,
        cursor: Annotated[str | None, typer.Option(help="Where the page before ended: next_cursor.")] = None,
        output: OutputOption = None,
    ) -> None:
        """List the tasks that wait for an answer, the longest waiting first."""
        with client(ctx) as gateway:
            page = gateway.list_approvals(limit=limit, cursor=cursor)
        if form_or_default(output) is OutputForm.JSON:
            return show_json(page)
        show_table(page["items"], COLUMNS)
        if page["next_cursor"]:
            sys.stdout.write(f"next_cursor: {page['next_cursor']}\n")
        return None


def _add_answers(app: typer.Typer, client: Client) -> None:
    @app.command(epilog=f"Example: {APPROVE_EXAMPLE}")
    def approve(
        ctx: typer.Context,
        run_id: RunOption,
        task: TaskOption,
        wait_key: KeyOption = None,
        payload: PayloadOption = None,
        comment: CommentOption = None,
    ) -> None:
        """Say yes to a task that waits: it succeeds with the payload, and the run goes on."""
        answer = _payload(payload)
        with client(ctx) as gateway:
            show_json(
                gateway.resume_task(
                    run_id, task, wait_key=wait_key, payload=answer, decision="approve", comment=comment
                )
            )

    @app.command(epilog=f"Example: {REJECT_EXAMPLE}")
    def reject(
        ctx: typer.Context,
        run_id: RunOption,
        task: TaskOption,
        wait_key: KeyOption = None,
        comment: CommentOption = None,
    ) -> None:
        """Say no to a task that waits: it fails, with the comment as its error."""
        with client(ctx) as gateway:
            show_json(
                gateway.resume_task(run_id, task, wait_key=wait_key, decision="reject", comment=comment)
            )


def _payload(text: str | None) -> Any:
    if text is None:
        return None
    try:
        return json.loads(text, parse_constant=_refuse_number)
    except ValueError as error:
        message = f"--payload is not JSON: {error}. A text needs quotes of its own."
        raise WrongArguments(message, hint=APPROVE_EXAMPLE) from error


def _refuse_number(name: str) -> Any:
    raise ValueError(f"{name} is no number in JSON")
