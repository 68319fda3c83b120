"""One nats-server process, from spawn to exit. Readiness and restarts are decided elsewhere."""

import asyncio
import contextlib
import logging
from pathlib import Path
from typing import Self

from pyoco_server.broker.server_log import ServerLog
from pyoco_server.config import environment_for_children
from pyoco_server.processes.lifeline import die_with_parent, guard_where_needed
from pyoco_server.supervision import Loop

STOP_GRACE_SEC = 10.0
LOG_DRAIN_SEC = 1.0

log = logging.getLogger("pyoco_server.broker")


class ServerProcess:
    """A running server, its log reader and, without PDEATHSIG, its guard."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        self._process = process
        self._stderr = process.stderr
        self.log = ServerLog(process.pid)
        # A loop, because a server blocks when its pipe is full and not read.
        self._reading = Loop("output of the embedded broker", self._read_output)
        self._reading.start()
        self._reading.wake()
        self._guard = guard_where_needed(process.pid)

    @classmethod
    async def spawn(cls, binary: Path, conf: Path, *, lock_fd: int) -> Self:
        """Start a server that dies with this thread, gets no Ctrl-C of the terminal, and inherits the lock.

        It dies by SIGKILL. SIGTERM would not be more orderly: SIGPIPE ends the server at its first log line
        into the closed pipe. JetStream loses no acknowledged message by it.
        """
        process = await asyncio.create_subprocess_exec(
            str(binary),
            "-c",
            str(conf),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            env=environment_for_children(),
            start_new_session=True,
            pass_fds=(lock_fd,),
            preexec_fn=die_with_parent(),
        )
        return cls(process)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.returncode is None

    async def wait(self) -> int:
        """The exit code, after the server has exited and its log was read to the end."""
        code = await self._process.wait()
        await self._reading.stop(LOG_DRAIN_SEC)
        if self._guard is not None:
            self._guard.release()
            self._guard = None
        return code

    async def end(self) -> None:
        """Terminate it, and kill it if it does not stop in time. Callable twice."""
        self._terminate()
        try:
            async with asyncio.timeout(STOP_GRACE_SEC):
                await self.wait()
        except TimeoutError:
            log.warning("nats-server did not stop in time and is killed", extra={"broker_pid": self.pid})
        finally:
            self._kill()  # also after a cancel: the folder is unlocked next
        await self.wait()

    async def _read_output(self) -> None:
        await self.log.follow(self._stderr)

    def _terminate(self) -> None:
        if self.running:
            with contextlib.suppress(ProcessLookupError):
                self._process.terminate()

    def _kill(self) -> None:
        if self.running:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
