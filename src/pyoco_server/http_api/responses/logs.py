"""The log of a run over HTTP, for every face: pages of JSON, or all of it as lines or text.

The ETag of a page is a hash of its bytes. The ETag of the whole log is known without reading it.
"""

from __future__ import annotations

import asyncio
import hashlib

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from pyoco_server.http_api.gateway import Gateway
from pyoco_server.http_api.middleware.callers import limit_key_of
from pyoco_server.http_api.requests.connected import while_connected
from pyoco_server.http_api.requests.log_params import LogWords, asks_for_page, read_page_params
from pyoco_server.http_api.responses.error_table import FrameworkRefusal
from pyoco_server.http_api.responses.negotiation import best_kind
from pyoco_server.http_api.responses.representations import Representation, answer_with, of_bytes
from pyoco_server.http_api.routing.operation import Content
from pyoco_server.http_api.routing.schemas import TEXT as STRING
from pyoco_server.http_api.routing.schemas import Schema
from pyoco_server.json_value import JsonObject
from pyoco_server.operations.logs.file import log_file
from pyoco_server.operations.logs.pages import LINES_DEFAULT, LINES_MAX, LogPage
from pyoco_server.store.runs.log import StoredRun

JSON, LINES, TEXT = "application/json", "application/x-ndjson", "text/plain"
KINDS = (JSON, LINES, TEXT)
# Larger pages are encoded in a thread.
ASIDE_BYTES = 1_048_576
_CONTENT_TYPE = {JSON: JSON, LINES: LINES, TEXT: "text/plain; charset=utf-8"}


def log_responses(page: Schema) -> dict[int, Content]:
    """`page`: the schema of a JSON page."""
    return {
        200: Content("A page, or the whole log as lines or text", {JSON: page, LINES: STRING, TEXT: STRING}),
        206: Content("The part that was asked for"),
        304: Content("Nothing has changed"),
    }


def negotiate_kind(request: Request) -> str:
    kind = best_kind(request.headers.get("accept"), KINDS)
    if kind is None:
        raise FrameworkRefusal(406, f"A log can be had as {', '.join(KINDS)}.")
    return kind


async def log_answer(request: Request, gateway: Gateway, stored: StoredRun, words: LogWords) -> Response:
    kind = negotiate_kind(request)
    if kind != JSON and not asks_for_page(request.query_params, words):
        whole = await log_file(gateway.store, stored, as_text=kind == TEXT)
        return answer_with(request, Representation(_CONTENT_TYPE[kind], whole.tag, whole.size, whole.read))
    asked = read_page_params(request, words, limit=LINES_DEFAULT if kind == JSON else LINES_MAX)
    reading = gateway.log_pages.read(stored, asked, caller=limit_key_of(request))
    page: LogPage = await while_connected(request, reading)
    if sum(map(len, page.lines)) <= ASIDE_BYTES:
        body, tag = _shown(page, words, kind)
    else:  # up to 40 MB, about 250 ms
        body, tag = await asyncio.to_thread(_shown, page, words, kind)
    answer = answer_with(request, of_bytes(_CONTENT_TYPE[kind], tag, body))
    if kind != JSON:
        answer.headers["X-Next-Token"] = page.token
        if page.searched is not None:
            answer.headers["X-Searched-To-Line"] = str(page.searched.line)
    return answer


def _shown(page: LogPage, words: LogWords, kind: str) -> tuple[bytes, str]:
    """The bytes and their tag."""
    body = _page(page, words) if kind == JSON else _lines(page, as_text=kind == TEXT)
    return body, hashlib.sha256(body).hexdigest()[:32]


def _page(page: LogPage, words: LogWords) -> bytes:
    """The lines are JSON already."""
    rest: JsonObject = {
        words.next_token: page.token,
        "complete": page.complete,
        "truncated": page.truncated,
    }
    if (searched := page.searched) is not None:
        rest["searched"] = {
            words.to_line: searched.line,
            "lines": searched.lines,
            words.paused_by: searched.paused_by,
        }
    return b'{"entries":[' + b",".join(page.lines) + b"]," + msgspec.json.encode(rest)[1:]


def _lines(page: LogPage, *, as_text: bool) -> bytes:
    if not as_text:
        return b"".join(line + b"\n" for line in page.lines)
    return b"".join(_message(line).encode() + b"\n" for line in page.lines)


class _Message(msgspec.Struct):
    message: str


_decode = msgspec.json.Decoder(_Message).decode


def _message(line: bytes) -> str:
    return _decode(line).message
