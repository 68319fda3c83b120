"""The description of `/pdca` and `/gui` for OpenAPI. Written by hand: the routes are not FastAPI's."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from pyoco_server.http_api.faces.recheck import params
from pyoco_server.http_api.faces.recheck.openapi_examples import ERRORS, EXAMPLES
from pyoco_server.http_api.faces.recheck.openapi_parts import HEALTH, ID, SCHEMAS, ULID, Schema, count, ref
from pyoco_server.http_api.faces.recheck.routes import KEY_CHARS
from pyoco_server.operations.rechecks.look import ORDERS

_LIMIT_HEADERS = {
    name: {"description": said, "schema": {"type": kind}}
    for name, kind, said in (
        ("X-RateLimit-Limit", "integer", "Requests of this kind in a minute."),
        ("X-RateLimit-Remaining", "integer", "How many are left now."),
        ("X-RateLimit-Reset", "integer", "Seconds until all are there again."),
        ("RateLimit-Policy", "string", "The same, as the IETF draft has it."),
        ("RateLimit", "string", "The same, as the IETF draft has it."),
    )
}
_RETRY = {
    "Retry-After": {"description": "Seconds to wait before the next try.", "schema": {"type": "integer"}}
}
_REPLAYED = {"Idempotency-Replayed": {"description": "Given again.", "schema": {"const": "true"}}}


def add_to(schema: dict[str, Any], schemes: Schema) -> dict[str, Any]:
    """`schemes`: how callers of this face prove who they are; none where nobody has to."""
    components = schema.setdefault("components", {})
    components.setdefault("schemas", {}).update(SCHEMAS)
    paths = deepcopy(_PATHS)
    if schemes:
        components.setdefault("securitySchemes", {}).update(schemes)
        for operation in (one for methods in paths.values() for one in methods.values()):
            operation.setdefault("security", [{name: []} for name in schemes])
    schema["paths"] |= paths
    return schema


def _answer(said: str, name: str, **headers: Any) -> Schema:
    content = _json(name, EXAMPLES[name])
    return {"description": said, "headers": _LIMIT_HEADERS | headers, "content": content}


def _refusal(status: str, said: str = "Error", **headers: Any) -> Schema:
    content = _json("RecheckError", ERRORS[status])
    return {"description": said, "headers": _LIMIT_HEADERS | headers, "content": content}


def _json(name: str, example: Any) -> Schema:
    return {"application/json": {"schema": ref(name), "example": example}}


def _errors(*statuses: int) -> Schema:
    always = {"400", "401", "403", "429", "500", "502", *map(str, statuses)}
    answers = {status: _refusal(status) for status in sorted(always)}
    answers["429"] = _refusal("429", "Too many requests", **_RETRY)
    answers["502"] = _refusal("502", "The broker, or Airflow, is away", **_RETRY)
    return answers


def _operation(name: str, summary: str, answers: Schema, *errors: int, **more: Any) -> Schema:
    described = {"tags": ["recheck"], "operationId": name, "summary": summary}
    return described | more | {"responses": answers | _errors(*errors)}


def _query(name: str, schema: Schema, said: str) -> Schema:
    return {"name": name, "in": "query", "required": False, "schema": schema, "description": said}


def _path(name: str, schema: Schema) -> Schema:
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _body(name: str) -> Schema:
    return {"required": True, "content": _json(name, EXAMPLES[name])}


def _asking(name: str, summary: str, body: str) -> Schema:
    key = {"type": "string", "minLength": KEY_CHARS[0], "maxLength": KEY_CHARS[1]}
    header = {"name": "Idempotency-Key", "in": "header", "required": True, "schema": key}
    answers = {"202": _answer("Accepted, or accepted before", "RecheckAccepted", **_REPLAYED)}
    return _operation(name, summary, answers, 409, parameters=[header], requestBody=_body(body))


def _status(name: str) -> Schema:
    answers = {"200": _answer("How it stands", "RecheckStatus")}
    parameters = [_path("request_id", ULID)]
    return _operation(name, "How a request stands", answers, 404, parameters=parameters)


_HISTORY = {"minimum": params.HISTORY[0], "maximum": params.HISTORY[1], "type": "integer"}
_STRATEGY_ID = _path("strategy_id", ID)
_ARTIFACT_ID = _path("artifact_id", count())
_LISTED_BY = [
    _query("q", {"type": "string", "maxLength": params.TEXT_CHARS_MAX}, "In the id or title, literally."),
    _query("tags_any", {"type": "string"}, "Tags joined by commas; one is enough."),
    _query("health", {"type": "string"}, f"Of {', '.join(HEALTH['enum'])}; joined by commas."),
    _query("instrument", {"type": "string"}, "Instruments joined by commas."),
    _query("enabled", {"type": "string", "enum": ["all", "on", "off", "true", "false"]}, "Which of them."),
    _query("sort", {"type": "string", "enum": list(ORDERS), "default": params.ORDER}, "The order."),
    _query("page", count(1, default=1), "Which page."),
    _query("page_size", count(10, maximum=100, default=params.PAGE_SIZE), "How many on a page."),
]

_PATHS: dict[str, Any] = {
    "/pdca/recheck": {"post": _asking("recheck", "Recheck strategies by name", "RecheckRequest")},
    "/pdca/recheck_all": {
        "post": _asking("recheck_all", "Recheck all strategies that match", "RecheckAllRequest")
    },
    "/pdca/recheck/{request_id}": {"get": _status("get_recheck")},
    "/gui/requests/{request_id}": {"get": _status("get_gui_request")},
    "/gui/strategies": {
        "get": _operation(
            "list_strategies",
            "List strategies",
            {"200": _answer("A page", "StrategyPage")},
            parameters=_LISTED_BY,
        )
    },
    "/gui/strategies/{strategy_id}": {
        "get": _operation(
            "get_strategy",
            "One strategy with its latest results",
            {"200": _answer("The strategy", "StrategyDetail")},
            404,
            parameters=[
                _STRATEGY_ID,
                _query("summary_window_days", count(1, maximum=365, default=30), "Averages of these days."),
                _query("limit_history", _HISTORY | {"default": 50}, "How many results."),
            ],
        ),
        "put": _operation(
            "put_strategy",
            "Write the whole entry of a strategy",
            {"200": _answer("The entry", "StrategyEntry")},
            parameters=[_STRATEGY_ID],
            requestBody=_body("StrategyEntryWritten"),
        ),
        "delete": _operation(
            "delete_strategy",
            "Remove a strategy from the catalogue",
            {"204": {"description": "Removed", "headers": _LIMIT_HEADERS}},
            404,
            parameters=[_STRATEGY_ID],
        ),
    },
    "/gui/strategies/{strategy_id}/results": {
        "get": _operation(
            "get_results",
            "Results of a strategy, newest first",
            {"200": _answer("Results", "StrategyResults")},
            404,
            parameters=[
                _STRATEGY_ID,
                _query("from", {"type": "string"}, "From this instant or day on."),
                _query("to", {"type": "string"}, "Up to this instant or day."),
                _query("limit", _HISTORY | {"default": 100}, "How many at most."),
            ],
        )
    },
    "/gui/artifacts/{artifact_id}/url": {
        "get": _operation(
            "get_artifact_url",
            "An address from which an artifact can be had for five minutes",
            {"200": _answer("The address", "SignedArtifact")},
            404,
            parameters=[_ARTIFACT_ID],
        )
    },
    "/gui/artifacts/{artifact_id}/content": {
        "get": _operation(
            "get_artifact_content",
            "The artifact itself, by a signed address",
            {
                "200": {
                    "description": "Its bytes",
                    "headers": _LIMIT_HEADERS,
                    "content": {"*/*": {"schema": {"type": "string", "format": "binary"}}},
                }
            },
            404,
            parameters=[
                _ARTIFACT_ID,
                _query("tenant", {"type": "string"}, "As the signed address has it."),
                _query("token", {"type": "string"}, "As the signed address has it."),
            ],
            security=[],
        )
    },
}
