"""`pyoco-worker`: take jobs of some tags and run their flows until told to stop."""

from __future__ import annotations

import os
import re
import socket
from typing import Annotated

import typer

from pyoco_server.cli import settings
from pyoco_server.cli.entry import WrongArguments, run
from pyoco_server.errors import Invalid
from pyoco_server.logging_config import WORKER_SERVICE
from pyoco_server.names import check_worker_id
from pyoco_server.processes.scheduling import choose_scheduling
from pyoco_server.worker.slots.zygote_spawn import forks_slots, spawn_zygote

RESOLVER_EXAMPLE = "pyoco-worker --flow-resolver my_flows.py:resolve --tags default"
DEMO_TAG = "demo"
DEMO_RESOLVER = "pyoco_server.flows.demo:resolver"

app = typer.Typer(rich_markup_mode=None)

Reload = Annotated[
    bool, typer.Option("--reload", help="Reload the flows when their files change. For development.")
]
WheelSync = Annotated[
    bool | None,
    typer.Option("--wheel-sync/--no-wheel-sync", help="Whether to install the wheels of its tags."),
]
SlotStart = Annotated[
    str | None, typer.Option(help="How slots are started: auto, imports or fresh. [default: auto]")
]


@app.command(epilog=f"Example: {RESOLVER_EXAMPLE}")
def work(
    nats_url: Annotated[
        str | None,
        typer.Option(help="Broker to use. Default: PYOCO_NATS_URL, else the one of the data folder."),
    ] = None,
    tags: Annotated[
        list[str] | None,
        typer.Option(metavar="TAG,TAG", help="Tags to take jobs of; repeatable. [default: default]"),
    ] = None,
    worker_id: Annotated[
        str | None, typer.Option(help="Name of this worker. [default: <hostname>-<process id>]")
    ] = None,
    flow_resolver: Annotated[
        str | None,
        typer.Option(help="Function that turns a flow's name into a Flow: module:fn or path/to/file.py:fn."),
    ] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Serve the demo flows, on tag `demo`.")] = False,
    concurrency: Annotated[
        int | None, typer.Option(min=1, help="Runs executed at once. [default: one per core]")
    ] = None,
    run_once: Annotated[bool, typer.Option("--run-once", help="Handle one job at most, then end.")] = False,
    poll_timeout: Annotated[
        float, typer.Option(min=0.01, help="With --run-once: seconds to wait for a job.")
    ] = 5.0,
    reload: Reload = False,
    wheel_sync: WheelSync = None,
    slot_start: SlotStart = None,
    log_level: Annotated[str | None, typer.Option(help="DEBUG, INFO, WARNING or ERROR.")] = None,
    data_dir: Annotated[
        str | None, typer.Option(help="Data folder of the `pyoco-server up` whose broker to use.")
    ] = None,
) -> None:
    """Run flows: take jobs of some tags from the broker, execute them, record what happens."""
    chosen = settings.read_settings(
        WORKER_SERVICE,
        nats_url=nats_url,
        worker_concurrency=concurrency,
        wheel_sync_enabled=wheel_sync,
        slot_start=slot_start,
        log_level=log_level,
        data_dir=data_dir,
    )
    config = settings.config_near_broker(chosen | settings.text_on_a_terminal(chosen))
    spec = resolver_spec(flow_resolver, demo=demo)
    if reload and run_once:
        raise WrongArguments(
            "--run-once ends before anything could change.", hint=f"{RESOLVER_EXAMPLE} --reload"
        )
    name = checked_worker_id(worker_id or default_worker_id())
    wanted_tags = settings.split_tags(tags) or ([DEMO_TAG] if demo else [config.default_tag])
    settings.write_logs(WORKER_SERVICE, config)
    choose_scheduling(config, has_broker=False)

    # It starts while this process imports the rest.
    zygote = spawn_zygote() if forks_slots(config) else None
    from pyoco_server.cli.worker.process import Work, run_worker

    once_sec = poll_timeout if run_once else None
    run_worker(Work(config, spec, name, wanted_tags, run_once_sec=once_sec, reload=reload, zygote=zygote))


def resolver_spec(given: str | None, *, demo: bool) -> str:
    if demo:
        return DEMO_RESOLVER
    if given is None:
        raise WrongArguments(
            "A worker needs flows: name their resolver, or add --demo.", hint=RESOLVER_EXAMPLE
        )
    return given


def checked_worker_id(worker_id: str) -> str:
    try:
        return check_worker_id(worker_id)
    except Invalid as wrong:
        raise WrongArguments(wrong.message, hint="--worker-id build-machine-1") from wrong


def default_worker_id() -> str:
    return f"{key_safe_hostname()}-{os.getpid()}"


def key_safe_hostname() -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", socket.gethostname())[:64].strip("-") or "worker"


def main() -> None:
    run(app, "pyoco-worker")


if __name__ == "__main__":
    main()
