"""The operator's commands of `pyoco-client`: workers, metrics, wheels and dead letters."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pyoco_server.cli.client.drain import add_drain_commands
from pyoco_server.cli.client.output import OutputForm, form_or_default, show_json, show_table
from pyoco_server.cli.entry import WrongArguments

if TYPE_CHECKING:
    from pyoco_server.http_client import PyocoHttpClient

UPLOAD_EXAMPLE = "pyoco-client wheel-upload --wheel-file dist/demo-1.0-py3-none-any.whl --tags cpu,linux"

WORKERS = (
    *("worker_id", "state", "draining", "tags", "current_run_id", "last_run_status", "last_seen_at"),
    "hidden",
)
WHEELS = ("name", "tags", "size_bytes", "modified", "sha256_hex")
HISTORY = ("occurred_at", "action", "wheel_name", "tags", "size_bytes", "actor", "source")
LETTERS = ("id", "timestamp", "reason", "run_id", "flow_name", "tag", "error")

OutputOption = Annotated[
    OutputForm | None, typer.Option(help="json or table. [default: table on a terminal, else json]")
]
Client = Callable[[typer.Context], AbstractContextManager["PyocoHttpClient"]]


def add_operator_commands(app: typer.Typer, client: Client) -> None:
    """`client` gives each command the gateway that was named before it."""
    _add_workers(app, client)
    add_drain_commands(app, client)
    _add_wheels(app, client)
    _add_wheel_changes(app, client)
    app.add_typer(_dead_letters(client), name="dlq", help="What could not be run, and another try for it.")


def _add_workers(app: typer.Typer, client: Client) -> None:
    @app.command(epilog="Example: pyoco-client workers --scope all --include-hidden")
    def workers(
        ctx: typer.Context,
        scope: Annotated[str | None, typer.Option(help="active or all. [default: active]")] = None,
        state: Annotated[
            str | None, typer.Option(help="RUNNING, IDLE, STOPPED_GRACEFUL or DISCONNECTED.")
        ] = None,
        include_hidden: Annotated[bool, typer.Option("--include-hidden", help="Those hidden too.")] = False,
        limit: Annotated[int | None, typer.Option(help="How many at most, up to 500. [default: 100]")] = None,
        output: OutputOption = None,
    ) -> None:
        """List workers, those seen last first."""
        with client(ctx) as gateway:
            found = gateway.get_workers(
                scope=scope, state=state, include_hidden=include_hidden or None, limit=limit
            )
        _show(found, WORKERS, output)

    @app.command("worker-hide", epilog="Example: pyoco-client worker-hide --worker-id w1 --no-hidden")
    def worker_hide(
        ctx: typer.Context,
        worker_id: Annotated[str, typer.Option(help="The worker's id.")],
        hidden: Annotated[
            bool, typer.Option("--hidden/--no-hidden", help="Hide it, or show it again.")
        ] = True,
    ) -> None:
        """Hide a worker from lists, or show it again."""
        with client(ctx) as gateway:
            show_json(gateway.patch_worker_hidden(worker_id, hidden=hidden))

    @app.command(epilog="Example: pyoco-client metrics")
    def metrics(ctx: typer.Context) -> None:
        """Print the gateway's metrics in Prometheus' text format."""
        with client(ctx) as gateway:
            sys.stdout.write(gateway.get_metrics())


def _add_wheels(app: typer.Typer, client: Client) -> None:
    @app.command(epilog="Example: pyoco-client wheels")
    def wheels(ctx: typer.Context, output: OutputOption = None) -> None:
        """List the wheels that workers can have."""
        with client(ctx) as gateway:
            found = gateway.list_wheels()
        _show(found, WHEELS, output)

    @app.command("wheel-history", epilog="Example: pyoco-client wheel-history --action upload --limit 20")
    def wheel_history(
        ctx: typer.Context,
        limit: Annotated[int, typer.Option(help="How many at most, up to 500.")] = 100,
        wheel_name: Annotated[str | None, typer.Option(help="Only of this file name.")] = None,
        action: Annotated[str | None, typer.Option(help="upload or delete.")] = None,
        output: OutputOption = None,
    ) -> None:
        """What was uploaded and deleted, by whom and from where; the latest first."""
        with client(ctx) as gateway:
            found = gateway.list_wheel_history(limit=limit, wheel_name=wheel_name, action=action)
        _show(found, HISTORY, output)


def _add_wheel_changes(app: typer.Typer, client: Client) -> None:
    @app.command("wheel-upload", epilog=f"Example: {UPLOAD_EXAMPLE}")
    def wheel_upload(
        ctx: typer.Context,
        wheel_file: Annotated[Path, typer.Option(help="Path of the *.whl file.")],
        tags: Annotated[
            str | None, typer.Option(help="Comma-separated: only for workers with one of these tags.")
        ] = None,
        replace: Annotated[
            bool, typer.Option("--replace/--no-replace", help="Kept for compatibility; versions decide.")
        ] = True,
    ) -> None:
        """Bring a wheel. Of a package only a higher version than all there are is taken."""
        wanted = [part.strip() for part in (tags or "").split(",") if part.strip()]
        try:
            file = wheel_file.open("rb")
        except OSError as error:
            message = f"--wheel-file {str(wheel_file)!r} cannot be read ({error.strerror})."
            raise WrongArguments(message, hint=UPLOAD_EXAMPLE) from error
        with file, client(ctx) as gateway:
            show_json(gateway.upload_wheel(filename=wheel_file.name, data=file, replace=replace, tags=wanted))

    @app.command("wheel-download", epilog="Example: pyoco-client wheel-download --name x.whl --to x.whl")
    def wheel_download(
        ctx: typer.Context,
        name: Annotated[str, typer.Option(help="The wheel's file name.")],
        to: Annotated[
            Path | None, typer.Option(help="Where to write it. [default: its own name here]")
        ] = None,
    ) -> None:
        """Fetch a wheel into a file."""
        with client(ctx) as gateway:
            gateway.download_wheel(name, to or Path(Path(name).name))
        show_json({"name": name, "file": str(to or Path(name).name)})

    @app.command("wheel-delete", epilog="Example: pyoco-client wheel-delete --name demo-1.0-py3-none-any.whl")
    def wheel_delete(
        ctx: typer.Context, name: Annotated[str, typer.Option(help="The wheel's file name.")]
    ) -> None:
        """Delete a wheel; workers let go of it at their next sync."""
        with client(ctx) as gateway:
            show_json(gateway.delete_wheel(name))


def _dead_letters(client: Client) -> typer.Typer:
    app = typer.Typer(rich_markup_mode=None, epilog="Example: pyoco-client dlq list")

    @app.command("list", epilog="Example: pyoco-client dlq list --reason execution_error --limit 20")
    def list_(
        ctx: typer.Context,
        limit: Annotated[int | None, typer.Option(help="How many at most, up to 200. [default: 50]")] = None,
        reason: Annotated[str | None, typer.Option(help="Only with this reason, like max_deliver.")] = None,
        cursor: Annotated[str | None, typer.Option(help="Where the page before ended: next_cursor.")] = None,
        output: OutputOption = None,
    ) -> None:
        """List dead letters, newest first."""
        with client(ctx) as gateway:
            page = gateway.list_dead_letters(limit=limit, reason=reason, cursor=cursor)
        if form_or_default(output) is OutputForm.JSON:
            return show_json(page)
        show_table(page["items"], LETTERS)
        if page["next_cursor"]:
            sys.stdout.write(f"next_cursor: {page['next_cursor']}\n")
        return None

    @app.command(epilog="Example: pyoco-client dlq get 17")
    def get(ctx: typer.Context, letter_id: Annotated[str, typer.Argument(metavar="ID")]) -> None:
        """Show one dead letter, with its message."""
        with client(ctx) as gateway:
            show_json(gateway.get_dead_letter(letter_id))

    @app.command(epilog="Example: pyoco-client dlq redrive 17")
    def redrive(
        ctx: typer.Context,
        letter_id: Annotated[str, typer.Argument(metavar="ID")],
        again: Annotated[bool, typer.Option("--again", help="Even if it was redriven before.")] = False,
    ) -> None:
        """Run what the letter is about again, as a new run."""
        with client(ctx) as gateway:
            show_json(gateway.redrive_dead_letter(letter_id, again=again))

    return app


def _show(items: list[dict[str, Any]], columns: tuple[str, ...], output: OutputForm | None) -> None:
    if form_or_default(output) is OutputForm.JSON:
        show_json(items)
    else:
        show_table(items, columns)
