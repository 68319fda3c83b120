"""The operator's commands of `pyoco-client`: workers, metrics, wheels and dead letters."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pyoco_server.cli.client.ids import only_id
from pyoco_server.cli.client.options import (
    STILL_RUNNING,
    CursorOption,
    LimitOption,
    OutputOption,
    check_timeout,
    connect,
    only_file,
)
from pyoco_server.cli.client.output import show_items, show_json, show_page
from pyoco_server.cli.entry import CliRefusal, WrongArguments

if TYPE_CHECKING:
    from pyoco_server.http_client import PyocoHttpClient

DRAIN_EXAMPLE = "pyoco-client worker-drain --worker-id w1 --wait --timeout-sec 600"
UPLOAD_EXAMPLE = "pyoco-client wheel-upload --wheel-file dist/demo-1.0-py3-none-any.whl --tags cpu,linux"

WORKERS = (
    *("worker_id", "state", "draining", "tags", "current_run_id", "last_run_status", "last_seen_at"),
    "hidden",
)
WHEELS = ("name", "tags", "size_bytes", "modified", "sha256_hex")
HISTORY = ("occurred_at", "action", "wheel_name", "tags", "size_bytes", "actor", "source")
LETTERS = ("id", "timestamp", "reason", "run_id", "flow_name", "tag", "error")

WorkerIdArgument = Annotated[str | None, typer.Argument(metavar="[WORKER_ID]", help="The worker's id.")]
WorkerIdOption = Annotated[str | None, typer.Option("--worker-id", help="The worker's id, as an option.")]
WheelNameArgument = Annotated[str | None, typer.Argument(metavar="[NAME]", help="The wheel's file name.")]
WheelNameOption = Annotated[str | None, typer.Option("--name", help="The wheel's file name, as an option.")]
LetterIdArgument = Annotated[str, typer.Argument(metavar="ID")]

app = typer.Typer(rich_markup_mode=None)
dead_letters = typer.Typer(rich_markup_mode=None, epilog="Example: pyoco-client dlq list")
app.add_typer(dead_letters, name="dlq", help="Show dead letters, and run what they are about again.")


@app.command(epilog="Example: pyoco-client workers --scope all --include-hidden")
def workers(
    ctx: typer.Context,
    scope: Annotated[str | None, typer.Option(help="active or all. [default: active]")] = None,
    state: Annotated[
        str | None, typer.Option(help="RUNNING, IDLE, STOPPED_GRACEFUL or DISCONNECTED.")
    ] = None,
    include_hidden: Annotated[bool, typer.Option("--include-hidden", help="Include hidden workers.")] = False,
    limit: Annotated[int | None, typer.Option(help="How many at most, up to 500. [default: 100]")] = None,
    output: OutputOption = None,
) -> None:
    """List workers, those seen last first."""
    with connect(ctx) as client:
        found = client.get_workers(
            scope=scope, state=state, include_hidden=include_hidden or None, limit=limit
        )
    show_items(found, WORKERS, output)


@app.command("worker-hide", epilog="Example: pyoco-client worker-hide --worker-id w1 --no-hidden")
def worker_hide(
    ctx: typer.Context,
    worker: WorkerIdArgument = None,
    worker_id: WorkerIdOption = None,
    hidden: Annotated[bool, typer.Option("--hidden/--no-hidden", help="Hide it, or show it again.")] = True,
) -> None:
    """Hide a worker from lists, or show it again."""
    wanted = _only_worker_id(worker, worker_id, "hide")
    with connect(ctx) as client:
        show_json(client.patch_worker_hidden(wanted, hidden=hidden))


@app.command("worker-drain", epilog=f"Example: {DRAIN_EXAMPLE}")
def worker_drain(
    ctx: typer.Context,
    worker: WorkerIdArgument = None,
    worker_id: WorkerIdOption = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until it has no run left; exit code 8 if it still has runs.")
    ] = False,
    timeout_sec: Annotated[
        float | None,
        typer.Option(min=0, help="With --wait: give up after this many seconds. [default: never]"),
    ] = None,
) -> None:
    """Let a worker finish its runs and take no new ones. Its process stays alive; a restart ends draining."""
    wanted = _only_worker_id(worker, worker_id, "drain")
    check_timeout(wait, timeout_sec, DRAIN_EXAMPLE)
    with connect(ctx) as client:
        answer = client.patch_worker_draining(wanted, draining=True)
        if wait:
            _wait_until_drained(client, wanted, timeout_sec)
    show_json(answer | ({"drained": True} if wait else {}))


@app.command("worker-resume", epilog="Example: pyoco-client worker-resume --worker-id w1")
def worker_resume(
    ctx: typer.Context, worker: WorkerIdArgument = None, worker_id: WorkerIdOption = None
) -> None:
    """Let a worker that drains take runs again."""
    wanted = _only_worker_id(worker, worker_id, "resume")
    with connect(ctx) as client:
        show_json(client.patch_worker_draining(wanted, draining=False))


@app.command(epilog="Example: pyoco-client metrics")
def metrics(ctx: typer.Context) -> None:
    """Print the gateway's metrics in Prometheus' text format."""
    with connect(ctx) as client:
        sys.stdout.write(client.get_metrics())


@app.command(epilog="Example: pyoco-client wheels")
def wheels(ctx: typer.Context, output: OutputOption = None) -> None:
    """List the wheels that workers can install."""
    with connect(ctx) as client:
        found = client.list_wheels()
    show_items(found, WHEELS, output)


@app.command("wheel-history", epilog="Example: pyoco-client wheel-history --action upload --limit 20")
def wheel_history(
    ctx: typer.Context,
    limit: Annotated[int, typer.Option(help="How many at most, up to 500.")] = 100,
    wheel_name: Annotated[str | None, typer.Option(help="Only of this file name.")] = None,
    action: Annotated[str | None, typer.Option(help="upload or delete.")] = None,
    output: OutputOption = None,
) -> None:
    """List uploads and deletions, with their callers and addresses; the latest first."""
    with connect(ctx) as client:
        found = client.list_wheel_history(limit=limit, wheel_name=wheel_name, action=action)
    show_items(found, HISTORY, output)


@app.command("wheel-upload", epilog=f"Example: {UPLOAD_EXAMPLE}")
def wheel_upload(
    ctx: typer.Context,
    path: Annotated[Path | None, typer.Argument(metavar="[FILE]", help="Path of the *.whl file.")] = None,
    wheel_file: Annotated[Path | None, typer.Option(help="Path of the *.whl file, as an option.")] = None,
    tags: Annotated[
        str | None, typer.Option(help="Comma-separated: only for workers with one of these tags.")
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace/--no-replace", help="Kept for compatibility; versions decide.")
    ] = True,
) -> None:
    """Upload a wheel. Its version must be higher than all stored versions of the package."""
    wanted = [part.strip() for part in (tags or "").split(",") if part.strip()]
    given = only_file(path, wheel_file, "wheel", UPLOAD_EXAMPLE)
    try:
        file = given.open("rb")
    except OSError as error:
        message = f"--wheel-file {str(given)!r} cannot be read ({error.strerror})."
        raise WrongArguments(message, hint=UPLOAD_EXAMPLE) from error
    with file, connect(ctx) as client:
        show_json(client.upload_wheel(filename=given.name, data=file, replace=replace, tags=wanted))


@app.command("wheel-download", epilog="Example: pyoco-client wheel-download --name x.whl --to x.whl")
def wheel_download(
    ctx: typer.Context,
    wheel: WheelNameArgument = None,
    name: WheelNameOption = None,
    to: Annotated[
        Path | None, typer.Option(help="Where to write it. [default: its own name, in this folder]")
    ] = None,
) -> None:
    """Download a wheel into a file."""
    wanted = _only_wheel_name(wheel, name, "download")
    file = to or Path(Path(wanted).name)
    with connect(ctx) as client:
        client.download_wheel(wanted, file)
    show_json({"name": wanted, "file": str(file)})


@app.command("wheel-delete", epilog="Example: pyoco-client wheel-delete --name demo-1.0-py3-none-any.whl")
def wheel_delete(ctx: typer.Context, wheel: WheelNameArgument = None, name: WheelNameOption = None) -> None:
    """Delete a wheel; workers remove it at their next sync."""
    wanted = _only_wheel_name(wheel, name, "delete")
    with connect(ctx) as client:
        show_json(client.delete_wheel(wanted))


@dead_letters.command("list", epilog="Example: pyoco-client dlq list --reason execution_error --limit 20")
def list_(
    ctx: typer.Context,
    limit: LimitOption = None,
    reason: Annotated[str | None, typer.Option(help="Only with this reason, like max_deliver.")] = None,
    cursor: CursorOption = None,
    output: OutputOption = None,
) -> None:
    """List dead letters, newest first."""
    with connect(ctx) as client:
        page = client.list_dead_letters(limit=limit, reason=reason, cursor=cursor)
    show_page(page, LETTERS, output)


@dead_letters.command(epilog="Example: pyoco-client dlq get 17")
def get(ctx: typer.Context, letter_id: LetterIdArgument) -> None:
    """Show one dead letter, with its message."""
    with connect(ctx) as client:
        show_json(client.get_dead_letter(letter_id))


@dead_letters.command(epilog="Example: pyoco-client dlq redrive 17")
def redrive(
    ctx: typer.Context,
    letter_id: LetterIdArgument,
    again: Annotated[bool, typer.Option("--again", help="Even if it was redriven before.")] = False,
) -> None:
    """Run what the letter is about again, as a new run."""
    with connect(ctx) as client:
        show_json(client.redrive_dead_letter(letter_id, again=again))


def _only_worker_id(argument: str | None, option: str | None, command: str) -> str:
    return only_id(argument, option, f"worker-{command} --worker-id WORKER_ID", "worker")


def _only_wheel_name(argument: str | None, option: str | None, command: str) -> str:
    return only_id(argument, option, f"wheel-{command} --name NAME", "wheel")


def _wait_until_drained(client: PyocoHttpClient, worker_id: str, timeout_sec: float | None) -> None:
    from pyoco_server.http_client.workers import NotDrained

    try:
        client.wait_drained(worker_id, timeout_sec)
    except NotDrained as other:
        raise CliRefusal(str(other), hint="pyoco-client workers") from other
    except TimeoutError as late:
        typer.echo(f"{late} It drains on.", err=True)
        raise typer.Exit(STILL_RUNNING) from late
