"""`/health` and `/ready`: alive without the broker, ready only with it. The rest of the face is beside it."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

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

router = APIRouter(tags=["operator"])
for part in (workers, metrics, wheels, dead_letters, approvals, idempotency_keys, overview):
    router.include_router(part.router)


@router.get("/health", summary="Is the gateway alive?")
async def health() -> dict[str, str]:
    return {"status": "ok"}


@router.get("/ready", summary="Can it serve, and if not, why?")
async def ready(request: Request) -> JSONResponse:
    state: dict[str, Any] = gateway_of(request).ready()
    if state["ready"]:
        return JSONResponse(state)
    note_refusal(request.scope, NotReady(f"Not ready: {'; '.join(state['reasons'])}."))
    return JSONResponse(state, 503, {"Retry-After": str(RETRY_AFTER_SEC)})
