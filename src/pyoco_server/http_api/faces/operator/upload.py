"""The upload of a wheel: multipart/form-data, read piece by piece into a file, with a limit on every part.

The file is in the system's folder for temporary files and never as a whole in memory. Bytes are counted while
they are read, so the limit holds without or with a wrong Content-Length.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from python_multipart.exceptions import MultipartParseError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import ClientDisconnect, Request

from pyoco_server.errors import Invalid, TooLarge
from pyoco_server.http_api.faces.operator.params import FLAG
from pyoco_server.http_api.routing.params import Param
from pyoco_server.operations.fleet import wheels

FILE = "wheel"
REPLACE = Param("replace", FLAG, True, place="body")
FIELDS = (REPLACE.name, "tags")
FIELD_BYTES_MAX = 8 * 1024
PARTS_MAX = 16
# Room besides the file: boundaries, headers of parts, other fields.
AROUND_BYTES_MAX = 256 * 1024
WRITE_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Received:
    name: str
    file: Path
    tags: list[str]
    replace: bool


@asynccontextmanager
async def receive_wheel(request: Request, *, bytes_max: int) -> AsyncIterator[Received]:
    """The file is removed afterwards."""
    _check_length(request, bytes_max)
    with tempfile.TemporaryDirectory(prefix="pyoco-wheel-", ignore_cleanup_errors=True) as folder:
        file = Path(folder) / "wheel"
        with file.open("wb") as out:
            form = _Form(_boundary(request), out, bytes_max)
            try:
                async for piece in request.stream():
                    await form.read(piece)
            except ClientDisconnect as error:
                raise Invalid.at(["body", FILE], "The upload ended before its end.") from error
            await form.finish()
        replace = form.fields.get(REPLACE.name)
        yield Received(
            name=form.file_name,
            file=file,
            tags=[part.strip() for part in form.fields.get("tags", "").split(",") if part.strip()],
            replace=REPLACE.default if replace is None else REPLACE.parse(replace),
        )


class _Form:
    def __init__(self, boundary: bytes, out: BinaryIO, bytes_max: int) -> None:
        self.file_name = ""
        self.fields: dict[str, str] = {}
        self._out = out
        self._bytes_max = bytes_max
        self._read = self._written = self._parts = 0
        self._pending = bytearray()
        self._header = (bytearray(), bytearray())
        self._disposition = b""
        self._part: str | None = None
        self._text = bytearray()
        self._is_over = False
        self._has_file = False
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._on_part_begin,
                "on_header_field": lambda data, start, end: self._header[0].extend(data[start:end]),
                "on_header_value": lambda data, start, end: self._header[1].extend(data[start:end]),
                "on_header_end": self._on_header_end,
                "on_headers_finished": self._on_headers_finished,
                "on_part_data": self._on_part_data,
                "on_part_end": self._on_part_end,
                "on_end": self._on_end,
            },
        )

    async def read(self, piece: bytes) -> None:
        self._read += len(piece)
        if self._read > self._bytes_max + AROUND_BYTES_MAX:
            raise too_large(self._bytes_max)
        try:
            self._parser.write(piece)
        except MultipartParseError as error:
            raise Invalid.at(["body", FILE], f"The body is not multipart/form-data: {error}.") from error
        if len(self._pending) >= WRITE_BYTES:
            await self._write()

    async def finish(self) -> None:
        if not self._is_over:
            raise Invalid.at(["body", FILE], "The upload ended before its end.")
        if not self._has_file:
            raise Invalid.at(
                ["body", FILE], "The file is missing: send it as the part `wheel`, with its name."
            )
        await self._write()

    async def _write(self) -> None:
        piece, self._pending = self._pending, bytearray()
        await asyncio.to_thread(self._out.write, piece)

    def _on_part_begin(self) -> None:
        self._parts += 1
        if self._parts > PARTS_MAX:
            raise Invalid.at(["body", FILE], f"The body has more than {PARTS_MAX} parts.")
        self._part, self._text, self._disposition = None, bytearray(), b""

    def _on_header_end(self) -> None:
        name, value = self._header
        if bytes(name).lower() == b"content-disposition":
            self._disposition = bytes(value)
        self._header = (bytearray(), bytearray())

    def _on_headers_finished(self) -> None:
        _, options = parse_options_header(self._disposition)
        self._part = options.get(b"name", b"").decode("utf-8", "replace")
        if self._part != FILE:
            return
        if self._has_file:
            raise Invalid.at(["body", FILE], "There is more than one part `wheel`: send one at a time.")
        self._has_file = True
        self.file_name = options.get(b"filename", b"").decode("utf-8", "replace")
        # Checked before the file is sent.
        wheels.check(self.file_name, ())

    def _on_part_data(self, data: bytes, start: int, end: int) -> None:
        if self._part == FILE:
            self._written += end - start
            if self._written > self._bytes_max:
                raise too_large(self._bytes_max)
            self._pending += data[start:end]
        elif self._part in FIELDS:
            self._text += data[start:end]
            if len(self._text) > FIELD_BYTES_MAX:
                raise Invalid.at(["body", self._part], f"{self._part} has more than {FIELD_BYTES_MAX} bytes.")

    def _on_part_end(self) -> None:
        if self._part in FIELDS:
            try:
                self.fields[self._part] = self._text.decode()
            except UnicodeDecodeError as error:
                raise Invalid.at(["body", self._part], f"{self._part} is not UTF-8 text.") from error

    def _on_end(self) -> None:
        self._is_over = True


def too_large(bytes_max: int) -> TooLarge:
    return TooLarge(
        f"The wheel has more than {bytes_max} bytes (PYOCO_WHEEL_MAX_BYTES).", err_id=Invalid.default_err_id
    )


def _check_length(request: Request, bytes_max: int) -> None:
    length = request.headers.get("content-length", "")
    if length.isdigit() and (len(length) > 18 or int(length) > bytes_max + AROUND_BYTES_MAX):
        raise too_large(bytes_max)


def _boundary(request: Request) -> bytes:
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    boundary = options.get(b"boundary", b"")
    if kind != b"multipart/form-data" or not boundary:
        message = "Send the wheel as multipart/form-data, in the part `wheel`."
        raise Invalid.at(["body", FILE], message)
    return boundary
