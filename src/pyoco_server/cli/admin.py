"""`pyoco-server-admin`: look at what is stored, straight at the broker. For operators; needs no gateway."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypeVar

import typer

from pyoco_server.cli import settings
from pyoco_server.cli.entry import CANNOT, Refusal, run
from pyoco_server.config import NatsBackendConfig, without_credentials
from pyoco_server.errors import Unavailable
from pyoco_server.store.resources import streams
from pyoco_server.store.store import Store
from pyoco_server.tags import is_run_id

CONNECT_TIMEOUT_SEC = 5.0

T = TypeVar("T")

app = typer.Typer(
    add_completion=False, rich_markup_mode=None, epilog="Example: pyoco-server-admin verify RUN_ID"
)

RunIdArgument = Annotated[str, typer.Argument(metavar="RUN_ID", help="The run's id.")]
NatsUrlOption = Annotated[
    str | None,
    typer.Option(help="Broker to ask. Default: PYOCO_NATS_URL, else the one of the data folder."),
]
DataDirOption = Annotated[
    str | None, typer.Option(help="Data folder of a `pyoco-server up` whose broker is to be found.")
]


@app.callback()
def pyoco_server_admin() -> None:
    """Look at what is stored, straight at the broker."""


@app.command(epilog="Example: pyoco-server-admin verify RUN_ID")
def verify(run_id: RunIdArgument, nats_url: NatsUrlOption = None, data_dir: DataDirOption = None) -> None:
    """Fold a run's log and compare it with its snapshot: ok (0), or what differs (1)."""
    from pyoco_server.cli.verify import differences

    found = _asked(nats_url, data_dir, lambda store: differences(store, _checked(run_id)))
    if found is None:
        raise _unknown(run_id)
    _say("ok" if not found else "\n".join(found))
    raise typer.Exit(CANNOT if found else 0)


@app.command(epilog="Example: pyoco-server-admin events RUN_ID")
def events(run_id: RunIdArgument, nats_url: NatsUrlOption = None, data_dir: DataDirOption = None) -> None:
    """Print a run's log: one JSON object per event, with the sequence of its commit."""
    import msgspec

    commits = _asked(nats_url, data_dir, lambda store: store.runs.events(_checked(run_id)))
    if not commits:
        raise _unknown(run_id)
    for seq, committed in commits:
        for event in committed:
            line: dict[str, Any] = {"seq": seq, **msgspec.to_builtins(event)}
            _say(msgspec.json.encode(line).decode())


@app.command(epilog="Example: pyoco-server-admin resources --nats-url nats://127.0.0.1:4222")
def resources(nats_url: NatsUrlOption = None, data_dir: DataDirOption = None) -> None:
    """Create the streams and buckets that are missing, and list all of them as JSON lines."""
    import msgspec

    for line in _asked(nats_url, data_dir, _sizes):
        _say(msgspec.json.encode(line).decode())


def _asked(nats_url: str | None, data_dir: str | None, ask: Callable[[Store], Awaitable[T]]) -> T:
    config = settings.config_near_broker(settings.read_settings(nats_url=nats_url, data_dir=data_dir))
    try:
        return asyncio.run(_with_store(config, ask))
    except Unavailable as away:
        raise Refusal(away.message, err_id=away.err_id or "") from away


async def _with_store(config: NatsBackendConfig, ask: Callable[[Store], Awaitable[T]]) -> T:
    store = Store(config, name="pyoco-server-admin")
    try:
        await _opened(store)
        return await ask(store)
    finally:
        await store.close()


async def _opened(store: Store) -> None:
    """A store waits for its broker for ever; whoever typed a command does not."""
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_SEC):
            await store.open()
    except TimeoutError:
        url = without_credentials(store.config.nats_url)
        raise Refusal(
            f"The broker at {url} is not available: {store.why_not_ready}.",
            hint="pyoco-server-admin resources --nats-url nats://127.0.0.1:4222",
            err_id="ERR-PYOCO-0003",
        ) from None


async def _sizes(store: Store) -> list[dict[str, Any]]:
    """Opening the store has created what was missing."""
    names = [wanted["name"] for wanted in streams(store.config)]
    found = [(name, await store.jetstream.api(f"STREAM.INFO.{name}")) for name in names]
    return [
        {
            "kind": "bucket" if name.startswith("KV_") else "stream",
            "name": name.removeprefix("KV_"),
            "messages": info["state"]["messages"],
            "bytes": info["state"]["bytes"],
            "replicas": info["config"]["num_replicas"],
        }
        for name, info in found
    ]


def _checked(run_id: str) -> str:
    if not is_run_id(run_id):
        raise _unknown(run_id)
    return run_id


def _unknown(run_id: str) -> Refusal:
    return Refusal(f"There is no run {run_id!r}.", hint="pyoco-client list", err_id="ERR-PYOCO-0005")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def main() -> None:
    run(app, "pyoco-server-admin")


if __name__ == "__main__":
    main()
