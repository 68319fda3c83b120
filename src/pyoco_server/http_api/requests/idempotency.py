"""Requests with an idempotency key, between HTTP and `operations.idempotency.once`. For every face.

What a face calls the header, whether it needs one and which status a repetition has, it says itself.
"""

from __future__ import annotations

import re

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from pyoco_server.http_api.middleware.addresses import path_of
from pyoco_server.http_api.middleware.callers import caller_of
from pyoco_server.http_api.middleware.redaction import without_secrets
from pyoco_server.operations.idempotency.key_scope import (
    KEY_CHARS_MAX,
    IdempotencyKey,
    checked_key,
    hashed,
    key_for,
)
from pyoco_server.operations.idempotency.once import Once

HEADER = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"
_KEY_IN_PATH = re.compile(r"(.*/idempotency/)(.+)", re.DOTALL)


def key_of(
    request: Request,
    *,
    header: str = HEADER,
    least: int = 1,
    most: int = KEY_CHARS_MAX,
    required: bool = False,
) -> IdempotencyKey | None:
    """The key that came with this request; None when none did, if that is allowed."""
    values = request.headers.getlist(header)
    if not values and not required:
        return None
    key = checked_key(values, name=header, least=least, most=most)
    return key_for(caller_of(request), request.method, path_of(request.scope), key)


def once_answer(outcome: Once, *, replay_status: int | None = None) -> Response:
    """The very bytes. `replay_status`: of a repetition, where a face answers that with another one."""
    headers = outcome.headers | ({REPLAYED: "true"} if outcome.replayed else {})
    status = replay_status if outcome.replayed and replay_status else outcome.status
    return Response(outcome.body, status, headers, media_type="application/json")


def loggable_path(scope: Scope) -> str:
    return without_key(str(scope["path"]))


def without_key(path: str) -> str:
    """A path as it may be logged: an idempotency key is shown as its hash, an API key or JWT not at all."""
    found = _KEY_IN_PATH.fullmatch(path)
    return without_secrets(f"{found[1]}{hashed(found[2])}" if found else path)
