"""`/approvals`: the tasks that wait for an answer, and the answers. The executions face takes answers."""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from pyoco_server.http_api.context import ready_gateway
from pyoco_server.http_api.faces.operator import params
from pyoco_server.http_api.middleware.callers import caller_of
from pyoco_server.http_api.responses.json import json_answer
from pyoco_server.http_api.routing.operation import Operation, json_of
from pyoco_server.http_api.routing.schemas import OBJECT
from pyoco_server.operations.approvals import list_answers, list_approvals


async def approvals(request: Request) -> Response:
    gateway = ready_gateway(request)
    found, next_cursor = await list_approvals(
        gateway.store,
        gateway.read_model,
        tenant_id=caller_of(request).tenant_id,
        limit=params.APPROVALS_LIMIT.read(request),
        cursor=params.CURSOR.read(request) or None,
    )
    items = [msgspec.structs.asdict(wait) for wait in found]
    return json_answer({"items": items, "next_cursor": next_cursor})


async def approval_history(request: Request) -> Response:
    gateway = ready_gateway(request)
    found, next_cursor = await list_answers(
        gateway.store,
        gateway.read_model,
        tenant_id=caller_of(request).tenant_id,
        limit=params.APPROVALS_LIMIT.read(request),
        cursor=params.CURSOR.read(request) or None,
    )
    items = [msgspec.structs.asdict(answer) for answer in found]
    return json_answer({"items": items, "next_cursor": next_cursor})


OPERATIONS = [
    Operation(
        "GET",
        "/approvals",
        approvals,
        "What waits for an answer, longest first",
        {200: json_of("Tasks that wait, and `next_cursor`", OBJECT)},
        [params.APPROVALS_LIMIT, params.CURSOR],
        errors=[422],
        name="list_approvals",
    ),
    Operation(
        "GET",
        "/approvals/history",
        approval_history,
        "Answers that were given, the latest first",
        {200: json_of("Who approved or rejected which question, when, and `next_cursor`", OBJECT)},
        [params.APPROVALS_LIMIT, params.CURSOR],
        errors=[422],
        name="list_approval_history",
        description="The answers of a run are kept as long as the run.",
    ),
]
