"""All connections of a gateway: their number is limited, and one sweep ends those that take too long.

Connections have no timers: `protocol` notes when a phase of a connection began, and the sweep checks all
connections. WebSockets are counted here and kept alive by pings.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import resource
from collections import Counter
from collections.abc import Iterable
from functools import cache
from typing import Protocol

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import message_id_of
from pyoco_server.http_api.middleware.refusal_log import LineBudget
from pyoco_server.supervision import contain

log = logging.getLogger(__name__)

SWEEP_SEC = 1.0
FILES_MAX = 65_536  # the limit of open files is raised to this, if the system allows it
FILES_FOR_OTHERS = 64  # broker, read model, log, wheels: not for connections
# Reasons for which a limit refuses or ends a connection, for the metrics.
REASONS = (
    "connections",
    "connections_per_peer",
    "header_timeout",
    "body_timeout",
    "send_timeout",
    "headers",
    "url",
    "pipelined",
    "malformed",
)
REFUSED_OPEN_MAX = 32  # refused connections that stay open briefly, so that the response arrives

NOT_HTTP = "ERR-PYOCO-0002"  # of bytes that are not HTTP


class Swept(Protocol):
    def check(self, now: float) -> None:
        """Ends the connection if it has been in its phase for too long."""


class Connections:
    def __init__(self, config: NatsBackendConfig) -> None:
        self.head_bytes_max = config.http_max_header_bytes
        self.headers_max = config.http_max_headers
        self.url_bytes_max = config.http_max_url_bytes
        self.head_sec = config.http_header_timeout_sec
        self.body_sec = config.http_body_timeout_sec
        self.body_bytes_per_sec = config.http_body_min_bytes_per_sec
        self.idle_sec = config.http_idle_timeout_sec
        self.send_sec = config.http_send_timeout_sec
        shortest_sec = min(self.head_sec, self.body_sec, self.idle_sec, self.send_sec)
        self._sweep_sec = min(SWEEP_SEC, shortest_sec / 4)
        self._total_max = config.http_connections_max
        self._per_peer_max = config.http_connections_per_peer_max
        self._peers: dict[str, int] = {}
        self._swept: set[Swept] = set()
        self._sweeping: asyncio.TimerHandle | None = None
        self.open = 0
        self.refused_open = 0
        self.rejected: Counter[str] = Counter()
        self._lines = LineBudget("refused connections were not logged one by one")

    def prepare(self) -> None:
        """At the start of the process: raises the limit of open files and adapts the limit of connections."""
        self._total_max = min(self._total_max, max(1, raise_file_limit() - FILES_FOR_OTHERS))

    def enter(self, peer: str, proxies: str | list[str]) -> str | None:
        """None: the connection is counted until `leave`. Otherwise the limit that refuses it."""
        if self.open >= self._total_max:
            return "connections"
        of_peer = self._peers.get(peer, 0)
        if of_peer >= self._per_peer_max and not is_proxy(peer, proxies):
            return "connections_per_peer"
        self._peers[peer] = of_peer + 1
        self.open += 1
        return None

    def leave(self, peer: str) -> None:
        self.open -= 1
        left = self._peers[peer] - 1
        if left:
            self._peers[peer] = left
        else:
            del self._peers[peer]

    def log_refusal(
        self, peer: str, status: int, sentence: str, request_id: str = "", error: Exception | None = None
    ) -> None:
        """For responses that do not reach the application, and so not its refusal log."""
        err_id = NOT_HTTP if status == 400 else None
        if self._lines.allows(peer, (status, err_id)):
            fields = {"err_id": err_id, "msg_id": message_id_of(err_id), "http_status": status, "peer": peer}
            fields |= {"x_request_id": request_id} if request_id else {}
            log.log(
                logging.WARNING if status == 503 else logging.INFO, sentence, exc_info=error, extra=fields
            )

    def sweep(self, connection: Swept) -> None:
        """Checks the connection regularly, until `forget`."""
        self._swept.add(connection)
        if self._sweeping is None:
            self._sweeping = asyncio.get_running_loop().call_later(self._sweep_sec, self._sweep)

    def forget(self, connection: Swept) -> None:
        self._swept.discard(connection)

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        for connection in tuple(self._swept):
            with contain("timeouts of connections"):  # an error of one must not stop the sweep
                connection.check(now)
        self._sweeping = loop.call_later(self._sweep_sec, self._sweep) if self._swept else None


def raise_file_limit() -> int:
    """Raises the limit of open files as far as possible, and returns it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = FILES_MAX if hard == resource.RLIM_INFINITY else min(hard, FILES_MAX)
    if soft == resource.RLIM_INFINITY or soft >= most:
        return FILES_MAX if soft == resource.RLIM_INFINITY else soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    except (OSError, ValueError):  # the system allows less than its hard limit
        return soft
    return most


def is_proxy(peer: str, proxies: str | list[str]) -> bool:
    """Whether this address is a proxy for many clients. `proxies`: in the format of FORWARDED_ALLOW_IPS."""
    everywhere, addresses, networks = _proxies(proxies if isinstance(proxies, str) else ",".join(proxies))
    if everywhere or peer in addresses:
        return True
    try:
        address = ipaddress.ip_address(peer)
    except ValueError:
        return False
    return any(address in network for network in networks)


@cache
def _proxies(
    written: str,
) -> tuple[bool, frozenset[str], tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]]:
    names = frozenset(part.strip() for part in written.split(","))
    return "*" in names, names, tuple(_networks(name for name in names if "/" in name))


def _networks(names: Iterable[str]) -> Iterable[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    for name in names:
        try:
            yield ipaddress.ip_network(name)
        except ValueError:
            continue  # perhaps the path of a socket; uvicorn treats it as a name too
