"""`/idempotency/{key}`: the requests of the caller with this key, and their outcome."""

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
from pyoco_server.json_value import JsonObject
from pyoco_server.operations.idempotency.key_scope import checked_key
from pyoco_server.operations.idempotency.lookup import Use, uses_of


async def get_known_key(request: Request) -> Response:
    gateway = ready_gateway(request)
    key = checked_key([params.KEY.read(request)], name="key", place="path")
    first, *others = map(_shown, await uses_of(gateway.store, caller_of(request), key))
    return json_answer(first | {"others": others})


def _shown(use: Use) -> JsonObject:
    record = use.record
    return {
        "method": record.method,
        "path": record.path,
        "digest": record.digest,
        "state": record.state,
        "resource_id": record.resource_id,
        "status": record.status or None,
        "answer": msgspec.Raw(use.body) if use.body else None,
        "event_ids": record.event_ids,
        "reserved_at": record.reserved_at,
        "expires_at": record.expires_at,
    }


_KNOWN = (
    "The first request that came with it, and `others` if it was used at several places. Only the caller's "
    "own keys are known here. `answer` is null until `state` is `done`."
)
OPERATIONS = [
    Operation(
        "GET",
        "/idempotency/{key:path}",  # a key may have slashes in it
        get_known_key,
        "What became of requests with this idempotency key",
        {200: json_of("The request and its answer", OBJECT)},
        [params.KEY],
        errors=[404, 422],
        description=_KNOWN,
    )
]
