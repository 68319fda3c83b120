"""One request as the document describes it: by the name of its operation, with parameters and a body."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import quote

import httpx
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

JSON, FORM, EVENTS = "application/json", "multipart/form-data", "text/event-stream"


class File(NamedTuple):
    """`shown`: what stands for its bytes in an example."""

    name: str
    content: bytes
    shown: str


class Answer(NamedTuple):
    status: int
    kind: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Call:
    """`params`: of path and query. `kind`: of the body; bytes are sent as they are."""

    operation: str
    params: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    kind: str = JSON


class Described:
    """Operations of an OpenAPI document, by their ids."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.document = document
        self.operations: dict[str, tuple[str, str, dict[str, Any]]] = {
            operation["operationId"]: (method.upper(), path, operation)
            for path, methods in document["paths"].items()
            for method, operation in methods.items()
        }

    def request(self, call: Call, client: httpx.AsyncClient) -> httpx.Request:
        method, template, operation = self.operations[call.operation]
        places = {one["name"]: one["in"] for one in operation.get("parameters", ())}
        query = {name: value for name, value in call.params.items() if places[name] == "query"}
        path = template.format(**{name: quote(str(value), safe="") for name, value in call.params.items()})
        return client.build_request(
            method, path, params=query or None, headers=dict(call.headers), **_body(call)
        )

    def statuses(self, operation: str) -> list[int]:
        return [int(status) for status in self.operations[operation][2]["responses"]]

    def is_socket(self, operation: str) -> bool:
        return "101" in self.operations[operation][2]["responses"]


def _body(call: Call) -> dict[str, Any]:
    match call.body:
        case None:
            return {}
        case bytes():
            return {"content": call.body}
        case _ if call.kind == JSON:
            return {"json": call.body}
        case str():
            return {"content": call.body.encode()}
    files = {
        name: (one.name, one.content) if isinstance(one, File) else (None, str(one))
        for name, one in call.body.items()
    }
    return {"files": files}


async def send(client: httpx.AsyncClient, request: httpx.Request, *, events: int) -> Answer:
    """Of a stream: its first so many events."""
    answer = await client.send(request, stream=True)
    try:
        kind = answer.headers.get("content-type", "").partition(";")[0]
        body = await _events(answer, events) if kind == EVENTS else await answer.aread()
    finally:
        await answer.aclose()
    return Answer(answer.status_code, kind, body)


async def _events(answer: httpx.Response, events: int) -> bytes:
    read = b""
    async for piece in answer.aiter_bytes():
        read += piece
        if read.count(b"\n\n") > events:  # one more: the `retry:` line
            break
    return b"".join(block + b"\n\n" for block in read.split(b"\n\n")[: events + 1] if block)


async def open_socket(request: httpx.Request) -> Answer:
    url = str(request.url).replace("http://", "ws://")
    headers = {name: value for name, value in request.headers.items() if name == "x-api-key"}
    try:
        async with connect(url, additional_headers=headers):
            return Answer(101, "", b"")
    except InvalidStatus as refused:
        kind = refused.response.headers.get("content-type", "")
        return Answer(refused.response.status_code, kind, bytes(refused.response.body or b""))


def shown_body(body: Any) -> Any:
    """As an example shows it."""
    if isinstance(body, dict):
        return {name: one.shown if isinstance(one, File) else one for name, one in body.items()}
    return json.loads(body) if isinstance(body, bytes) else body
