"""The description of what comes after a submission: lists in pages, streams, results and retries."""

from __future__ import annotations

from typing import Any

from pyoco_server.http_api.faces.runs.openapi_parts import (
    ACCEPTED,
    IDEMPOTENCY_KEY,
    INCLUDE,
    RUN_ID,
    answer,
    errors,
    query,
    ref,
)
from pyoco_server.http_api.faces.runs.params import WAIT_SEC_MAX, WATCH_SEC_DEFAULT, WATCH_SEC_MAX

PAGES = """With `updated_after`, `cursor`, `q` or `workflow_yaml_sha256` answers are `{items, next_cursor}`.
Pass `next_cursor` on with the same filters until it is null; an empty `cursor` asks for the first page.

Pages go from the latest change down. Nothing is lost while runs change: one that changes meanwhile comes, or
comes again, after the oldest. `next_cursor` is null when every run has been shown as it is now."""

SUMMARIES = {"type": "array", "items": {"anyOf": [ref("RunSummary"), {"type": "object"}]}}
_PAGE = {
    "type": "object",
    "required": ["items", "next_cursor"],
    "properties": {"items": SUMMARIES, "next_cursor": {"type": ["string", "null"]}},
}
LIST = {"anyOf": [SUMMARIES, _PAGE]}
PAGED_BY = [
    query("updated_after", {"type": "number"}, "Only runs that changed after this instant, in unix seconds."),
    query("cursor", {"type": "string"}, "Where the last page ended; opaque, good for the same filters only."),
    query("workflow_yaml_sha256", {"type": "string"}, "Only runs of the flow.yaml with this digest."),
    query(
        "q",
        {"type": "string", "maxLength": 200},
        "Only runs with this text in their id, flow, tags, worker or error; a whole id is looked up. "
        "Looks through some thousand runs "
        "a page: one with few items, or none, may still have a `next_cursor`.",
    ),
]

_STREAM = """`retry:` first, then `event: snapshot` with `{run_id, snapshot, ts}` and an `id:`, at once and
whenever the run has changed (the latest state, if it changes faster than it is read), and `event: heartbeat`
without an id after 15 seconds of silence. Ends after the snapshot of a run that is over."""
_WATCH = [
    RUN_ID,
    INCLUDE,
    query("since", {"type": "number"}, "Only what changed at or after this instant, in unix seconds."),
    query(
        "timeout_sec",
        {"type": "integer", "minimum": 1, "maximum": WATCH_SEC_MAX, "default": WATCH_SEC_DEFAULT},
        "The stream ends after this long.",
    ),
    query("last_event_id", {"type": "string"}, "As the header, for those who cannot send one."),
    {
        "name": "Last-Event-ID",
        "in": "header",
        "required": False,
        "schema": {"type": "string"},
        "description": "The id that was read last: only what is newer comes.",
    },
]
_RETRIED: dict[str, Any] = ACCEPTED | {
    "required": ["run_id", "status", "retry_of"],
    "properties": ACCEPTED["properties"]
    | {"retry_of": {"type": "string", "format": "uuid"}, "retry_from": {"type": "string"}},
}

_RETRY = """`from: failed` (the default) takes the results of tasks that succeeded over; `from: start`
executes everything again; `from: task` with `task` executes that task, whatever comes after it and what had
not succeeded, and takes the rest over. `params` replaces the run's parameters; results that are taken over
were made with the old ones. 409 for a run that is not over, or that ended before its tasks were planned."""

_NEWS = """`event: runs` with `{runs, gone, counts, minute, standing?}` and an `id:`: at once, then whenever
runs have changed, at most ten times a second. `gone` are ids of runs that were erased; `standing` comes when
the readiness of the gateway has changed. `event: reset`: too much was missed to be told, or the
broker has lost what was told: read the list again."""

PATHS: dict[str, Any] = {
    "/runs/stream": {
        "get": {
            "tags": ["runs"],
            "summary": "Follow the list of runs as server-sent events",
            "description": _NEWS,
            "operationId": "stream_runs",
            "parameters": _WATCH[3:],
            "responses": {
                "200": {
                    "description": "The stream",
                    "content": {"text/event-stream": {"schema": {"type": "string"}}},
                },
            }
            | errors(403, 422, 503),
        }
    },
    "/runs/stats": {
        "get": {
            "tags": ["runs"],
            "summary": "How many runs stand in each status, and each minute of the last hour",
            "operationId": "run_stats",
            "responses": {"200": answer("`{counts, minutes, ts}`", {"type": "object"})} | errors(403, 503),
        }
    },
    "/runs/{run_id}/graph": {
        "get": {
            "tags": ["runs"],
            "summary": "Its tasks, and which of them wait for which",
            "description": "`ordered` is false where that is not known: the tasks then stand in their order.",
            "operationId": "get_run_graph",
            "parameters": [RUN_ID],
            "responses": {"200": answer("`{run_id, nodes, ordered}`", {"type": "object"})}
            | errors(403, 404, 503),
        }
    },
    "/runs/{run_id}/watch": {
        "get": {
            "tags": ["runs"],
            "summary": "Follow one run as server-sent events",
            "description": _STREAM,
            "operationId": "watch_run",
            "parameters": _WATCH,
            "responses": {
                "200": {
                    "description": "The stream",
                    "content": {"text/event-stream": {"schema": {"type": "string"}}},
                },
                "204": {"description": "The run is over, and nothing is newer: do not come back"},
            }
            | errors(403, 404, 422, 503),
        }
    },
    "/runs/{run_id}/result": {
        "get": {
            "tags": ["runs"],
            "summary": "What it has come to: the output of its last task, or `{task: output}` of several",
            "description": "409 with `status` and `error` for a run that is not COMPLETED when the wait is "
            "over; 404 for a result that was not kept; 500 for a large one that is stored otherwise than "
            "it was recorded.",
            "operationId": "get_result",
            "parameters": [
                RUN_ID,
                query(
                    "wait",
                    {"type": "number", "minimum": 0, "maximum": WAIT_SEC_MAX},
                    "Answer when the run is over, or after this many seconds.",
                ),
            ],
            "responses": {"200": answer("The result, whole at any size", {})}
            | errors(403, 404, 409, 422, 500, 503),
        }
    },
    "/runs/{run_id}/retry": {
        "post": {
            "tags": ["runs"],
            "summary": "Another try of a run that is over, as a new run",
            "description": _RETRY,
            "operationId": "retry_run",
            "parameters": [RUN_ID, IDEMPOTENCY_KEY],
            "requestBody": {
                "required": False,
                "content": {"application/json": {"schema": ref("RunRetryRequest")}},
            },
            "responses": {"200": answer("Accepted and queued", _RETRIED)}
            | errors(403, 404, 409, 413, 422, 503),
        }
    },
}
