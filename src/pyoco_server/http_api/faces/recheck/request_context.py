"""What the routes of this face share: the context of rechecks, the tenant, and the body."""

from __future__ import annotations

from starlette.requests import Request

from pyoco_server.errors import Invalid
from pyoco_server.http_api.context import gateway_of
from pyoco_server.http_api.middleware.callers import caller_of
from pyoco_server.http_api.requests.bodies import is_json
from pyoco_server.operations.rechecks.context import RecheckContext, tenant_of

BODY_BYTES_MAX = 65_536
# In the scope, for the audit log: the id of the recheck request.
ABOUT = "pyoco.recheck_request"


def rechecks_of(request: Request) -> RecheckContext:
    return gateway_of(request).rechecks


def tenant_in(request: Request) -> str:
    return tenant_of(caller_of(request))


def note_about(request: Request, request_id: str) -> None:
    request.scope[ABOUT] = request_id


async def body_of(request: Request) -> bytes:
    """JSON only; the size is checked while it is read."""
    if not is_json(request.headers.get("content-type", "")):
        raise Invalid("The body must be JSON: send it with Content-Type: application/json.")
    length = request.headers.get("content-length", "")
    if length.isdigit() and (len(length) > 18 or int(length) > BODY_BYTES_MAX):
        raise _too_large()
    read = b""
    async for piece in request.stream():
        read += piece
        if len(read) > BODY_BYTES_MAX:
            raise _too_large()
    return read


def _too_large() -> Invalid:
    return Invalid(f"The body is larger than {BODY_BYTES_MAX} bytes.")
