"""The command people start a gateway with, as a process of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from pyoco_server.config import NatsBackendConfig, default_of, field_names, variable_of
from tests.conftest import free_port, until
from tests.http_api.serving import ULID, is_ready, submit


@contextmanager
def gateway(config: NatsBackendConfig, port: int) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "uvicorn", "pyoco_server.http_api:create_app", "--factory"]
    command += ["--host", "127.0.0.1", "--port", str(port), "--log-level", "warning"]
    changed = {name: getattr(config, name) for name in field_names()}
    settings = {variable_of(n): str(v) for n, v in changed.items() if v != default_of(n)}
    process = subprocess.Popen(command, env=os.environ | settings | {"PYOCO_LOAD_DOTENV": "0"})
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


async def test_uvicorn_serves_the_factory_and_stops_when_told(config: NatsBackendConfig) -> None:
    port = free_port()
    with gateway(config, port) as process:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
            await until(lambda: _answers_ready(client), within_sec=30)
            run_id = await submit(client)
            assert (await client.get(f"/runs/{run_id}")).json()["status"] == "PENDING"
            assert [run["run_id"] for run in (await client.get("/runs")).json()] == [run_id]
            assert ULID.fullmatch((await client.get("/nope")).headers["x-request-id"])
            assert _chunked_answer(port).startswith(b"HTTP/1.1 413 ")
            assert (await client.get("/health")).status_code == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(15) in (0, -signal.SIGTERM)


async def test_a_gateway_that_is_told_to_stop_does_not_wait_for_its_streams(
    config: NatsBackendConfig,
) -> None:
    port = free_port()
    with gateway(config, port) as process:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            await until(lambda: _answers_ready(client), within_sec=30)
            run_id = await submit(client, tag="nobody")
            query = {"timeout_sec": 600}
            async with client.stream("GET", f"/runs/{run_id}/watch", params=query) as answer:
                coming = answer.aiter_text()
                assert (await anext(coming)).startswith("retry: ")
                process.send_signal(signal.SIGTERM)
                # Read to its proper end: a connection that was only dropped would raise.
                assert [text async for text in coming if "snapshot" not in text] == []
        assert process.wait(15) in (0, -signal.SIGTERM)


async def _answers_ready(client: httpx.AsyncClient) -> bool:
    try:
        return await is_ready(client)
    except httpx.TransportError:
        return False


def _chunked_answer(port: int) -> bytes:
    """A body of nine megabytes in chunks that nobody announced; we stop when we are answered."""
    head = b"POST /runs HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(head)
        try:
            for _ in range(144):
                connection.sendall(chunk)
        except OSError:
            pass  # it hung up on us, having answered
        return connection.recv(4096)
