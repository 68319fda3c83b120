"""`POST /tickets`: a credential for one connection, for clients that cannot send a header."""

from __future__ import annotations

from urllib.parse import unquote

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from pyoco_server.http_api.context import ready_gateway
from pyoco_server.http_api.faces.runs import wire
from pyoco_server.http_api.faces.runs.schemas import TICKET
from pyoco_server.http_api.middleware.callers import caller_of
from pyoco_server.http_api.middleware.scopes import check_scope
from pyoco_server.http_api.requests.bodies import small_body
from pyoco_server.http_api.responses.json import json_answer
from pyoco_server.http_api.routing.operation import Operation, json_body, json_of
from pyoco_server.http_api.routing.schemas import TEXT, record
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


OPERATIONS = [
    Operation(
        "POST",
        "/tickets",
        issue_ticket,
        "Issue a ticket: one connection to one address within a minute (`?ticket=`)",
        {201: json_of("The ticket", TICKET)},
        body=json_body(record(["path"], {"path": TEXT})),
        errors=[413, 415, 422],
    )
]
