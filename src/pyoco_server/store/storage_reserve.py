"""Whether the broker has room for new work, as far as this process knows.

A gateway that watches the storage reports it here, and to all other processes by a plain message that needs
no disk. A write that the broker refused for lack of storage counts for a few seconds. Reports expire, so a
gateway that ends while storage is low blocks nothing for ever.

New work (`check`) and lines that runs print are refused meanwhile. Cancels, progress and ends of runs, and
erasing are not: the reserve is for them.
"""

from __future__ import annotations

import time

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import Unavailable
from pyoco_server.ids import new_token
from pyoco_server.jetstream.client import BrokerClient
from pyoco_server.jetstream.errors import BrokerAway

# Reported each second while storage is low.
HEARD_FOR_SEC = 5.0
# After this time a write is tried again.
REFUSED_FOR_SEC = 5.0
COME_BACK_SEC = 30.0
_LOW, _ENOUGH = b"low", b"enough"


class NoRoom(Unavailable):
    """Refused before anything was written: the same request succeeds once there is room."""

    def __init__(self) -> None:
        super().__init__(
            "The broker is running out of storage, so new work is refused. Cancels, erasing and runs under "
            "way go on. Erase runs that are over, or give the broker more space.",
            retry_after_sec=COME_BACK_SEC,
            err_id="",  # the kind's says that the broker is away
        )


class StorageReserve:
    def __init__(self, client: BrokerClient, config: NatsBackendConfig) -> None:
        self._client = client
        self._subject = f"{config.live_subject_prefix}.storage.state"
        self._own = b" " + new_token().encode()  # the broker also sends this process its own messages
        self._is_low_here = False
        self._heard_at = self._refused_at = float("-inf")
        self._sid: int | None = None

    async def open(self) -> None:
        if self._sid is None:
            self._sid = await self._client.listen(self._subject, self._on_report)

    @property
    def is_low(self) -> bool:
        if self._is_low_here:
            return True
        now = time.monotonic()
        return now - self._heard_at < HEARD_FOR_SEC or self.was_refused

    @property
    def was_refused(self) -> bool:
        """Whether the broker has recently refused a write for lack of storage."""
        return time.monotonic() - self._refused_at < REFUSED_FOR_SEC

    def check(self) -> None:
        """Raises NoRoom while storage is low. For everything that adds data."""
        if self.is_low:
            raise NoRoom

    def note_refusal(self) -> None:
        """A write was refused for lack of storage."""
        self._refused_at = time.monotonic()

    def report(self, *, is_low: bool) -> None:
        """Report what this process has measured. Sent to the others each time while storage is low."""
        if not is_low and not self._is_low_here:
            return
        self._is_low_here = is_low
        try:
            self._client.send(self._subject, (_LOW if is_low else _ENOUGH) + self._own)
        except BrokerAway:
            return  # the others receive the next report

    def _on_report(self, _subject: bytes, _reply: bytes, _headers: bytes, data: bytes) -> None:
        if not data.endswith(self._own):
            self._heard_at = time.monotonic() if data.startswith(_LOW) else float("-inf")
