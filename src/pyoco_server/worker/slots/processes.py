"""How the process of a slot is made: forked from the zygote of its edition, or as a fresh interpreter.

Owns the zygotes, and the guard that ends the process groups of all slots when the worker is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Protocol

from pyoco_server.config import NatsBackendConfig, environment_for_children
from pyoco_server.processes.group_guard import GroupGuard
from pyoco_server.processes.lifeline import die_with_parent
from pyoco_server.worker.slots.edition import Edition, SlotDied
from pyoco_server.worker.slots.zygote_link import ZygoteLink, ZygoteLost
from pyoco_server.worker.slots.zygote_spawn import (
    FOR_PLUGINS,
    SpawnedZygote,
    forks_slots,
    spawn_zygote,
)

log = logging.getLogger(__name__)

START_TIMEOUT_SEC = 60.0
# A slot is forked from a new zygote if the first one ends meanwhile.
FORK_ATTEMPTS = 2


class SlotProcess(Protocol):
    pid: int

    def is_alive(self) -> bool: ...

    async def wait(self) -> int | None:
        """The exit code, negative for a signal; None if it is not known."""

    def signal_group(self, sig: signal.Signals) -> None:
        """The process and all that it has started. Does nothing after `wait` has returned."""


class SlotProcesses:
    """`on_zygote_lost`: the zygote has ended; `prepare` starts another."""

    def __init__(
        self,
        config: NatsBackendConfig,
        spec: str,
        on_zygote_lost: Callable[[], None],
        spawned: SpawnedZygote | None = None,
    ) -> None:
        self._spec = spec
        self._parallelism = config.flow_parallelism
        self.are_forked = forks_slots(config)
        self._loads_flows = config.slot_start == "auto"
        self._on_zygote_lost = on_zygote_lost
        self._spawned = spawned
        self._guard = GroupGuard()
        self._preparing = asyncio.Lock()
        self._zygotes: dict[Edition, ZygoteLink] = {}
        self._is_closed = False

    async def start(self, edition: Edition, outputs: Sequence[int]) -> tuple[SlotProcess, socket.socket]:
        """A process that waits on its link, whose other end is returned. `outputs`: its stdout and stderr.

        Raises ResolverBroken, SlotDied, TimeoutError or OSError.
        """
        for _ in range(FORK_ATTEMPTS):
            with contextlib.suppress(ZygoteLost):
                # A new link each time: a zygote may have forked before it was lost.
                return await self._try_start(edition, outputs)
        raise SlotDied("the process that it was to be forked from ended")

    async def _try_start(self, edition: Edition, outputs: Sequence[int]) -> tuple[SlotProcess, socket.socket]:
        ours, theirs = socket.socketpair()
        with ExitStack() as on_error, theirs:
            on_error.callback(ours.close)
            process: SlotProcess
            if self.are_forked:
                process = await (await self._prepared_zygote(edition)).fork(theirs, outputs)
            else:
                process = await self._start_interpreter(edition, theirs, outputs)
            on_error.pop_all()
        return process, ours

    async def prepare(self, edition: Edition) -> None:
        """So that the next slot starts at once. Raises as `start` does."""
        if self.are_forked:
            await self._prepared_zygote(edition)

    def retire_others(self, edition: Edition) -> None:
        """Slots are started for this edition only. Zygotes of others end after their last slot."""
        for other in [one for one in self._zygotes if one != edition]:
            self._zygotes.pop(other).retire()

    def close(self) -> None:
        """Close the slots first. Callable twice."""
        self._is_closed = True
        for zygote in self._zygotes.values():
            zygote.close()
        self._zygotes.clear()
        if self._spawned is not None:
            self._new_zygote().close()
        self._guard.release()

    async def _prepared_zygote(self, edition: Edition) -> ZygoteLink:
        zygote = self._zygotes.get(edition)
        if zygote is not None and zygote.is_usable:
            return zygote
        async with self._preparing:
            zygote = self._zygotes.get(edition)
            if zygote is None or not zygote.is_usable:
                zygote = self._zygotes[edition] = await self._start_zygote(edition)
            return zygote

    async def _start_zygote(self, edition: Edition) -> ZygoteLink:
        zygote = self._new_zygote()
        with ExitStack() as on_error:  # also when cancelled: the process would be left behind
            on_error.callback(zygote.close)
            async with asyncio.timeout(START_TIMEOUT_SEC):
                unsafe = await zygote.prepare(
                    edition, self._spec, self._parallelism, loads_flows=self._loads_flows
                )
            if unsafe is None:
                on_error.pop_all()
                return zygote
        log.info(
            "every slot loads the flows itself; with PYOCO_SLOT_START=imports this is not tried first",
            extra={"cause": unsafe},
        )
        self._loads_flows = False
        return await self._start_zygote(edition)

    def _new_zygote(self) -> ZygoteLink:
        if self._is_closed and self._spawned is None:
            raise SlotDied("the worker is stopping")
        spawned, self._spawned = self._spawned or spawn_zygote(), None
        return ZygoteLink(spawned, self._guard, self._note_lost)

    def _note_lost(self) -> None:
        log.warning("the process that slots are forked from has ended; another one is started")
        self._on_zygote_lost()

    async def _start_interpreter(
        self, edition: Edition, link: socket.socket, outputs: Sequence[int]
    ) -> SlotProcess:
        stdout, stderr = outputs
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "pyoco_server.worker.slots.child"),
            *(str(link.fileno()), self._spec, str(self._parallelism), str(edition.path or "")),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            pass_fds=[link.fileno()],
            # /proc/self/environ shows the initial environment, so secrets must not be in it.
            env=environment_for_children(also=FOR_PLUGINS),
            start_new_session=True,
            preexec_fn=die_with_parent(),
        )
        return InterpreterProcess(process, self._guard)


class InterpreterProcess:
    """A slot's process that is a fresh interpreter: a child of the worker."""

    def __init__(self, process: asyncio.subprocess.Process, guard: GroupGuard) -> None:
        self.pid = process.pid
        self._process = process
        self._guard = guard
        self._is_over = False
        guard.watch(self.pid)

    def is_alive(self) -> bool:
        """Asks the kernel, which reports the end of a process before the event loop does."""
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
        except ChildProcessError:
            return False

    async def wait(self) -> int | None:
        code = await self._process.wait()
        self.signal_group(signal.SIGKILL)  # what it has started
        self._is_over = True
        self._guard.forget(self.pid)
        return code

    def signal_group(self, sig: signal.Signals) -> None:
        if not self._is_over:  # otherwise its id may be another's
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, sig)
