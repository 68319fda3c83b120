"""Keep one server running: restart it when it dies unexpectedly or can no longer write. Owns that server.

It restarts on the same port with the same credentials, because its clients use them. Until it succeeds,
`why_not` has the reason.
"""

import asyncio
import logging
import re
import subprocess
import time
from collections.abc import Callable

from pyoco_server.broker.disk import disk_of
from pyoco_server.broker.errors import BrokerError
from pyoco_server.broker.launch import launch
from pyoco_server.broker.prepare import ServerPlan
from pyoco_server.broker.probe import greeting_at
from pyoco_server.broker.process import STOP_GRACE_SEC, ServerProcess
from pyoco_server.supervision import Backoff, Loop, wait_for_event

FIRST_BACKOFF_SEC = 0.1
# After a server has run for this long, its next restart comes at once.
STABLE_AFTER_SEC = 10.0
PATIENCE_DOUBLINGS_MAX = 6
# For a server that is being started: it is ended.
STOP_WITHIN_SEC = 2 * STOP_GRACE_SEC
REASON_CHARS_MAX = 300
LOOK_EVERY_SEC = 1.0
# One probe may be late on a busy machine.
UNANSWERED_MAX = 1
# With less space, a restarted server would fail at its first writes again.
FREE_BYTES_TO_RESTART = 8 * 2**20

_PATH = re.compile(r"(?<![\w:/])/[^\s'\"]+")

log = logging.getLogger("pyoco_server.broker")


class Supervisor:
    """Started once, stopped once."""

    def __init__(
        self,
        plan: ServerPlan,
        server: ServerProcess,
        *,
        ready_timeout_sec: float,
        backoff_max_sec: float,
        on_restart: Callable[[ServerProcess], None],
    ) -> None:
        self._plan = plan
        self._ready_timeout_sec = ready_timeout_sec
        self._backoff = restart_backoff(backoff_max_sec)
        self._on_restart = on_restart
        self._stopping = asyncio.Event()  # a flag beside the task: before Python 3.12 a cancel can get lost
        self.server = server
        self._ready_at = time.monotonic()
        self._failures = 0
        self._failed_because: str | None = None
        self._health = _BrokerHealth(plan)
        self._is_restarting = False
        self._looking = Loop("health of the embedded broker", self._look, interval_sec=LOOK_EVERY_SEC)
        self._looking.start()
        self._watching = Loop("embedded broker", self._watch)
        self._watching.start()
        self._watching.wake()

    @property
    def why_not(self) -> str | None:
        """One sentence about what does not work, or None."""
        if self.server.running:
            return self._health.why_not(self.server)
        because = f": {self._failed_because}" if self._failed_because else ""
        return f"the embedded broker is down and is being restarted{because}"

    async def stop(self) -> None:
        self._stopping.set()
        await self._looking.stop()
        await self.server.end()
        await self._watching.stop(STOP_WITHIN_SEC)
        await self.server.end()  # another one, if a restart was in progress

    async def _watch(self) -> None:
        """Wait for the end of the server, then start the next."""
        if await self._wait_until_dead():
            await self._revive()
            self._watching.wake()

    async def _wait_until_dead(self) -> bool:
        """Wait for the end of the server; False if `stop` caused it, or ends the server by itself."""
        if self._stopping.is_set():
            return False
        code = await self.server.wait()
        if self._stopping.is_set():
            return False
        fields = {"broker_pid": self.server.pid, "exit_code": code}
        if self._is_restarting:
            self._is_restarting = False
        else:
            log.warning("nats-server died unexpectedly", extra=fields)
            self._failed_because = _in_one_line(f"it ended with code {code}. {self.server.log.explanation()}")
        if time.monotonic() - self._ready_at >= STABLE_AFTER_SEC:
            self._failures = 0
        return True

    async def _revive(self) -> None:
        """Try until a server runs again, or until `stop`."""
        while await self._back_off():
            self._failures += 1
            try:
                self.server = await self._launch()
            except (BrokerError, OSError, subprocess.SubprocessError) as error:
                log.error("nats-server could not be restarted", extra={"reason": str(error)})
                self._failed_because = _in_one_line(str(error))
            else:
                self._ready_at = time.monotonic()
                self._failed_because = None
                self._health.forget()
                log.warning("nats-server restarted", extra={"broker_pid": self.server.pid})
                self._on_restart(self.server)
                return

    async def _look(self) -> None:
        if not self.server.running:
            return
        await self._health.look()
        server = self.server
        if self._health.needs_restart(server) and not self._stopping.is_set():
            fields = {"broker_pid": server.pid, "reason": server.log.write_error}
            log.warning("nats-server could not write; there is space again, so it is restarted", extra=fields)
            self._is_restarting = True
            await server.end()

    async def _back_off(self) -> bool:
        """Wait for the backoff after the failures so far; False if stopped meanwhile."""
        return not await wait_for_event(self._stopping, self._backoff.after(self._failures))

    async def _launch(self) -> ServerProcess:
        # The timeout doubles: a large store may need more time than the first one allows.
        doublings = min(self._failures - 1, PATIENCE_DOUBLINGS_MAX)
        patience_sec = self._ready_timeout_sec * 2**doublings
        return await launch(self._plan, ready_timeout_sec=patience_sec, given_up=self._stopping.is_set)


class _BrokerHealth:
    """Whether a running server answers, can write, and needs a restart. Restarts nothing.

    After a disk error nats-server refuses every write to that stream until it is restarted, also when there
    is space again. It reports this only in its log: publishers get no answer.
    """

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


def restart_backoff(longest_sec: float) -> Backoff:
    """The first restart comes at once; after it the waits double."""
    return Backoff(FIRST_BACKOFF_SEC, longest_sec, jitter=0.0)


def _in_one_line(text: str) -> str:
    """For `/ready`, which needs no key: lines of the server's log without paths, up to a limit."""
    return " ".join(_PATH.sub("…", text).split())[:REASON_CHARS_MAX]
