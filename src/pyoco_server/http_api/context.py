"""The gateway of a request's application, with its type. Faces import `Store` from here, for annotations."""

from __future__ import annotations

from starlette.requests import HTTPConnection

from pyoco_server.http_api.gateway import Gateway
from pyoco_server.store.store import Store as Store


def gateway_of(request: HTTPConnection) -> Gateway:
    gateway: Gateway = request.app.state.gateway
    return gateway


def ready_gateway(request: HTTPConnection) -> Gateway:
    """Raises Unavailable while there is no connection to the broker."""
    gateway = gateway_of(request)
    gateway.check()
    return gateway
