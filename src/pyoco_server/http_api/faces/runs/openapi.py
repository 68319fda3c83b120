"""The description of `/runs` and `/schedules` for OpenAPI. Written by hand: the routes are not FastAPI's."""

from __future__ import annotations

from typing import Any

import msgspec

from pyoco_server.http_api.faces.runs import openapi_following, openapi_logs
from pyoco_server.http_api.faces.runs.openapi_parts import (
    ACCEPTED,
    ERROR,
    IDEMPOTENCY_KEY,
    INCLUDE,
    LIMIT,
    REF,
    RUN_ID,
    STATUSES,
    YAML_FORM,
    answer,
    errors,
    query,
    ref,
)
from pyoco_server.http_api.faces.runs.params import WAIT_SEC_MAX
from pyoco_server.http_api.faces.runs.schedules import openapi
from pyoco_server.http_api.faces.runs.wire import RunRetryRequest, RunSubmitRequest
from pyoco_server.lifecycle.snapshot import RunSnapshot, RunSummary


def add_to(schema: dict[str, Any]) -> dict[str, Any]:
    models = [RunSubmitRequest, RunRetryRequest, RunSnapshot, RunSummary]
    _, described = msgspec.json.schema_components(models, ref_template=REF)
    components = schema.setdefault("components", {}).setdefault("schemas", {})
    components |= described | {"Error": ERROR, "Schedule": openapi.SCHEDULE}
    schema["paths"] |= _PATHS | openapi_following.PATHS | openapi_logs.PATHS | openapi.PATHS
    return schema


_PATHS: dict[str, Any] = {
    "/runs": {
        "post": {
            "tags": ["runs"],
            "summary": "Submit a run",
            "operationId": "submit_run",
            "parameters": [IDEMPOTENCY_KEY],
            "requestBody": {
                "required": True,
                "content": {"application/json": {"schema": ref("RunSubmitRequest")}},
            },
            "responses": {"200": answer("Accepted and queued", ACCEPTED)} | errors(403, 409, 413, 422, 503),
        },
        "get": {
            "tags": ["runs"],
            "summary": "List runs, newest first",
            "description": openapi_following.PAGES,
            "operationId": "list_runs",
            "parameters": [
                query("status", STATUSES, "Only runs that stand so."),
                query("flow", {"type": "string"}, "Only runs of this flow."),
                query("tag", {"type": "string"}, "Only runs routed by this tag."),
                LIMIT,
                *openapi_following.PAGED_BY,
                INCLUDE,
            ],
            "responses": {"200": answer("Summaries, or snapshots with `include`", openapi_following.LIST)}
            | errors(403, 422, 503),
        },
    },
    "/runs/yaml": {
        "post": {
            "tags": ["runs"],
            "summary": "Submit a run with the flow that it executes",
            "operationId": "submit_run_yaml",
            "parameters": [IDEMPOTENCY_KEY],
            "requestBody": {"required": True, "content": {"multipart/form-data": {"schema": YAML_FORM}}},
            "responses": {"200": answer("Accepted and queued", ACCEPTED)} | errors(403, 409, 413, 422, 503),
        }
    },
    "/runs/{run_id}": {
        "get": {
            "tags": ["runs"],
            "summary": "One run, as its log has it",
            "operationId": "get_run",
            "parameters": [
                RUN_ID,
                INCLUDE,
                query(
                    "wait",
                    {"type": "number", "minimum": 0, "maximum": WAIT_SEC_MAX},
                    "Answer when the run is over, or after this many seconds.",
                ),
            ],
            "responses": {"200": answer("The snapshot", {"type": "object"})} | errors(403, 404, 422, 503),
        }
    },
    "/runs/{run_id}/tasks": {
        "get": {
            "tags": ["runs"],
            "summary": "Its tasks with their records",
            "operationId": "get_tasks",
            "parameters": [RUN_ID],
            "responses": {"200": answer("Tasks", {"type": "object"})} | errors(403, 404, 503),
        }
    },
    "/runs/{run_id}/cancel": {
        "post": {
            "tags": ["runs"],
            "summary": "Ask it to stop; accepted once, never undone",
            "operationId": "cancel_run",
            "parameters": [RUN_ID, IDEMPOTENCY_KEY],
            "responses": {"200": answer("The snapshot", {"type": "object"})}
            | errors(403, 404, 409, 422, 503),
        }
    },
}
