"""`X-Correlation-Id` and `traceparent` of a request, for the runs that it starts and for its log lines."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.types import Scope

from pyoco_server.errors import Invalid
from pyoco_server.http_api.middleware.refusal_log import VISIT
from pyoco_server.tracing import (
    CORRELATION_HEADER,
    CORRELATION_ID_RULE,
    TRACEPARENT_HEADER,
    is_correlation_id,
    usable_correlation_id,
    usable_traceparent,
)


def correlation_id_of(headers: Mapping[str, str]) -> str | None:
    """None when none was sent; an invalid one is refused."""
    given = headers.get(CORRELATION_HEADER.lower())
    if not given:
        return None
    if not is_correlation_id(given):
        raise Invalid.at(["header", CORRELATION_HEADER], f"{CORRELATION_HEADER} {CORRELATION_ID_RULE}")
    return given


def traceparent_of(headers: Mapping[str, str]) -> str | None:
    """None when none was sent, and for an invalid one, which W3C requires to be ignored."""
    return usable_traceparent(headers.get(TRACEPARENT_HEADER))


def line_fields(scope: Scope) -> Mapping[str, object]:
    """Fields of every line that is logged while this request is served."""
    sent = {name: value.decode("latin-1") for name, value in scope["headers"] if name in _LOOKED_AT}
    fields = {
        "x_request_id": scope[VISIT].request_id,
        "correlation_id": usable_correlation_id(sent.get(b"x-correlation-id")),
        "traceparent": usable_traceparent(sent.get(b"traceparent")),
    }
    return {name: value for name, value in fields.items() if value is not None}


_LOOKED_AT = frozenset({b"x-correlation-id", b"traceparent"})
