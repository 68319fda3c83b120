"""The description of `/executions` and `/graphs` for OpenAPI, by hand: the routes are not FastAPI's."""

from __future__ import annotations

from typing import Any

import msgspec

from pyoco_server.http_api.faces.executions import openapi_reading
from pyoco_server.http_api.faces.executions.commands import FORMS, CommandForm
from pyoco_server.http_api.faces.executions.graphs.routes import LIMIT_DEFAULT, LIMIT_MAX, VERSION_MAX
from pyoco_server.http_api.faces.executions.openapi_parts import (
    ACCEPTED,
    EXECUTION_ID,
    GRAPH_ID,
    NODE_ID,
    REF,
    SCHEMAS,
    answer,
    errors,
    header,
    limit,
    query,
    ref,
)
from pyoco_server.http_api.faces.executions.requests import (
    CORRELATION_CHARS_MAX,
    CORRELATION_HEADER,
    KEY_HEADER,
    CreateExecution,
)
from pyoco_server.operations.idempotency.key_scope import KEY_CHARS_MAX

_HEADERS = [
    header(
        KEY_HEADER,
        {"type": "string", "minLength": 1, "maxLength": KEY_CHARS_MAX, "pattern": r"^[!-~]([ -~]*[!-~])?$"},
        "One effect, however often the request is sent.",
        required=True,
    ),
    header(
        CORRELATION_HEADER,
        {"type": "string", "maxLength": CORRELATION_CHARS_MAX, "pattern": r"^[!-~]+$"},
        "Stands in every event that comes of this; made when none is sent.",
    ),
]
_VERSION = {"type": "integer", "minimum": 1, "maximum": VERSION_MAX}
_GUARDED = {
    "202": answer("Accepted", ref("ExecutionCommandAccepted")),
    "200": answer("Accepted before: the same answer again", ref("ExecutionCommandAccepted")),
}


def add_to(schema: dict[str, Any]) -> dict[str, Any]:
    bodies = {form.body for form in FORMS} | {CreateExecution}
    _, described = msgspec.json.schema_components(
        sorted(bodies, key=lambda body: body.__name__), ref_template=REF
    )
    components = schema.setdefault("components", {}).setdefault("schemas", {})
    components |= described | SCHEMAS | {"ExecutionCommandAccepted": ACCEPTED}
    paths = {"/executions": {"post": _create()}} | {form.path: {"post": _described(form)} for form in FORMS}
    for part in (paths, openapi_reading.PATHS, _GRAPHS):
        for path, methods in part.items():
            schema["paths"].setdefault(path, {}).update(methods)
    return schema


def _create() -> dict[str, Any]:
    located = {"headers": {"Location": {"schema": {"type": "string"}}}}
    accepted = {status: one | located for status, one in _GUARDED.items()}
    return {
        "tags": ["executions"],
        "summary": "CreateExecution: of a registered graph, or of a flow (`flow:<name>`) on workers",
        "operationId": "CreateExecution",
        "parameters": _HEADERS,
        "requestBody": _body(CreateExecution.__name__, required=True),
        "responses": accepted | errors(403, 404, 409, 413, 415, 422, 503),
    }


def _described(form: CommandForm) -> dict[str, Any]:
    node = [NODE_ID] if form.is_of_node else []
    needs_body = bool(msgspec.structs.fields(form.body)) and any(
        field.required for field in msgspec.structs.fields(form.body)
    )
    return {
        "tags": ["executions"],
        "summary": form.name,
        "operationId": form.name,
        "parameters": [EXECUTION_ID, *node, *_HEADERS],
        "requestBody": _body(form.body.__name__, required=needs_body),
        "responses": _GUARDED | errors(403, 404, 409, 413, 415, 422, 503),
    }


def _body(name: str, *, required: bool) -> dict[str, Any]:
    return {"required": required, "content": {"application/json": {"schema": ref(name)}}}


_GRAPHS: dict[str, Any] = {
    "/graphs": {
        "get": {
            "tags": ["executions"],
            "summary": "Registered graphs, in the order of their last change",
            "operationId": "list_graphs",
            "parameters": [
                limit(LIMIT_DEFAULT, LIMIT_MAX),
                query("cursor", {"type": "string"}, "Where the page before ended: its `nextCursor`."),
            ],
            "responses": {"200": answer("Graphs", ref("GraphList"))} | errors(403, 422, 503),
        }
    },
    "/graphs/{graphId}": {
        "get": {
            "tags": ["executions"],
            "summary": "One graph, in its latest version or another one",
            "operationId": "get_graph",
            "parameters": [
                GRAPH_ID,
                query(
                    "version",
                    {"type": "integer", "minimum": 1, "maximum": VERSION_MAX},
                    "Without: the latest.",
                ),
            ],
            "responses": {"200": answer("The graph", ref("Graph"))} | errors(403, 404, 422, 503),
        },
        "put": {
            "tags": ["executions"],
            "summary": "Register a graph; the same again is no new version",
            "operationId": "put_graph",
            "parameters": [GRAPH_ID],
            "requestBody": {
                "required": True,
                "content": {
                    "application/json": {"schema": ref("GraphDefinition")},
                    "application/yaml": {"schema": {"type": "string"}},
                },
            },
            "responses": {
                "200": answer("Registered before", ref("Graph")),
                "201": answer("A new version", ref("Graph")),
            }
            | errors(403, 413, 415, 422, 503),
        },
    },
}
