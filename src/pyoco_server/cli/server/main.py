"""`pyoco-server`: the options of `up`. What it does is in `up.py`."""

from __future__ import annotations

from typing import Annotated

import typer

from pyoco_server.cli.entry import UpByDefault, run

UP_EXAMPLE = "pyoco-server up --flow-resolver my_flows.py:resolve"

app = typer.Typer(
    cls=UpByDefault, add_completion=False, rich_markup_mode=None, epilog=f"Example: {UP_EXAMPLE}"
)


Host = Annotated[str | None, typer.Option(help="Address the gateway listens on. [default: 127.0.0.1]")]
Port = Annotated[
    int | None, typer.Option(min=0, max=65535, help="Its port; 0 takes a free one. [default: 8000]")
]
AllowUnauthenticated = Annotated[
    bool,
    typer.Option(
        "--allow-unauthenticated", help="Serve other addresses than loopback although authentication is off."
    ),
]
LogLevel = Annotated[str | None, typer.Option(help="DEBUG, INFO, WARNING or ERROR.")]
NatsUrl = Annotated[
    str | None, typer.Option(help="Broker to use instead of the embedded one, as nats://host:4222.")
]
DashboardLang = Annotated[str | None, typer.Option(help="Language of the dashboard: auto, ja or en.")]
WithNatsBootstrap = Annotated[
    bool, typer.Option("--with-nats-bootstrap", help="Use the embedded broker (the default).")
]
WithWorker = Annotated[
    bool | None,
    typer.Option(
        "--with-worker/--no-worker", help="Start a worker too. [default: with the embedded broker only]"
    ),
]
WorkerTags = Annotated[
    list[str] | None,
    typer.Option(
        "--worker-tags",
        "--tags",
        metavar="TAG,TAG",
        help="Tags its worker serves besides `default`; repeatable. Needs --flow-resolver.",
    ),
]
FlowResolver = Annotated[
    str | None,
    typer.Option(help="Flows of its worker: module:fn or path/to/file.py:fn. [default: demo flows]"),
]
DataDir = Annotated[
    str | None, typer.Option(help="Folder of the embedded broker's data. [default: .pyoco/data]")
]
Durability = Annotated[
    str | None,
    typer.Option(help="When the embedded broker syncs to disk: always or interval. [default: always]"),
]
Concurrency = Annotated[
    int | None, typer.Option(min=1, help="Runs its worker executes at once. [default: one per core]")
]
WorkerId = Annotated[str | None, typer.Option(help="Name of its worker. [default: <hostname>-up-<port>]")]


@app.callback()
def pyoco_server() -> None:
    """Run pyoco flows reliably. Without a subcommand: `up`."""


@app.command(epilog=f"Example: {UP_EXAMPLE}")
def up(
    host: Host = None,
    port: Port = None,
    allow_unauthenticated: AllowUnauthenticated = False,
    log_level: LogLevel = None,
    nats_url: NatsUrl = None,
    dashboard_lang: DashboardLang = None,
    with_nats_bootstrap: WithNatsBootstrap = False,
    with_worker: WithWorker = None,
    worker_tags: WorkerTags = None,
    flow_resolver: FlowResolver = None,
    data_dir: DataDir = None,
    durability: Durability = None,
    concurrency: Concurrency = None,
    worker_id: WorkerId = None,
) -> None:
    """Start broker, gateway and a worker on this machine; Ctrl-C stops all of them.

    With --nats-url (or PYOCO_NATS_URL) the broker is yours, and only the gateway is started.
    """
    from pyoco_server.cli.server.up import up as bring_up
    from pyoco_server.cli.server.up_plan import WorkerWishes, plan_up

    flags = {
        "http_host": host,
        "http_port": port,
        "allow_unauthenticated": allow_unauthenticated or None,
        "log_level": log_level,
        "nats_url": nats_url,
        "dashboard_lang": dashboard_lang,
        "data_dir": data_dir,
        "durability": durability,
        "worker_concurrency": concurrency,
    }
    wishes = WorkerWishes(with_worker, worker_tags, flow_resolver, worker_id)
    raise typer.Exit(bring_up(plan_up(flags, wishes, embedded=with_nats_bootstrap)))


def main() -> None:
    run(app, "pyoco-server")


if __name__ == "__main__":
    main()
