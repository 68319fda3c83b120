"""Which names and addresses mean this gateway: in `Host`, at our end of a connection, in its own URLs."""

from __future__ import annotations

from starlette.requests import HTTPConnection
from starlette.types import Scope

from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api.middleware.addresses import host_name, is_loopback

# Remembered so that a request costs a look-up. Callers choose what they send: so there is a bound.
KNOWN_MAX = 64


class OwnHosts:
    def __init__(self, config: NatsBackendConfig) -> None:
        self._public_url = config.public_url.rstrip("/")
        self.allowed = frozenset(name.lower() for name in config.allowed_host_names)
        self._names = {"localhost", config.http_host.strip("[]").lower()} | self.allowed
        self._known_hosts: set[str] = set()
        self._known_loopback: set[str] = set()

    def has(self, host: str, scope: Scope) -> bool:
        """Whether this `Host` is ours: known by name, or the very address that the connection came in at."""
        if host in self._known_hosts:
            return True
        name = host_name(host)
        is_ours = name in self._names or is_loopback(name) or (name != "" and name == _local_address(scope))
        if is_ours and len(self._known_hosts) < KNOWN_MAX:
            self._known_hosts.add(host)
        return is_ours

    def is_at_loopback(self, scope: Scope) -> bool:
        """Whether the connection came in at an address that only this machine can reach."""
        address = _local_address(scope)
        if address in self._known_loopback:
            return True
        found = is_loopback(address)
        if found and len(self._known_loopback) < KNOWN_MAX:
            self._known_loopback.add(address)
        return found

    def url_of(self, request: HTTPConnection) -> str:
        """The start of an address that leads back here. The caller's `Host` counts only if it is ours."""
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
