"""A JSON client for threads: each thread keeps one connection."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Mapping
from typing import Any

JSON = {"content-type": "application/json"}
TIMEOUT_SEC = 200.0


class Http:
    def __init__(self, port: int) -> None:
        self._port = port
        self._local = threading.local()

    def get(self, path: str) -> Any:
        return self._request("GET", path, None, JSON)

    def post(self, path: str, body: object, headers: Mapping[str, str] = {}) -> Any:
        return self._request("POST", path, json.dumps(body), JSON | dict(headers))

    def _request(self, method: str, path: str, body: str | None, headers: Mapping[str, str]) -> Any:
        try:
            return self._exchange(method, path, body, headers)
        except (http.client.HTTPException, ConnectionError):
            # The server may close a connection that was idle. A keep-alive client then opens another one.
            self._local.connection = None
            return self._exchange(method, path, body, headers)

    def _exchange(self, method: str, path: str, body: str | None, headers: Mapping[str, str]) -> Any:
        connection = self._connection()
        connection.request(method, path, body=body, headers=headers)
        answer = connection.getresponse()
        content = answer.read()
        if answer.status >= 300:
            raise HttpError(f"{method} {path}: {answer.status} {content[:300]!r}")
        return json.loads(content) if content else None

    def _connection(self) -> http.client.HTTPConnection:
        connection: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=TIMEOUT_SEC)
            connection.connect()
            connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._local.connection = connection
        return connection


class HttpError(Exception):
    """The server has answered with an error."""
