"""`top`: a live view of runs, workers and backlog. Without the package `textual` it says what to install."""

from __future__ import annotations

import sys
from importlib.util import find_spec

import typer

from pyoco_server.cli.client.connection import chosen_connection
from pyoco_server.cli.entry import CliRefusal, WrongArguments

INSTALL = "pip install 'pyoco-server[top]'"


def top(ctx: typer.Context) -> None:
    """Watch runs, workers and backlog on the terminal; keys open, cancel and answer runs.

    It needs the extra `pyoco-server[top]`. The screen shows the keys.
    """
    if find_spec("textual") is None:
        raise CliRefusal("The package 'textual' is not installed.", hint=INSTALL)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        message = "`top` needs a terminal. In a pipe, `run list --watch` prints the changes."
        raise WrongArguments(message, hint="pyoco-client run list --watch")
    from pyoco_server.cli.client.top.app import watch_gateway

    raise typer.Exit(watch_gateway(chosen_connection(ctx.obj)))
