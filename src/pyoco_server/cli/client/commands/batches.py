"""`batch submit`, `list`, `show`, `watch` and `cancel`: many runs that are submitted in one request."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pyoco_server.cli.client.options import EXIT_CODES, LimitOption, OutputOption, connect
from pyoco_server.cli.client.output import OutputForm, is_json, show_items, show_json, show_outcome
from pyoco_server.cli.client.tables import Column, at, print_facts, text, whole_instant
from pyoco_server.cli.entry import WrongArguments

if TYPE_CHECKING:
    from pyoco_server.http_client import PyocoHttpClient
    from pyoco_server.http_client.answers import BatchAnswer, SubmittedBatchAnswer

SUBMIT_EXAMPLE = "pyoco-client batch submit runs.ndjson --wait"
CANCEL_EXAMPLE = "pyoco-client batch cancel BATCH_ID --reason 'a wrong file'"
BATCHES = (
    Column("BATCH", text("batch_id")),
    Column("CREATED", at("created_at")),
    Column("ITEMS", text("total")),
    Column("ACCEPTED", text("accepted"), rank=1),
    Column("REFUSED", text("refused"), rank=1),
    Column("CANCELLED", at("cancelled_at"), rank=2),
)
BAR_CHARS = 30
REFUSED_SHOWN_MAX = 20

BatchIdArgument = Annotated[str, typer.Argument(metavar="BATCH_ID", help="The batch's id.")]
# The exit code if an item was refused.
REFUSED = 1


def submit(
    ctx: typer.Context,
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="Lines of JSON or an array: bodies of POST /runs. -: stdin."),
    ],
    atomic: Annotated[bool, typer.Option("--atomic", help="Submit nothing if an item is invalid.")] = False,
    key: Annotated[
        str | None, typer.Option(help="Idempotency key: the same file with the same key runs once.")
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until all its runs have ended; the exit code shows how.")
    ] = False,
    output: OutputOption = None,
) -> None:
    """Submit many runs from a file. The exit code is 1 if an item was refused."""
    items = _items_in(file)
    with connect(ctx) as client:
        answer = client.submit_batch(items, atomic=atomic, idempotency_key=key)
        has_refused = any("error" in one for one in answer["items"])
        if has_refused or not (wait and is_json(output)):
            show_outcome(answer, [*_refusals(answer), _accepted(answer)], output)
        if has_refused:
            raise typer.Exit(REFUSED)
        if wait:
            _end(_followed(client, answer["batch_id"]), output)


def list_(ctx: typer.Context, limit: LimitOption = None, output: OutputOption = None) -> None:
    """List batches, newest first."""
    with connect(ctx) as client:
        found = client.list_batches(limit=limit)
    show_items(found, BATCHES, output, empty="No batches.")


def show(ctx: typer.Context, batch_id: BatchIdArgument, output: OutputOption = None) -> None:
    """Show how far the runs of a batch are."""
    with connect(ctx) as client:
        _show(client.get_batch(batch_id), output)


def watch(ctx: typer.Context, batch_id: BatchIdArgument, output: OutputOption = None) -> None:
    """Follow a batch until all its runs have ended. The exit code shows how."""
    with connect(ctx) as client:
        _end(_followed(client, batch_id), output)


def cancel(
    ctx: typer.Context,
    batch_id: BatchIdArgument,
    reason: Annotated[str | None, typer.Option(help="Why; shown with its runs.")] = None,
    output: OutputOption = None,
) -> None:
    """Cancel every run of a batch that has not ended."""
    with connect(ctx) as client:
        answer = client.cancel_batch(batch_id, reason)
    show_outcome(answer, [f"Batch {batch_id} is cancelled. {_numbers(answer)}"], output)


def _items_in(file: Path) -> list[dict[str, object]]:
    try:
        content = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise WrongArguments(f"{file} cannot be read: {error}", hint=SUBMIT_EXAMPLE) from error
    items = list(_values_in(content, file))
    for number, item in enumerate(items):
        if not isinstance(item, dict):
            message = f"Item {number} of {file} is not a JSON object."
            raise WrongArguments(message, hint='{"flow_name": "hello", "params": {"name": "you"}}')
    return [item for item in items if isinstance(item, dict)]


def _values_in(content: str, file: Path) -> Iterator[object]:
    if content.lstrip().startswith("["):
        found = _parsed(content, str(file))
        assert isinstance(found, list), "it begins with a bracket"
        yield from found
        return
    # Only at line feeds: `splitlines` also splits within texts, for example at U+2028.
    for number, row in enumerate(content.split("\n"), start=1):
        if row.strip():
            yield _parsed(row, f"{file}, line {number}")


def _parsed(text: str, place: str) -> object:
    try:
        return json.loads(text)
    except ValueError as error:
        raise WrongArguments(f"{place} is not JSON: {error}", hint=SUBMIT_EXAMPLE) from error


def _refusals(answer: SubmittedBatchAnswer) -> Iterator[str]:
    refused = [one for one in answer["items"] if "error" in one]
    for one in refused[:REFUSED_SHOWN_MAX]:
        yield f"Item {one['index']}: {_reason(one['error'])}"
    if len(refused) > REFUSED_SHOWN_MAX:
        yield f"… and {len(refused) - REFUSED_SHOWN_MAX} more."
    if not answer["complete"]:
        yield "The broker stopped to answer. Submit the file again with the same --key."


def _reason(error: Mapping[str, object]) -> str:
    detail = error.get("detail")
    if isinstance(detail, list) and detail:
        return "; ".join(f"{'.'.join(map(str, one['loc'][1:]))}: {one['msg']}" for one in detail)
    return str(detail)


def _accepted(answer: SubmittedBatchAnswer) -> str:
    return f"Batch {answer['batch_id']}: {answer['accepted']} of {answer['total']} items were accepted."


def _followed(client: PyocoHttpClient, batch_id: str) -> BatchAnswer:
    """The batch when it is over. On a terminal a bar shows its progress meanwhile."""
    latest = client.get_batch(batch_id)
    has_bar = sys.stderr.isatty()
    for latest in client.follow_batch(batch_id):
        if has_bar:
            sys.stderr.write(f"\r{_bar(latest)}\x1b[K")
            sys.stderr.flush()
    if has_bar:
        sys.stderr.write("\r\x1b[K")
    return latest


def _bar(batch: BatchAnswer) -> str:
    ended = sum(batch["counts"].get(status, 0) for status in EXIT_CODES)
    total = max(1, batch["accepted"] or batch["total"])
    filled = BAR_CHARS * ended // total
    return f"[{'#' * filled}{'.' * (BAR_CHARS - filled)}] {ended}/{total}  {_numbers(batch)}"


def _numbers(batch: BatchAnswer) -> str:
    counts = batch["counts"]
    return ", ".join(f"{count} {status}" for status, count in counts.items() if count) or "No runs."


def _end(batch: BatchAnswer, output: OutputForm | None) -> None:
    _show(batch, output)
    for status in ("FAILED", "CANCELLED"):
        if batch["counts"].get(status):
            raise typer.Exit(EXIT_CODES[status])


def _show(batch: BatchAnswer, output: OutputForm | None) -> None:
    if is_json(output):
        return show_json(batch)
    facts = {"Batch": batch["batch_id"], "Created": whole_instant(batch["created_at"])}
    facts |= {"Items": str(batch["total"]), "Refused": str(batch["refused"]), "Runs": _numbers(batch)}
    if batch["cancelled_at"] is not None:
        facts["Cancelled"] = (
            f"{whole_instant(batch['cancelled_at'])} {batch.get('cancel_reason') or ''}".strip()
        )
    return print_facts(facts)
