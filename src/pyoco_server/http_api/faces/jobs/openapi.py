"""The description of `/jobs` for OpenAPI. Written by hand: the routes are not FastAPI's."""

from __future__ import annotations

from typing import Any

from pyoco_server.http_api.faces.jobs.openapi_logs import PATHS as LOG_PATHS
from pyoco_server.http_api.faces.jobs.openapi_parts import (
    JOB_ID,
    NOTHING,
    SCHEMAS,
    answer,
    body,
    errors,
    header,
    number,
    query,
    ref,
)
from pyoco_server.http_api.faces.jobs.request_context import LIMIT_DEFAULT, LIMIT_MAX
from pyoco_server.http_api.faces.jobs.wire import STAGE_OF


def add_to(schema: dict[str, Any]) -> dict[str, Any]:
    schema.setdefault("components", {}).setdefault("schemas", {}).update(SCHEMAS)
    schema["paths"] |= _PATHS | LOG_PATHS
    return schema


_TAGS = {"type": "array", "items": {"type": "string"}}
_PATHS: dict[str, Any] = {
    "/jobs": {
        "post": {
            "tags": ["jobs"],
            "summary": "Create a job",
            "operationId": "create_job",
            "parameters": [header("Idempotency-Key", "Sent again with the same key it makes no second job.")],
            "requestBody": body("JobRequest"),
            "responses": {"201": answer("Created and queued; `Location` says where", ref("Job"))}
            | errors(400, 403, 409, 413, 415, 422, 503),
        },
        "get": {
            "tags": ["jobs"],
            "summary": "List jobs, newest first",
            "operationId": "list_jobs",
            "parameters": [
                query("tag", _TAGS, "Only jobs with all of these tags."),
                query("status", {"enum": list(STAGE_OF)}, "Only jobs that stand so."),
                query("limit", number(LIMIT_DEFAULT, LIMIT_MAX), "How many at most."),
                query("nextToken", {"type": "string"}, "Of the page before; good for the same filters only."),
            ],
            "responses": {"200": answer("A page; without `nextToken` it is the last", ref("JobPage"))}
            | errors(400, 403, 422, 503),
        },
    },
    "/jobs/{job_id}": {
        "get": {
            "tags": ["jobs"],
            "summary": "One job",
            "operationId": "get_job",
            "parameters": [JOB_ID],
            "responses": {"200": answer("The job", ref("Job"))} | errors(403, 404, 503),
        },
        "delete": {
            "tags": ["jobs"],
            "summary": "Cancel it; with `purge` erase it",
            "description": "204 also for a job that is over, unknown or gone. 409 for a purge of a live one.",
            "operationId": "delete_job",
            "parameters": [JOB_ID, query("purge", {"type": "boolean", "default": False}, "Erase it.")],
            "responses": NOTHING | errors(403, 409, 422, 503),
        },
    },
    "/jobs/{job_id}/tags": {
        "get": {
            "tags": ["jobs"],
            "summary": "Its tags, in the order they came",
            "operationId": "get_job_tags",
            "parameters": [JOB_ID],
            "responses": {"200": answer("Tags", _TAGS)} | errors(403, 404, 503),
        },
        "post": {
            "tags": ["jobs"],
            "summary": "Give it a tag; one that it has changes nothing",
            "operationId": "add_job_tag",
            "parameters": [JOB_ID],
            "requestBody": body("TagRequest"),
            "responses": {"200": answer("All its tags", _TAGS)} | errors(400, 403, 404, 415, 422, 503),
        },
    },
    "/jobs/{job_id}/tags/{tag}": {
        "delete": {
            "tags": ["jobs"],
            "summary": "Take a tag away; one that it does not have changes nothing",
            "operationId": "remove_job_tag",
            "parameters": [
                JOB_ID,
                {"name": "tag", "in": "path", "required": True, "schema": {"type": "string"}},
            ],
            "responses": NOTHING | errors(403, 404, 503),
        }
    },
}
