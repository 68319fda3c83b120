"""`dlq list`, `get`, `redrive` and `dismiss`: jobs that failed or could not be executed."""

from __future__ import annotations

from typing import Annotated

import typer

from pyoco_server.cli.client.options import CursorOption, LimitOption, OutputOption, connect
from pyoco_server.cli.client.output import is_json, show_json, show_outcome, show_page
from pyoco_server.cli.client.place import place_of
from pyoco_server.cli.client.tables import Column, at, id_of, print_facts, text, words_of

DISMISS_EXAMPLE = "pyoco-client dlq dismiss 17 --note 'known, and harmless'"
LIST_EXAMPLE = "pyoco-client dlq list --reason execution_error --limit 20"
LETTERS = (
    Column("ID", text("id")),
    Column("WHEN", at("timestamp")),
    Column("REASON", text("reason")),
    Column("RUN", id_of("run_id")),
    Column("FLOW", text("flow_name"), rank=1, is_cut=True),
    Column("TAG", text("tag"), rank=2, is_cut=True),
    Column("ERROR", text("error"), is_cut=True),
)

LetterIdArgument = Annotated[str, typer.Argument(metavar="ID")]


def list_(
    ctx: typer.Context,
    limit: LimitOption = None,
    reason: Annotated[str | None, typer.Option(help="Only with this reason, like max_deliver.")] = None,
    kind: Annotated[
        str | None, typer.Option(help="execution: runs that failed; delivery: jobs that were not executed.")
    ] = None,
    dismissed: Annotated[bool, typer.Option("--dismissed", help="Also those that were dismissed.")] = False,
    cursor: CursorOption = None,
    output: OutputOption = None,
) -> None:
    """List dead letters, newest first."""
    with connect(ctx) as client:
        page = client.list_dead_letters(
            limit=limit, reason=reason, kind=kind, include_dismissed=dismissed or None, cursor=cursor
        )
    further = place_of(ctx).command("dlq list")
    show_page(page, LETTERS, output, empty="No dead letters.", further=further)


def get(ctx: typer.Context, letter_id: LetterIdArgument, output: OutputOption = None) -> None:
    """Show one dead letter, with its message."""
    with connect(ctx) as client:
        found = client.get_dead_letter(letter_id)
    if is_json(output):
        return show_json(found)
    return print_facts({name: words_of(value) for name, value in found.items() if value is not None})


def redrive(
    ctx: typer.Context,
    letter_id: LetterIdArgument,
    again: Annotated[bool, typer.Option("--again", help="Even if it was redriven before.")] = False,
    output: OutputOption = None,
) -> None:
    """Run what the letter is about again, as a new run."""
    with connect(ctx) as client:
        answer = client.redrive_dead_letter(letter_id, again=again)
    sentence = f"Run {answer['run_id']} runs again what dead letter {letter_id} is about."
    show_outcome(answer, place_of(ctx).after_submission(answer["run_id"], sentence), output)


def dismiss(
    ctx: typer.Context,
    letter_id: LetterIdArgument,
    note: Annotated[str | None, typer.Option(help="Why; stored with the letter.")] = None,
    output: OutputOption = None,
) -> None:
    """Leave a dead letter out of lists. Its run stays as it is; a repetition changes nothing."""
    with connect(ctx) as client:
        answer = client.dismiss_dead_letter(letter_id, note)
    show_outcome(answer, [f"Dead letter {letter_id} was dismissed."], output)
