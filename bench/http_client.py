"""A minimal HTTP client that keeps its connection, so that its own cost stays small."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec


class Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str) -> None:
        self._reader = reader
        self._writer = writer
        self._host = host

    @classmethod
    async def open(cls, host: str, port: int) -> Connection:
        reader, writer = await asyncio.open_connection(host, port)
        return cls(reader, writer, f"{host}:{port}")

    async def get(self, path: str) -> tuple[int, Any]:
        return await self._send(f"GET {path} HTTP/1.1\r\nHost: {self._host}\r\n\r\n".encode())

    async def get_text(self, path: str, headers: str = "") -> tuple[int, str]:
        request = f"GET {path} HTTP/1.1\r\nHost: {self._host}\r\n{headers}\r\n"
        status, body = await self._exchange(request.encode())
        return status, body.decode()

    async def post(self, path: str, body: bytes) -> tuple[int, Any]:
        return await self.send("POST", path, body)

    async def send(self, method: str, path: str, body: bytes, headers: str = "") -> tuple[int, Any]:
        """`headers` are additional headers, each with its line end."""
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: {self._host}\r\nContent-Type: application/json\r\n{headers}"
        )
        return await self._send(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)

    def close(self) -> None:
        self._writer.close()

    async def _send(self, request: bytes) -> tuple[int, Any]:
        status, body = await self._exchange(request)
        return status, msgspec.json.decode(body) if body else None

    async def _exchange(self, request: bytes) -> tuple[int, bytes]:
        self._writer.write(request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        start = head.lower().index(b"content-length:") + len(b"content-length:")
        length = int(head[start : head.index(b"\r\n", start)])
        return int(head[9:12]), await self._reader.readexactly(length)
