"""Check a running server: whether it answers, can write, and needs a restart. Restarts nothing.

After a disk error nats-server refuses every write to that stream until it is restarted, also when there is
space again. It reports this only in its log: publishers get no answer.
"""

import time

from pyoco_server.broker.disk import disk_of
from pyoco_server.broker.prepare import ServerPlan
from pyoco_server.broker.probe import greeting_at
from pyoco_server.broker.process import ServerProcess

LOOK_EVERY_SEC = 1.0
# One probe may be late on a busy machine.
UNANSWERED_MAX = 1
# With less space, a restarted server would fail at its first writes again.
FREE_BYTES_TO_RESTART = 8 * 2**20


class BrokerHealth:
    def __init__(self, plan: ServerPlan) -> None:
        self._plan = plan
        self._unanswered = 0
        self._silent_since = 0.0

    def forget(self) -> None:
        """Call it when a new server was started."""
        self._unanswered = 0

    async def look(self) -> None:
        began = time.monotonic()
        greeting = await greeting_at(self._plan.host, self._plan.port)
        if greeting is not None and greeting.server_name == self._plan.server_name:
            self._unanswered = 0
            return
        if not self._unanswered:
            self._silent_since = began
        self._unanswered += 1

    def needs_restart(self, server: ServerProcess) -> bool:
        """Whether it cannot write because of a disk error, and the disk has space now."""
        if server.log.write_error is None:
            return False
        disk = disk_of(self._plan.conf.parent)
        return disk is not None and disk.free_bytes >= min(FREE_BYTES_TO_RESTART, disk.total_bytes // 8)

    def why_not(self, server: ServerProcess) -> str | None:
        if self._unanswered > UNANSWERED_MAX:
            silent_sec = time.monotonic() - self._silent_since
            return f"the embedded broker does not answer since {silent_sec:.0f} s"
        if server.log.write_error is not None:
            return (
                f"the embedded broker cannot write ({server.log.write_error}); "
                "it is restarted as soon as its disk has space"
            )
        return None
