"""`wheel list`, `history`, `upload`, `download` and `delete`: code for workers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pyoco_server.cli.client.ids import only_id
from pyoco_server.cli.client.options import OutputOption, connect, only_file
from pyoco_server.cli.client.output import show_items, show_outcome
from pyoco_server.cli.client.tables import Column, Item, at, text, words_of
from pyoco_server.cli.entry import WrongArguments

HISTORY_EXAMPLE = "pyoco-client wheel history --action upload --limit 20"
DOWNLOAD_EXAMPLE = "pyoco-client wheel download x-1.0-py3-none-any.whl --to x.whl"
DELETE_EXAMPLE = "pyoco-client wheel delete demo-1.0-py3-none-any.whl"
UPLOAD_EXAMPLE = "pyoco-client wheel upload dist/demo-1.0-py3-none-any.whl --tags cpu,linux"

WheelNameArgument = Annotated[str | None, typer.Argument(metavar="NAME", help="The wheel's file name.")]
WheelNameOption = Annotated[str | None, typer.Option("--name", help="The wheel's file name, as an option.")]


def wheels(ctx: typer.Context, output: OutputOption = None) -> None:
    """List the wheels that workers can install."""
    with connect(ctx) as client:
        found = client.list_wheels()
    show_items(found, WHEELS, output, empty=f"No wheels. Upload one: {UPLOAD_EXAMPLE}")


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
    show_items(found, HISTORY, output, empty="No wheel was uploaded or deleted.")


def wheel_upload(
    ctx: typer.Context,
    path: Annotated[Path | None, typer.Argument(metavar="FILE", help="Path of the *.whl file.")] = None,
    wheel_file: Annotated[Path | None, typer.Option(help="Path of the *.whl file, as an option.")] = None,
    tags: Annotated[
        str | None, typer.Option(help="Comma-separated: only for workers with one of these tags.")
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace/--no-replace", help="Kept for compatibility; versions decide.")
    ] = True,
    output: OutputOption = None,
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
        stored = client.upload_wheel(filename=given.name, data=file, replace=replace, tags=wanted)
    workers = f"workers with tag {' or '.join(wanted)}" if wanted else "all workers that install wheels"
    show_outcome(stored, [f"Wheel {stored['name']} was stored for {workers}."], output)


def wheel_download(
    ctx: typer.Context,
    wheel: WheelNameArgument = None,
    name: WheelNameOption = None,
    to: Annotated[
        Path | None, typer.Option(help="Where to write it. [default: its own name, in this folder]")
    ] = None,
    output: OutputOption = None,
) -> None:
    """Download a wheel into a file."""
    wanted = _only_wheel_name(wheel, name, "download")
    file = to or Path(Path(wanted).name)
    with connect(ctx) as client:
        client.download_wheel(wanted, file)
    show_outcome({"name": wanted, "file": str(file)}, [f"Wheel {wanted} was written to {file}."], output)


def wheel_delete(
    ctx: typer.Context,
    wheel: WheelNameArgument = None,
    name: WheelNameOption = None,
    output: OutputOption = None,
) -> None:
    """Delete a wheel; workers remove it at their next sync."""
    wanted = _only_wheel_name(wheel, name, "delete")
    with connect(ctx) as client:
        answer = client.delete_wheel(wanted)
    show_outcome(answer, [f"Wheel {wanted} was deleted. Workers remove it at their next sync."], output)


def _size(item: Item) -> str:
    size = item.get("size_bytes")
    if not isinstance(size, int):
        return words_of(size)
    for unit, bytes_ in (("MiB", 1024**2), ("KiB", 1024)):
        if size >= bytes_:
            return f"{size / bytes_:.1f} {unit}"
    return f"{size} B"


WHEELS = (
    Column("NAME", text("name"), is_cut=True),
    Column("TAGS", text("tags"), is_cut=True),
    Column("SIZE", _size, rank=1),
    Column("UPLOADED", at("modified")),
    Column("SHA256", text("sha256_hex"), rank=2, is_cut=True),
)
HISTORY = (
    Column("WHEN", at("occurred_at")),
    Column("ACTION", text("action")),
    Column("WHEEL", text("wheel_name"), is_cut=True),
    Column("TAGS", text("tags"), rank=2, is_cut=True),
    Column("SIZE", _size, rank=4),
    Column("BY", text("actor"), rank=1, is_cut=True),
    Column("FROM", text("source"), rank=3, is_cut=True),
)


def _only_wheel_name(argument: str | None, option: str | None, command: str) -> str:
    return only_id(argument, option, f"wheel {command} NAME", "wheel")
