"""The names and addresses of this gateway: in `Host`, at its end of a connection, in its URLs."""

from __future__ import annotations

from starlette.requests import HTTPConnection
from starlette.types import Scope

from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api.middleware.addresses import host_name, is_loopback

# Cached, so that a request costs one lookup. Bounded, because callers choose the values.
KNOWN_MAX = 64


class OwnHosts:
    def __init__(self, config: NatsBackendConfig) -> None:
        self._public_url = config.public_url.rstrip("/")
        self.allowed = frozenset(name.lower() for name in config.allowed_host_names)
        self._names = {"localhost", config.http_host.strip("[]").lower()} | self.allowed
        self._known_hosts: set[str] = set()
        self._known_loopback: set[str] = set()

    def has(self, host: str, scope: Scope) -> bool:
        """Whether this `Host` is a known name, or the local address of the connection."""
        if host in self._known_hosts:
            return True
        name = host_name(host)
        is_ours = name in self._names or is_loopback(name) or (name != "" and name == _local_address(scope))
        if is_ours and len(self._known_hosts) < KNOWN_MAX:
            self._known_hosts.add(host)
        return is_ours

    def is_at_loopback(self, scope: Scope) -> bool:
        """Whether the local address of the connection is loopback."""
        address = _local_address(scope)
        if address in self._known_loopback:
            return True
        found = is_loopback(address)
        if found and len(self._known_loopback) < KNOWN_MAX:
            self._known_loopback.add(address)
        return found

    def url_of(self, request: HTTPConnection) -> str:
        """The base of URLs of this gateway. The `Host` of the request is used only if it is valid."""
        if self._public_url:
            return self._public_url
        if self.has(request.headers.get("host", ""), request.scope):
            return str(request.base_url).rstrip("/")
        address, port = request.scope.get("server") or ("localhost", None)
        place = f"[{address}]" if ":" in address else address
        place = f"{place}:{port}" if port else place
        return f"{request.url.scheme}://{place}{request.scope.get('root_path', '')}".rstrip("/")


def _local_address(scope: Scope) -> str:
    server = scope.get("server")
    return server[0] if server else ""
