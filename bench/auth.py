"""The cost of an API key: the same requests to two gateways of one broker, one of which requires keys."""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from bench.http_client import Connection
from bench.stack import Stack, free_port, stack
from bench.submit import BODY
from pyoco_server.config import NatsBackendConfig
from pyoco_server.operations.identity.api_keys import create_key
from pyoco_server.store.store import Store

CLIENTS = 16
OTHER_KEYS = 1000
# The gateways take turns, so that other load on the machine affects both.
ROUNDS = 8


class Cost(NamedTuple):
    cpu_sec: float
    seconds: float


async def auth_cost(*, count: int = 24_000) -> dict[str, float]:
    async with stack("interval") as plain:
        await plain.gateway()
        with tempfile.TemporaryDirectory(prefix="pyoco-bench-") as folder:
            keyed = Stack(plain.broker, free_port(), Path(folder))
            keyed.env |= {"PYOCO_HTTP_AUTH_MODE": "api_key"}
            try:
                key = await _a_key_among_many(plain.broker.url)
                await keyed.gateway()
                return await _compared(plain, keyed, key, count)
            finally:
                keyed.end()


async def _compared(plain: Stack, keyed: Stack, key: str, count: int) -> dict[str, float]:
    figures: dict[str, float] = {}
    nothing = "x" * len(key)  # the same bytes on the wire
    for what in ("GET /runs/{id}", "POST /runs"):
        await _asked(plain, "X-Nothing", nothing, what, 300)
        await _asked(keyed, "X-API-Key", key, what, 300)
        without, with_key = [], []
        for _ in range(ROUNDS):
            without.append(await _asked(plain, "X-Nothing", nothing, what, count // ROUNDS))
            with_key.append(await _asked(keyed, "X-API-Key", key, what, count // ROUNDS))
        cpu = [sum(cost.cpu_sec for cost in costs) / count * 1e6 for costs in (without, with_key)]
        rate = [count / sum(cost.seconds for cost in costs) for costs in (without, with_key)]
        figures |= {f"{what}, gateway CPU µs without": cpu[0], f"{what}, gateway CPU µs with a key": cpu[1]}
        figures |= {f"{what}, requests/s without": rate[0], f"{what}, requests/s with a key": rate[1]}
        figures |= {f"{what}, share of the key in %": (cpu[1] / cpu[0] - 1) * 100}
    return figures


class _Sending(Connection):
    """Sends one additional header with every request."""

    header = b""

    async def _exchange(self, request: bytes) -> tuple[int, bytes]:
        return await super()._exchange(request.replace(b"\r\n", b"\r\n" + self.header, 1))


async def _asked(started: Stack, name: str, value: str, what: str, count: int) -> Cost:
    connections = [await _connected(started, name, value) for _ in range(CLIENTS)]
    _, accepted = await connections[0].post("/runs", BODY)
    path = f"/runs/{accepted['run_id']}"
    left = iter(range(count))

    async def client(connection: Connection) -> None:
        for _ in left:
            status, _ = await (
                connection.get(path) if what.startswith("GET") else connection.post("/runs", BODY)
            )
            assert status == 200

    cpu, begun = started.processor_sec()[0], time.perf_counter()
    await asyncio.gather(*map(client, connections))
    cost = Cost(started.processor_sec()[0] - cpu, time.perf_counter() - begun)
    for connection in connections:
        connection.close()
    return cost


async def _connected(started: Stack, name: str, value: str) -> Connection:
    connection = await _Sending.open("127.0.0.1", started.port)
    assert isinstance(connection, _Sending)
    connection.header = f"{name}: {value}\r\n".encode()
    return connection


async def _a_key_among_many(url: str) -> str:
    store = await Store.connect(NatsBackendConfig(nats_url=url), name="bench")
    for _ in range(OTHER_KEYS):
        await create_key(store, "others")
    key, _ = await create_key(store, "bench")
    await store.close()
    return key
