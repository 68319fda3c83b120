"""`/wheels`: code for the workers, taken in, listed, fetched and deleted (REQ-0025).

Wheels are code that workers execute. Where nobody proves who they are, only this machine may bring or remove
any; where they do, the door has asked for the scope already.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from fastapi import APIRouter, Request
from fastapi.responses import Response, StreamingResponse

from pyoco_server.errors import Forbidden
from pyoco_server.http_api.context import gateway_of
from pyoco_server.http_api.faces.operator import wire
from pyoco_server.http_api.faces.operator.openapi import (
    WHEEL_DELETE,
    WHEEL_DOWNLOAD,
    WHEEL_HISTORY,
    WHEEL_UPLOAD,
    WHEELS,
)
from pyoco_server.http_api.faces.operator.request_context import ready_gateway
from pyoco_server.http_api.faces.operator.upload import receive_wheel
from pyoco_server.http_api.middleware.addresses import is_loopback
from pyoco_server.http_api.middleware.callers import caller_of
from pyoco_server.http_api.responses.json import json_answer
from pyoco_server.operations.fleet import wheels

router = APIRouter()


@router.get("/wheels", summary="Wheels, by name", openapi_extra=WHEELS)
async def list_wheels(request: Request) -> Response:
    gateway = ready_gateway(request)
    found = await wheels.list_wheels(gateway.store, caller_of(request))
    return json_answer([wire.wheel(one, gateway.config.wheel_object_store_bucket) for one in found])


@router.get("/wheels/history", summary="What happened to wheels, latest first", openapi_extra=WHEEL_HISTORY)
async def list_history(request: Request) -> Response:
    gateway = ready_gateway(request)
    limit, wheel_name, action = wire.history_wanted(request.query_params)
    found = await wheels.list_history(
        gateway.store, caller_of(request), limit=limit, wheel_name=wheel_name, action=action
    )
    return json_answer(found)


@router.post("/wheels", summary="Bring a wheel", openapi_extra=WHEEL_UPLOAD)
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


@router.get("/wheels/{wheel_name}", summary="The wheel itself", openapi_extra=WHEEL_DOWNLOAD)
async def download_wheel(request: Request) -> Response:
    gateway = ready_gateway(request)
    wheel = await wheels.get_wheel(gateway.store, caller_of(request), request.path_params["wheel_name"])
    pieces = wheels.stream(gateway.store, wheel)
    first = await anext(pieces, b"")  # what fails now is still answered with an error
    headers = {
        "Content-Disposition": f'attachment; filename="{wheel.name}"',
        "Content-Length": str(wheel.size),
    }
    return StreamingResponse(_all(first, pieces), headers=headers, media_type="application/octet-stream")


@router.delete("/wheels/{wheel_name}", summary="Remove a wheel, from workers too", openapi_extra=WHEEL_DELETE)
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
    """The address that was configured, and the one that was really asked: a server may bind as it likes."""
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
