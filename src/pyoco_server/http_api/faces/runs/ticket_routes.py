"""`POST /tickets`: one connection for those who cannot send a header, as a browser's streams and sockets."""

from __future__ import annotations

from urllib.parse import unquote

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pyoco_server.http_api.faces.runs import wire
from pyoco_server.http_api.faces.runs.request_context import ready_gateway
from pyoco_server.http_api.middleware.callers import caller_of
from pyoco_server.http_api.middleware.scopes import check_scope
from pyoco_server.http_api.requests.bodies import small_body
from pyoco_server.http_api.responses.json import json_answer
from pyoco_server.operations.identity import tickets


class TicketRequest(msgspec.Struct):
    path: str


_decode = msgspec.json.Decoder(TicketRequest).decode


async def issue_ticket(request: Request) -> Response:
    gateway = ready_gateway(request)
    asked = wire.decoded(_decode, await small_body(request))
    caller = caller_of(request)
    path = unquote(asked.path)
    check_scope(caller, "GET", path)
    issued = await tickets.issue(gateway.store, caller, path)
    answer = {"ticket": issued.ticket, "path": asked.path, "expires_at": issued.expires_at}
    return json_answer(answer, 201, {"Cache-Control": "no-store"})


ROUTES = [Route("/tickets", issue_ticket, methods=["POST"])]
