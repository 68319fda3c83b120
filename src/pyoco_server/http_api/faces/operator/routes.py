"""`/health` (without the broker) and `/ready` (with it), and the face with all its operations."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from pyoco_server.http_api.context import gateway_of
from pyoco_server.http_api.faces.operator import (
    approvals,
    dead_letters,
    idempotency_keys,
    metrics,
    overview,
    wheels,
    workers,
)
from pyoco_server.http_api.middleware.refusal_log import NotReady, note_refusal
from pyoco_server.http_api.responses.error_table import RETRY_AFTER_SEC
from pyoco_server.http_api.responses.json import json_answer
from pyoco_server.http_api.routing.face import Face
from pyoco_server.http_api.routing.operation import Operation, json_of
from pyoco_server.http_api.routing.schemas import BOOLEAN, TEXT, array, record


async def health(request: Request) -> Response:
    return json_answer({"status": "ok"})


async def ready(request: Request) -> Response:
    state = gateway_of(request).ready()
    if state["ready"]:
        return JSONResponse(state)
    note_refusal(request.scope, NotReady(f"Not ready: {'; '.join(state['reasons'])}."))
    return JSONResponse(state, 503, {"Retry-After": str(RETRY_AFTER_SEC)})


_READY = record(["ready", "reasons"], {"ready": BOOLEAN, "reasons": array(TEXT)})
FACE = Face(
    tag="operator",
    error="Error",
    operations=[
        *workers.OPERATIONS,
        *metrics.OPERATIONS,
        *wheels.OPERATIONS,
        *dead_letters.OPERATIONS,
        *approvals.OPERATIONS,
        *idempotency_keys.OPERATIONS,
        *overview.OPERATIONS,
        Operation(
            "GET",
            "/health",
            health,
            "Is the gateway alive?",
            {200: json_of("It is", record(["status"], {"status": {"const": "ok"}}))},
            is_public=True,
        ),
        Operation(
            "GET",
            "/ready",
            ready,
            "Can it serve, and if not, why?",
            {200: json_of("It can", _READY), 503: json_of("It cannot; `reasons` says why", _READY)},
            is_public=True,
        ),
    ],
    head=False,
)
