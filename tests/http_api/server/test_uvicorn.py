"""The command people start a gateway with, as a process of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import httpx

from pyoco_server.config import NatsBackendConfig, default_of, field_names, variable_of
from tests.conftest import free_port, until
from tests.http_api.serving import ULID, is_ready, submit


@contextmanager
def gateway(
    config: NatsBackendConfig, port: int, files: tuple[int, int] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """`files`: how many it may have open, soft and hard."""
    command = [sys.executable, "-m", "uvicorn", "pyoco_server.http_api:create_app", "--factory"]
    command += ["--host", "127.0.0.1", "--port", str(port), "--log-level", "warning"]
    changed = {name: getattr(config, name) for name in field_names()}
    settings = {variable_of(n): str(v) for n, v in changed.items() if v != default_of(n)}
    if files is not None:
        command = ["sh", "-c", f'ulimit -Sn {files[0]}; ulimit -Hn {files[1]}; exec "$0" "$@"', *command]
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


async def test_silent_connections_cannot_take_all_files_of_a_gateway(config: NatsBackendConfig) -> None:
    """The command knows nothing of our protocol; the application puts it in place."""
    port = free_port()
    limited = replace(config, http_header_timeout_sec=0.5)
    with gateway(limited, port, files=(128, 256)) as process, ExitStack() as held:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
            await until(lambda: _answers_ready(client), within_sec=30)
        assert _files_max(process.pid) == 256
        for _ in range(300):
            held.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10))

        async def answers() -> bool:
            with contextlib.suppress(httpx.TransportError):
                async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as other:
                    return (await other.get("/runs")).status_code == 200
            return False

        await until(answers)
        assert _first_line(port, b"GET / HTTP/1.1\r\nX: " + b"x" * 400_000).startswith(b"HTTP/1.1 431 ")


def _files_max(pid: int) -> int:
    limits = Path(f"/proc/{pid}/limits").read_text()
    return int(next(line.split()[3] for line in limits.splitlines() if line.startswith("Max open files")))


def _first_line(port: int, sent: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        with contextlib.suppress(OSError):  # it may hang up on us, having answered
            connection.sendall(sent)
        return connection.recv(4096).splitlines()[0]


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
