"""`/idempotency/{key}`: what became of the requests that came with a key of the caller's."""

from __future__ import annotations

from typing import Any

import msgspec
from fastapi import APIRouter, Request
from fastapi.responses import Response

from pyoco_server.http_api.faces.operator.openapi import KNOWN_KEY
from pyoco_server.http_api.faces.operator.request_context import ready_gateway
from pyoco_server.http_api.middleware.callers import caller_of
from pyoco_server.http_api.responses.json import json_answer
from pyoco_server.operations.idempotency.key_scope import checked_key
from pyoco_server.operations.idempotency.lookup import Use, uses_of

router = APIRouter()


# A key may have slashes in it.
@router.get(
    "/idempotency/{key:path}",
    summary="What became of requests with this idempotency key",
    openapi_extra=KNOWN_KEY,
)
async def get_known_key(request: Request) -> Response:
    gateway = ready_gateway(request)
    key = checked_key([request.path_params["key"]], name="key", place="path")
    first, *others = map(_shown, await uses_of(gateway.store, caller_of(request), key))
    return json_answer(first | {"others": others})


def _shown(use: Use) -> dict[str, Any]:
    return {
        "method": use.method,
        "path": use.path,
        "digest": use.digest,
        "state": use.state,
        "resource_id": use.resource_id,
        "status": use.status,
        "answer": msgspec.Raw(use.body) if use.body else None,
        "event_ids": use.event_ids,
        "reserved_at": use.reserved_at,
        "expires_at": use.expires_at,
    }
