"""`/approvals`: which tasks wait for somebody's answer. Answered they are through the executions face."""

from __future__ import annotations

import msgspec
from fastapi import APIRouter, Request
from fastapi.responses import Response

from pyoco_server.http_api.faces.operator import wire
from pyoco_server.http_api.faces.operator.openapi import APPROVALS
from pyoco_server.http_api.faces.operator.request_context import ready_gateway, whole_number
from pyoco_server.http_api.middleware.callers import caller_of
from pyoco_server.http_api.responses.json import json_answer
from pyoco_server.operations.approvals import list_approvals

router = APIRouter()


@router.get("/approvals", summary="What waits for an answer, longest first", openapi_extra=APPROVALS)
async def approvals(request: Request) -> Response:
    gateway = ready_gateway(request)
    query = request.query_params
    found, next_cursor = await list_approvals(
        gateway.store,
        gateway.read_model,
        tenant_id=caller_of(request).tenant_id,
        limit=whole_number(query, "limit", default=wire.APPROVALS_DEFAULT, most=wire.APPROVALS_MAX),
        cursor=query.get("cursor") or None,
    )
    items = [msgspec.structs.asdict(wait) for wait in found]
    return json_answer({"items": items, "next_cursor": next_cursor})
