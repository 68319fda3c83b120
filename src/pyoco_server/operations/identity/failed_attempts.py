"""Limits failed authentications: a token bucket for each address, in the memory of this gateway.

Keys and tokens that were accepted before are cached (`authenticate`), so callers behind the same address as
an attacker keep working. Only the check of credentials that were never accepted is limited.
"""

from __future__ import annotations

import ipaddress
import logging

from pyoco_server.clock import elapsed
from pyoco_server.errors import Limited
from pyoco_server.operations.bounded_dict import put_bounded
from pyoco_server.token_bucket import BucketLevel, take

log = logging.getLogger(__name__)

PEERS_MAX = 4_096  # above this, the address with the oldest failure is forgotten
IPV6_PREFIX = 64  # one subscriber has at least so many addresses


class FailedAttempts:
    """Lives as long as its gateway. `per_minute` 0: no limit."""

    def __init__(self, per_minute: int) -> None:
        self._per_minute = per_minute
        self._levels: dict[str, BucketLevel] = {}

    def __len__(self) -> int:
        return len(self._levels)

    def check(self, peer: str) -> None:
        """Raises Limited while the peer has used up its failures."""
        level = self._levels.get(_network(peer)) if self._levels else None
        if level is None:
            return
        _, taken = take(level, self._per_minute, elapsed())
        if not taken.allowed:
            raise Limited(
                f"More than {self._per_minute} keys or tokens that are not good came from this address in a "
                f"minute. Come back in {taken.retry_after_sec} s.",
                retry_after_sec=taken.retry_after_sec,
            )

    def note(self, peer: str) -> None:
        if not self._per_minute:
            return
        network = _network(peer)
        level, taken = take(self._levels.get(network), self._per_minute, elapsed())
        put_bounded(self._levels, network, level, PEERS_MAX)
        if taken.allowed and taken.remaining == 0:
            log.warning("too many failed authentications", extra={"peer": network})


def _network(peer: str) -> str:
    try:
        address = ipaddress.ip_address(peer)
    except ValueError:
        return peer  # a Unix socket, or a name from a proxy
    if address.version == 4:
        return peer
    return str(ipaddress.ip_network((int(address), IPV6_PREFIX), strict=False))
