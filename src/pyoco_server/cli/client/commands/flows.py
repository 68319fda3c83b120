"""`flow list`, and `metrics` of the gateway."""

from __future__ import annotations

import sys

import typer

from pyoco_server.cli.client.options import OutputOption, connect
from pyoco_server.cli.client.output import show_items
from pyoco_server.cli.client.tables import Column, Item, at, text, words_of
from pyoco_server.printable import lines

EMPTY = "No flows: no live worker announces its flows, and there were no runs."


def flows(ctx: typer.Context, output: OutputOption = None) -> None:
    """List the flows that workers announce or that had runs, with their parameters."""
    with connect(ctx) as client:
        found = client.list_flows()
    show_items(found, FLOWS, output, empty=EMPTY)


def metrics(ctx: typer.Context) -> None:
    """Print the gateway's metrics in Prometheus' text format."""
    with connect(ctx) as client:
        found = client.get_metrics()
    sys.stdout.write(lines(found) if sys.stdout.isatty() else found)


def _params(item: Item) -> str:
    """As in a signature: what has no default must be given."""
    match item.get("params"):
        case [_, *_] as many:
            return ", ".join(_param(one) for one in many)
    return ""


def _param(one: object) -> str:
    match one:
        case {"name": str(name), "required": False, "default": default}:
            return f"{name}={words_of(default)}"
        case {"name": str(name)}:
            return name
    return words_of(one)


FLOWS = (
    Column("FLOW", text("flow_name"), is_cut=True),
    Column("PARAMETERS", _params, rank=1, is_cut=True),
    Column("TAGS", text("tags"), rank=2, is_cut=True),
    Column("WORKERS", text("workers"), rank=4),
    Column("LAST", text("last_status")),
    Column("CHANGED", at("last_at"), rank=3),
    Column("DESCRIPTION", text("description"), rank=1, is_cut=True),
)
