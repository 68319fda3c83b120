"""Removes the streams of a test from the broker that tests share.

A suite makes tens of thousands of streams. The broker keeps timers and files for each, so every later test
would be slower than the one before.
"""

from __future__ import annotations

import contextlib
import socket

from pyoco_server.config import NatsBackendConfig
from pyoco_server.store.resources import streams

ANSWER_WITHIN_SEC = 10.0


def remove_streams(port: int, configs: list[NatsBackendConfig]) -> None:
    """Request the removal; the broker does it later. A missing stream is ignored."""
    names = [str(stream["name"]) for config in configs for stream in streams(config)]
    asked = "".join(f"PUB $JS.API.STREAM.DELETE.{name} swept 0\r\n\r\n" for name in names)
    with (
        contextlib.suppress(OSError),
        socket.create_connection(("127.0.0.1", port), ANSWER_WITHIN_SEC) as broker,
    ):
        broker.sendall(b'CONNECT {"verbose":false}\r\n' + asked.encode() + b"PING\r\n")
        _read_until(broker, b"PONG")


def _read_until(broker: socket.socket, word: bytes) -> None:
    received = b""
    while word not in received and (chunk := broker.recv(4096)):
        received += chunk
