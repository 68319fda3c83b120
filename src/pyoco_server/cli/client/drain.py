"""`pyoco-client worker-drain` and `worker-resume`: whether a worker takes new runs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Annotated

import typer

from pyoco_server.cli.client.output import show_json
from pyoco_server.cli.client.watch import STILL_RUNNING
from pyoco_server.cli.entry import CliRefusal

if TYPE_CHECKING:
    from pyoco_server.http_client import PyocoHttpClient

EXAMPLE = "pyoco-client worker-drain --worker-id w1 --wait --timeout-sec 600"

WorkerIdOption = Annotated[str, typer.Option(help="The worker's id.")]
Client = Callable[[typer.Context], AbstractContextManager["PyocoHttpClient"]]


def add_drain_commands(app: typer.Typer, client: Client) -> None:
    @app.command("worker-drain", epilog=f"Example: {EXAMPLE}")
    def worker_drain(
        ctx: typer.Context,
        worker_id: WorkerIdOption,
        wait: Annotated[
            bool, typer.Option("--wait", help="Wait until it has no run left; exit code 8 if it has.")
        ] = False,
        timeout_sec: Annotated[
            float | None, typer.Option(min=0, help="With --wait: give up after this long. [default: never]")
        ] = None,
    ) -> None:
        """Let a worker take no new runs and finish those it has. Its process lives on; a new one works."""
        with client(ctx) as gateway:
            asked = gateway.patch_worker_draining(worker_id, draining=True)
            if wait:
                _wait(gateway, worker_id, timeout_sec)
        show_json(asked | ({"drained": True} if wait else {}))

    @app.command("worker-resume", epilog="Example: pyoco-client worker-resume --worker-id w1")
    def worker_resume(ctx: typer.Context, worker_id: WorkerIdOption) -> None:
        """Let a worker that drains take runs again."""
        with client(ctx) as gateway:
            show_json(gateway.patch_worker_draining(worker_id, draining=False))


def _wait(gateway: PyocoHttpClient, worker_id: str, timeout_sec: float | None) -> None:
    from pyoco_server.http_client.workers import NotDrained

    try:
        gateway.wait_drained(worker_id, timeout_sec)
    except NotDrained as other:
        raise CliRefusal(str(other), hint="pyoco-client workers") from other
    except TimeoutError as late:
        typer.echo(f"{late} It drains on.", err=True)
        raise typer.Exit(STILL_RUNNING) from late
