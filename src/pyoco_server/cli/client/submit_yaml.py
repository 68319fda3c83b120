"""`pyoco-client submit-yaml`: a run with the flow that it executes, from a file."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pyoco_server.cli.client.watch import PatienceOption, WaitOption
from pyoco_server.cli.entry import WrongArguments

if TYPE_CHECKING:
    from pyoco_server.http_client import PyocoHttpClient

EXAMPLE = "pyoco-client submit-yaml --workflow-file flow.yaml --flow-name nightly --wait"

Connect = Callable[[typer.Context], "AbstractContextManager[PyocoHttpClient]"]
# Show what was accepted, or with a wait how it ended.
Finish = Callable[["PyocoHttpClient", dict[str, Any], bool, float | None], None]


def add_yaml_command(app: typer.Typer, connect: Connect, finish: Finish) -> None:
    @app.command("submit-yaml", epilog=f"Example: {EXAMPLE}")
    def submit_yaml(
        ctx: typer.Context,
        workflow_file: Annotated[Path, typer.Option(help="The workflow: a flow.yaml.")],
        flow_name: Annotated[
            str, typer.Option(help="What the run is called; the file has no name.")
        ] = "main",
        tag: Annotated[
            str | None, typer.Option(help="Routing tag: who may run it. [default: default]")
        ] = None,
        wait: WaitOption = False,
        timeout_sec: PatienceOption = None,
    ) -> None:
        """Submit a flow.yaml as a run. Its parameters are the defaults in the file."""
        workflow = _content(workflow_file)
        with connect(ctx) as client:
            accepted = client.submit_run_yaml(workflow, flow_name=flow_name, tag=tag)
            finish(client, accepted, wait, timeout_sec)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise WrongArguments(f"--workflow-file {path} cannot be read: {error}", hint=EXAMPLE) from error
