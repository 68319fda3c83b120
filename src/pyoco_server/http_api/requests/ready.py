"""The gateway that serves a request, if it can serve at all."""

from __future__ import annotations

from typing import Any

from starlette.requests import HTTPConnection


def ready_gateway(request: HTTPConnection) -> Any:
    """Raises Unavailable while the broker is away."""
    gateway = request.app.state.gateway
    gateway.check()
    return gateway
