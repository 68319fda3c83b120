"""What a request is served with: the gateway of its application, with its type.

Faces import `Gateway` and `Store` from here, for annotations. What they do goes through `operations`.
"""

from __future__ import annotations

from starlette.requests import HTTPConnection

from pyoco_server.http_api.gateway import Gateway as Gateway
from pyoco_server.store.store import Store as Store


def gateway_of(request: HTTPConnection) -> Gateway:
    gateway: Gateway = request.app.state.gateway
    return gateway


def ready_gateway(request: HTTPConnection) -> Gateway:
    """Raises Unavailable while the broker is away: nothing is answered from memory then."""
    gateway = gateway_of(request)
    gateway.check()
    return gateway
