"""Probe a port: whether a process listens there, and whether it is a NATS server. Starts nothing.

A NATS server greets with one line, `INFO {json}`, so a plain socket is enough. A client library would be
slower: nats-py waits two seconds after a refused first connect.
"""

import asyncio
import contextlib
import json
import socket
import time
from dataclasses import dataclass

from pyoco_server.broker.server_conf import address
from pyoco_server.supervision import Backoff

GREETING_TIMEOUT_SEC = 1.0
GREETING_BYTES_MAX = 65_536
PROBE_BACKOFF = Backoff(first_sec=0.005, longest_sec=0.1)


@dataclass(frozen=True, slots=True)
class Greeting:
    """What a NATS server reports in its INFO."""

    server_name: str
    version: str
    jetstream: bool


def foreign_nats(host: str, port: int) -> str | None:
    """One line about the NATS server there, or None. Blocks for at most two seconds."""
    line = _first_line(host, port)
    greeting = parse_greeting(line)
    if greeting is None:
        return None
    jetstream = "with JetStream" if greeting.jetstream else "without JetStream"
    return (
        f"nats-server {greeting.version} {jetstream} at {address(host, port)} (named {greeting.server_name})"
    )


async def wait_until_listening(host: str, port: int, timeout_sec: float) -> bool:
    """Whether connections are accepted there within this time."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout_sec):
            failures = 0
            while not await _accepts(host, port):
                failures += 1
                await asyncio.sleep(PROBE_BACKOFF.after(failures))
            return True
    return False


async def greeting_at(host: str, port: int) -> Greeting | None:
    """The INFO of the NATS server there; None if there is none (yet)."""
    try:
        async with asyncio.timeout(GREETING_TIMEOUT_SEC):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                return parse_greeting(await reader.readline())
            finally:
                writer.close()
    except (
        OSError,
        ValueError,
    ):  # ValueError: a line longer than the reader's limit; TimeoutError is an OSError
        return None


def parse_greeting(line: bytes) -> Greeting | None:
    word, _, rest = line.partition(b" ")
    if word != b"INFO":
        return None
    try:
        info: object = json.loads(rest)
    except ValueError:
        return None
    if not isinstance(info, dict):
        return None
    return Greeting(
        server_name=str(info.get("server_name", "")),
        version=str(info.get("version", "unknown")),
        jetstream=info.get("jetstream") is True,
    )


async def _accepts(host: str, port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(host, port)
    except OSError:
        return False
    writer.close()
    return True


def _first_line(host: str, port: int) -> bytes:
    received = b""
    deadline = time.monotonic() + GREETING_TIMEOUT_SEC
    try:
        with socket.create_connection((host, port), timeout=GREETING_TIMEOUT_SEC) as connection:
            while (
                b"\n" not in received and len(received) < GREETING_BYTES_MAX and time.monotonic() < deadline
            ):
                chunk = connection.recv(GREETING_BYTES_MAX)
                if not chunk:
                    break
                received += chunk
    except OSError:
        return b""
    return received.partition(b"\n")[0]
