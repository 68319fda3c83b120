"""`worker list`, `hide`, `drain` and `resume`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from pyoco_server.cli.client.ids import only_id
from pyoco_server.cli.client.options import STILL_RUNNING, OutputOption, check_timeout, connect
from pyoco_server.cli.client.output import show_items, show_outcome
from pyoco_server.cli.client.place import place_of
from pyoco_server.cli.client.tables import Column, Item, at, known_as, text, words_of
from pyoco_server.cli.entry import CliRefusal

if TYPE_CHECKING:
    from pyoco_server.http_client import PyocoHttpClient

LIST_EXAMPLE = "pyoco-client worker list --scope all --include-hidden"
HIDE_EXAMPLE = "pyoco-client worker hide w1 --no-hidden"
RESUME_EXAMPLE = "pyoco-client worker resume w1"
DRAIN_EXAMPLE = "pyoco-client worker drain w1 --wait --timeout-sec 600"

WorkerIdArgument = Annotated[str | None, typer.Argument(metavar="WORKER_ID", help="The worker's id.")]
WorkerIdOption = Annotated[str | None, typer.Option("--worker-id", help="The worker's id, as an option.")]


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
    command = place_of(ctx).command("worker list --scope all")
    show_items(found, WORKERS, output, empty=f"No live workers. Those that have stopped: {command}")


def worker_hide(
    ctx: typer.Context,
    worker: WorkerIdArgument = None,
    worker_id: WorkerIdOption = None,
    hidden: Annotated[bool, typer.Option("--hidden/--no-hidden", help="Hide it, or show it again.")] = True,
    output: OutputOption = None,
) -> None:
    """Hide a worker from lists, or show it again."""
    wanted = _only_worker_id(worker, worker_id, "hide")
    with connect(ctx) as client:
        answer = client.patch_worker_hidden(wanted, hidden=hidden)
    show_outcome(
        answer, [f"Worker {wanted} is {'hidden from lists' if hidden else 'in lists again'}."], output
    )


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
    output: OutputOption = None,
) -> None:
    """Let a worker finish its runs and take no new ones. Its process stays alive; a restart ends draining."""
    wanted = _only_worker_id(worker, worker_id, "drain")
    check_timeout(wait, timeout_sec, DRAIN_EXAMPLE)
    with connect(ctx) as client:
        answer = client.patch_worker_draining(wanted, draining=True)
        if wait:
            _wait_until_drained(client, wanted, timeout_sec)
    ended = "has no run left" if wait else "takes no new runs and finishes those that it has"
    show_outcome(answer | ({"drained": True} if wait else {}), [f"Worker {wanted} {ended}."], output)


def worker_resume(
    ctx: typer.Context,
    worker: WorkerIdArgument = None,
    worker_id: WorkerIdOption = None,
    output: OutputOption = None,
) -> None:
    """Let a worker that drains take runs again."""
    wanted = _only_worker_id(worker, worker_id, "resume")
    with connect(ctx) as client:
        answer = client.patch_worker_draining(wanted, draining=False)
    show_outcome(answer, [f"Worker {wanted} takes runs again."], output)


def worker_state(item: Item) -> str:
    """The state, and what an operator has asked for."""
    marks = [name for name in ("draining", "hidden") if item.get(name)]
    return ", ".join([words_of(item.get("state")), *marks])


def worker_runs(item: Item) -> str:
    """The runs that it executes. Some gateways name one only."""
    match item.get("current_run_ids"):
        case [_, *_] as many:
            return ", ".join(known_as(str(one)) for one in many)
    return known_as(words_of(item.get("current_run_id")))


def worker_slots(item: Item) -> str:
    slots, free = item.get("slots"), item.get("free_slots")
    return f"{slots - free}/{slots}" if isinstance(slots, int) and isinstance(free, int) else ""


def worker_cpu(item: Item) -> str:
    match item.get("usage"):
        case {"cpu": int() | float() as cores}:
            return f"{cores:.2f}"
    return ""


def worker_memory(item: Item) -> str:
    match item.get("usage"):
        case {"memory_bytes": int(size)}:
            return f"{size / 2**20:.0f} MiB"
    return ""


WORKERS = (
    Column("WORKER", text("worker_id"), is_cut=True),
    Column("STATE", worker_state),
    Column("BUSY", worker_slots, rank=3),
    Column("CPU", worker_cpu, rank=5),
    Column("MEMORY", worker_memory, rank=5),
    Column("TAGS", text("tags"), is_cut=True),
    Column("RUNS", worker_runs, rank=1, is_cut=True),
    Column("LAST RUN", text("last_run_status"), rank=4),
    Column("SEEN", at("last_seen_at")),
    Column("PROBLEM", text("problem"), rank=1, is_cut=True),
)


def _only_worker_id(argument: str | None, option: str | None, command: str) -> str:
    return only_id(argument, option, f"worker {command} WORKER_ID", "worker")


def _wait_until_drained(client: PyocoHttpClient, worker_id: str, timeout_sec: float | None) -> None:
    from pyoco_server.http_client.workers import NotDrained

    try:
        client.wait_drained(worker_id, timeout_sec)
    except NotDrained as other:
        raise CliRefusal(str(other), hint="pyoco-client worker list") from other
    except TimeoutError as late:
        typer.echo(f"{late} It drains on.", err=True)
        raise typer.Exit(STILL_RUNNING) from late
