"""Requests with an idempotency key, between HTTP and `operations.idempotency.keyed_request`. For every face.

Each face gives the name of the header, whether it is required, and the status of a repetition.
"""

from __future__ import annotations

import re

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from pyoco_server.canonical_json import NOT_DIGESTED
from pyoco_server.http_api.middleware.addresses import path_of
from pyoco_server.http_api.middleware.callers import caller_of
from pyoco_server.http_api.middleware.redaction import without_secrets
from pyoco_server.http_api.routing.kinds import TextKind
from pyoco_server.http_api.routing.params import Param, header
from pyoco_server.operations.idempotency.key_scope import (
    KEY_CHARS_MAX,
    IdempotencyKey,
    checked_key,
    hashed,
    key_for,
)
from pyoco_server.operations.idempotency.keyed_request import KeyedAnswer

HEADER = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"
LEFT_OUT = (
    "Bodies are compared by a digest of their canonical JSON; of the top level "
    f"{' and '.join(f'`{name}`' for name in NOT_DIGESTED)} are left out."
)
_KEY_IN_PATH = re.compile(r"(.*/idempotency/)(.+)", re.DOTALL)


def key_param(
    name: str = HEADER, *, least: int = 1, most: int = KEY_CHARS_MAX, required: bool = False, **more: str
) -> Param[str | None]:
    """The header, described; `key_of` reads it. `more`: further members of its schema."""
    description = (
        "Sent again with the same key, this has no second effect: the first answer comes again, "
        f"with `{REPLAYED}: true`. 409 for the same key with another body. {LEFT_OUT}"
    )
    kind = TextKind(more={"minLength": least, "maxLength": most, **more})
    return header(name, description, kind, required=required)


def key_of(
    request: Request,
    *,
    name: str = HEADER,
    least: int = 1,
    most: int = KEY_CHARS_MAX,
    required: bool = False,
) -> IdempotencyKey | None:
    """The key of this request; None if there is none and it is optional."""
    values = request.headers.getlist(name)
    if not values and not required:
        return None
    key = checked_key(values, name=name, least=least, most=most)
    return key_for(caller_of(request), request.method, path_of(request.scope), key)


def once_answer(outcome: KeyedAnswer, *, replay_status: int | None = None) -> Response:
    """The stored bytes. `replay_status`: the status of a repetition, where a face has another one."""
    headers = outcome.headers | ({REPLAYED: "true"} if outcome.replayed else {})
    status = replay_status if outcome.replayed and replay_status else outcome.status
    return Response(outcome.body, status, headers, media_type="application/json")


def loggable_path(scope: Scope) -> str:
    return without_key(str(scope["path"]))


def without_key(path: str) -> str:
    """A path as it may be logged: an idempotency key is shown as its hash, an API key or JWT not at all."""
    found = _KEY_IN_PATH.fullmatch(path)
    return without_secrets(f"{found[1]}{hashed(found[2])}" if found else path)
