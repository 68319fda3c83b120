"""Responses with a representation of known size and tag: whole, in part, or without body (304, 416)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from pyoco_server.http_api.responses.byte_ranges import Part, RangeRequest, is_known, is_same, wanted_part
from pyoco_server.http_api.responses.error_table import FrameworkRefusal

# Written at once; other requests are served between two pieces.
PIECE_BYTES = 1_048_576


class Representation(NamedTuple):
    """`tag`: without quotes. The same bytes have the same tag at every gateway."""

    kind: str
    tag: str
    size: int
    read: Callable[[int, int], AsyncIterator[bytes]]


def of_bytes(kind: str, tag: str, body: bytes) -> Representation:
    async def read(start: int, stop: int) -> AsyncIterator[bytes]:
        for place in range(start, stop, PIECE_BYTES):
            yield body[place : min(place + PIECE_BYTES, stop)]

    return Representation(kind, tag, len(body), read)


def answer_with(request: Request, shown: Representation) -> Response:
    tag = f'"{shown.tag}"'
    headers = {"ETag": tag, "Cache-Control": "no-cache", "Vary": "Accept", "Accept-Ranges": "bytes"}
    # Takes precedence over ranges: the client has the whole representation.
    if is_known(request.headers.get("if-none-match"), tag):
        return Response(status_code=304, headers=headers)
    part = _part(request, tag, shown.size)
    if part is RangeRequest.NOTHING:
        headers["Content-Range"] = f"bytes */{shown.size}"
        message = f"There are {shown.size} bytes: this part begins after them."
        raise FrameworkRefusal(416, message, headers)
    start, stop = part if isinstance(part, Part) else (0, shown.size)
    if isinstance(part, Part):
        headers["Content-Range"] = f"bytes {start}-{stop - 1}/{shown.size}"
    return _body(request, shown, start, stop, 206 if isinstance(part, Part) else 200, headers)


def _part(request: Request, tag: str, size: int) -> Part | RangeRequest:
    if not is_same(request.headers.get("if-range"), tag):
        return RangeRequest.WHOLE
    return wanted_part(request.headers.get("range"), size)


def _body(
    request: Request, shown: Representation, start: int, stop: int, status: int, headers: dict[str, str]
) -> Response:
    headers |= {"Content-Length": str(stop - start), "Content-Type": shown.kind}
    if request.method == "HEAD":
        return Response(status_code=status, headers=headers)
    return StreamingResponse(shown.read(start, stop), status, headers)
