"""All connections of a gateway: how many there may be, and one sweep that ends those that take too long.

No connection has a timer of its own: each notes when its present phase began, and the sweep looks at all of
them. `protocol` is the protocol that notes; WebSockets are counted here and kept alive by pings.
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
FILES_MAX = 65_536  # what the limit of open files is raised to, if the system allows as much
FILES_FOR_OTHERS = 64  # broker, read model, log, wheels: not for connections
# Every way to be refused or ended by a limit, for the metrics.
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
REFUSED_OPEN_MAX = 32  # refused connections that are kept open for a moment, so that the answer arrives

NOT_HTTP = "ERR-PYOCO-0002"  # of bytes that are not HTTP


class Swept(Protocol):
    def check(self, now: float) -> None:
        """Looks at how long the connection has been in its phase; may end it."""


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
        """At the start of the process: room for as many connections as the system gives."""
        self._total_max = min(self._total_max, max(1, raise_file_limit() - FILES_FOR_OTHERS))

    def enter(self, peer: str, proxies: str | list[str]) -> str | None:
        """None: it may stay, until `leave`. Otherwise which limit it is over."""
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
        """Of an answer that the application never hears of: its own line for each cannot have it."""
        err_id = NOT_HTTP if status == 400 else None
        if self._lines.allows(peer, (status, err_id)):
            fields = {"err_id": err_id, "msg_id": message_id_of(err_id), "http_status": status, "peer": peer}
            fields |= {"x_request_id": request_id} if request_id else {}
            log.log(
                logging.WARNING if status == 503 else logging.INFO, sentence, exc_info=error, extra=fields
            )

    def sweep(self, connection: Swept) -> None:
        """From now on, until `forget`."""
        self._swept.add(connection)
        if self._sweeping is None:
            self._sweeping = asyncio.get_running_loop().call_later(self._sweep_sec, self._sweep)

    def forget(self, connection: Swept) -> None:
        self._swept.discard(connection)

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        for connection in tuple(self._swept):
            with contain("timeouts of connections"):  # a defect of one must not spare the others
                connection.check(now)
        self._sweeping = loop.call_later(self._sweep_sec, self._sweep) if self._swept else None


def raise_file_limit() -> int:
    """The number of files that may be open, after it was raised as far as it may be."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = FILES_MAX if hard == resource.RLIM_INFINITY else min(hard, FILES_MAX)
    if soft == resource.RLIM_INFINITY or soft >= most:
        return FILES_MAX if soft == resource.RLIM_INFINITY else soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    except (OSError, ValueError):  # a system that allows less than it says
        return soft
    return most


def is_proxy(peer: str, proxies: str | list[str]) -> bool:
    """Whether many clients may stand behind this address. `proxies`: as FORWARDED_ALLOW_IPS names them."""
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
            continue  # the path of a socket, perhaps; uvicorn too takes it as a name
