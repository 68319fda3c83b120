"""`/wheels`: upload, list, download and delete wheels (REQ-0025).

Wheels are code that workers execute. Without authentication they can be changed on loopback only; with it,
the middleware has checked the scope.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from pyoco_server.errors import Forbidden
from pyoco_server.http_api.context import gateway_of, ready_gateway
from pyoco_server.http_api.faces.operator import params, wire
from pyoco_server.http_api.faces.operator.upload import receive_wheel
from pyoco_server.http_api.middleware.addresses import is_loopback
from pyoco_server.http_api.middleware.callers import caller_of
from pyoco_server.http_api.responses.json import json_answer
from pyoco_server.http_api.routing.operation import Content, Operation, json_of
from pyoco_server.http_api.routing.schemas import BINARY, BOOLEAN, OBJECT, TEXT, array, record
from pyoco_server.operations.fleet import wheels
from pyoco_server.store.fleet.wheels import WheelAction


async def list_wheels(request: Request) -> Response:
    gateway = ready_gateway(request)
    found = await wheels.list_wheels(gateway.store, caller_of(request))
    return json_answer([wire.wheel(one, gateway.config.wheel_object_store_bucket) for one in found])


async def list_history(request: Request) -> Response:
    gateway = ready_gateway(request)
    limit, action = params.HISTORY_LIMIT.read(request), params.ACTION.read(request)
    wheel_name = params.ONLY_WHEEL.read(request)
    found = await wheels.list_history(
        gateway.store,
        caller_of(request),
        limit=limit,
        wheel_name=wheel_name,
        action=WheelAction(action) if action else None,
    )
    return json_answer(found)


async def upload_wheel(request: Request) -> Response:
    _check_may_change(request)
    gateway = ready_gateway(request)
    async with receive_wheel(request, bytes_max=gateway.config.wheel_max_bytes) as received:
        stored = await wheels.put_wheel(
            gateway.store,
            caller_of(request),
            received.name,
            received.file,
            tags=received.tags,
            replace=received.replace,
            source=wire.source(request),
        )
    return json_answer(wire.wheel(stored, gateway.config.wheel_object_store_bucket))


async def download_wheel(request: Request) -> Response:
    gateway = ready_gateway(request)
    wheel = await wheels.get_wheel(gateway.store, caller_of(request), request.path_params["wheel_name"])
    pieces = wheels.stream(gateway.store, wheel)
    first = await anext(pieces, b"")  # an error here is still answered with its status
    headers = {
        "Content-Disposition": f'attachment; filename="{wheel.name}"',
        "Content-Length": str(wheel.size),
    }
    return StreamingResponse(_all(first, pieces), headers=headers, media_type="application/octet-stream")


async def delete_wheel(request: Request) -> Response:
    _check_may_change(request)
    gateway = ready_gateway(request)
    name = request.path_params["wheel_name"]
    await wheels.delete_wheel(gateway.store, caller_of(request), name, source=wire.source(request))
    return json_answer({"name": name, "deleted": True})


async def _all(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for piece in rest:
        yield piece


def _check_may_change(request: Request) -> None:
    """Checks the configured address and that of the connection: a server may bind to another one."""
    config = gateway_of(request).config
    if config.auth_methods:
        return
    asked = request.scope.get("server") or (None, None)
    places = [config.http_host] + ([asked[0]] if asked[0] else [])
    if not all(is_loopback(str(place)) for place in places):
        raise Forbidden(
            "Wheels are code: without authentication they can only be changed where the gateway listens on "
            "loopback. Set PYOCO_HTTP_AUTH_MODE=api_key, and use a key with the scope wheels:write.",
            err_id="",
        )


_UPLOAD = record(["wheel"], {"wheel": BINARY, "replace": BOOLEAN | {"default": True}, "tags": TEXT})
OPERATIONS = [
    Operation("GET", "/wheels", list_wheels, "Wheels, by name", {200: json_of("Wheels", array(OBJECT))}),
    Operation(
        "GET",
        "/wheels/history",
        list_history,
        "What happened to wheels, latest first",
        {200: json_of("Entries", array(OBJECT))},
        [params.HISTORY_LIMIT, params.ONLY_WHEEL, params.ACTION],
        errors=[422],
        name="list_wheel_history",
    ),
    Operation(
        "POST",
        "/wheels",
        upload_wheel,
        "Bring a wheel",
        {200: json_of("The wheel as it is kept", OBJECT)},
        body=Content(kinds={"multipart/form-data": _UPLOAD}),
        errors=[409, 413, 422],
    ),
    Operation(
        "GET",
        "/wheels/{wheel_name}",
        download_wheel,
        "The wheel itself",
        {200: Content("Its bytes", {"application/octet-stream": BINARY})},
        [params.WHEEL_NAME],
        errors=[404],
    ),
    Operation(
        "DELETE",
        "/wheels/{wheel_name}",
        delete_wheel,
        "Remove a wheel, from workers too",
        {200: json_of("Deleted", OBJECT)},
        [params.WHEEL_NAME],
        errors=[404],
    ),
]
