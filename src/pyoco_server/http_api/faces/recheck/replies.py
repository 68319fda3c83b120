"""Descriptions of responses and errors of the recheck face, with their headers."""

from __future__ import annotations

from typing import Any

from pyoco_server.http_api.routing.operation import JSON, Content
from pyoco_server.http_api.routing.schemas import ref

LIMIT_HEADERS = {
    name: {"description": description, "schema": {"type": kind}}
    for name, kind, description in (
        ("X-RateLimit-Limit", "integer", "Requests of this kind in a minute."),
        ("X-RateLimit-Remaining", "integer", "How many are left now."),
        ("X-RateLimit-Reset", "integer", "Seconds until all are there again."),
        ("RateLimit-Policy", "string", "The same, as the IETF draft has it."),
        ("RateLimit", "string", "The same, as the IETF draft has it."),
    )
}
REPLAYED = {"Idempotency-Replayed": {"description": "Given again.", "schema": {"const": "true"}}}
ALWAYS = (400, 401, 403, 429, 500, 502)
_RETRY = {
    "Retry-After": {"description": "Seconds to wait before the next try.", "schema": {"type": "integer"}}
}
_DESCRIPTIONS = {429: "Too many requests", 502: "The broker, or Airflow, is away"}


def answer(description: str, name: str, **headers: Any) -> Content:
    """`name`: of the schema."""
    return Content(description, {JSON: ref(name)}, more={"headers": LIMIT_HEADERS | headers})


def empty(description: str) -> Content:
    return Content(description, more={"headers": LIMIT_HEADERS})


def body(name: str) -> Content:
    return Content(kinds={JSON: ref(name)})


def refusal(status: int) -> Content:
    more = {"headers": LIMIT_HEADERS | (_RETRY if status in _DESCRIPTIONS else {})}
    return Content(_DESCRIPTIONS.get(status, "Error"), {JSON: ref("RecheckError")}, more=more)
