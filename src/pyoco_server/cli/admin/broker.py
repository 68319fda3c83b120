"""One request of a command to the broker: connect, ask, close. An unavailable broker is a `CliRefusal`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar

import typer

from pyoco_server.cli import settings
from pyoco_server.cli.entry import CliRefusal
from pyoco_server.config import NatsBackendConfig, without_credentials
from pyoco_server.errors import Unavailable
from pyoco_server.store.store import Store

CONNECT_TIMEOUT_SEC = 5.0

T = TypeVar("T")

NatsUrlOption = Annotated[
    str | None,
    typer.Option(help="Broker to ask. Default: PYOCO_NATS_URL, else the one of the data folder."),
]
DataDirOption = Annotated[
    str | None, typer.Option(help="Data folder of the `pyoco-server up` whose broker to use.")
]


def ask_broker(
    nats_url: str | None,
    data_dir: str | None,
    ask: Callable[[Store], Awaitable[T]],
    *,
    as_it_is: bool = False,
) -> T:
    """`as_it_is`: create and check no stream before `ask`."""
    config = settings.config_near_broker(settings.read_settings(nats_url=nats_url, data_dir=data_dir))
    # The refusal has the reason. Without a handler, Python would print warnings of the connection before it.
    logging.getLogger().addHandler(logging.NullHandler())
    try:
        return asyncio.run(_with_store(config, ask, open_store=Store.reach if as_it_is else Store.open))
    except Unavailable as away:
        raise CliRefusal(away.message, err_id=away.err_id or "") from away


async def _with_store(
    config: NatsBackendConfig,
    ask: Callable[[Store], Awaitable[T]],
    open_store: Callable[[Store], Awaitable[object]],
) -> T:
    store = Store(config, name="pyoco-server-admin")
    try:
        await _open(store, open_store)
        return await ask(store)
    finally:
        await store.close()


async def _open(store: Store, open_store: Callable[[Store], Awaitable[object]]) -> None:
    try:
        await connect_in_time(open_store(store))
    except TimeoutError:
        url = without_credentials(store.config.nats_url)
        raise CliRefusal(
            f"The broker at {url} is not available: {store.why_not_ready}.",
            hint="pyoco-server-admin doctor",
            err_id="ERR-PYOCO-0003",
        ) from None


async def connect_in_time(connecting: Awaitable[object]) -> None:
    """A store waits for its broker without a limit; a command waits for a limited time. Raises TimeoutError.

    Not by `asyncio.timeout`, whose one cancel can get lost in a connection attempt before Python 3.12.
    """
    task = asyncio.ensure_future(connecting)
    await asyncio.wait({task}, timeout=CONNECT_TIMEOUT_SEC)
    if not task.done():
        task.cancel()
        raise TimeoutError
    task.result()
