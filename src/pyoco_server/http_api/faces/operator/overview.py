"""`/flows`, `/system` and `/caller`: known flows, the state of the broker, and the caller."""

from __future__ import annotations

import platform
from importlib.metadata import version

from starlette.requests import Request
from starlette.responses import Response

from pyoco_server.http_api.context import gateway_of, ready_gateway
from pyoco_server.http_api.middleware.callers import caller_of
from pyoco_server.http_api.responses.json import json_answer
from pyoco_server.http_api.routing.operation import Operation, json_of
from pyoco_server.http_api.routing.schemas import OBJECT, array
from pyoco_server.operations.fleet import flows
from pyoco_server.operations.fleet.system import system
from pyoco_server.operations.rechecks.context import tenant_of


async def list_flows(request: Request) -> Response:
    gateway = ready_gateway(request)
    found = await flows.known_flows(gateway.store, gateway.read_model, caller_of(request).tenant_id)
    return json_answer(found)


async def get_system(request: Request) -> Response:
    gateway = ready_gateway(request)
    versions = {name: version(name) for name in ("pyoco-server", "pyoco", "nats-py")}
    return json_answer(
        {
            **gateway.ready(),
            **await system(gateway.store),
            "versions": versions | {"python": platform.python_version()},
            "housekeeper": gateway.is_housekeeper,
        }
    )


async def get_caller(request: Request) -> Response:
    caller = caller_of(request)
    scopes = None if caller.scopes is None else sorted(caller.scopes)
    gateway = gateway_of(request)
    strategies = gateway.rechecks.model.current()
    return json_answer(
        {
            "tenant_id": caller.tenant_id,
            "id": caller.id,
            "principal": caller.principal,
            "scopes": scopes,
            "cancel_grace_sec": gateway.config.cancel_grace_period_sec,
            "has_strategies": strategies.has_any(tenant_of(caller)),
        }
    )


_PARAMS = """`params` are the parameters that live workers report, or null: `name`, `required`, `default`,
`type` (as it is written in the code) and `schema` (JSON Schema). `schema` is missing if the type has none, or
if there is no room for it: a worker reports at most 16 KiB."""
OPERATIONS = [
    Operation(
        "GET",
        "/flows",
        list_flows,
        "Flows that are known, and how their runs went",
        {200: json_of("Flows, by name", array(OBJECT))},
        description=_PARAMS,
    ),
    Operation(
        "GET",
        "/system",
        get_system,
        "Broker, streams against their limits, versions",
        {200: json_of("How it stands", OBJECT)},
    ),
    Operation(
        "GET",
        "/caller",
        get_caller,
        "Who is asking",
        {
            200: json_of(
                "Tenant, id, principal and scopes; null without keys. `has_strategies`: a catalogue exists",
                OBJECT,
            )
        },
    ),
]
