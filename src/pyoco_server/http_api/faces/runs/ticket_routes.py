"""`POST /tickets`: one connection for those who cannot send a header, as a browser's streams and sockets."""

from __future__ import annotations

from urllib.parse import unquote

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pyoco_server.http_api.callers import caller_of
from pyoco_server.http_api.faces.runs import wire
from pyoco_server.http_api.faces.runs.asking import ready_gateway
from pyoco_server.http_api.replies import json_answer
from pyoco_server.http_api.scopes import scope_needed
from pyoco_server.operations import tickets


class TicketRequest(msgspec.Struct):
    path: str


_decode = msgspec.json.Decoder(TicketRequest).decode


async def issue_ticket(request: Request) -> Response:
    gateway = ready_gateway(request)
    try:
        asked = _decode(await request.body())
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise wire.invalid_body(error) from error
    caller = caller_of(request)
    path = unquote(asked.path)
    needed = scope_needed("GET", path)
    if needed is not None:
        caller.require(needed)
    issued = await tickets.issue(gateway.store, caller, path)
    answer = {"ticket": issued.ticket, "path": asked.path, "expires_at": issued.expires_at}
    return json_answer(answer, 201, {"Cache-Control": "no-store"})


ROUTES = [Route("/tickets", issue_ticket, methods=["POST"])]
