"""A zygote, on the worker's side: asks it for slots, and follows the processes that it has made.

A forked slot is not a child of the worker. The zygote reports its exit code, and keeps its id from being
given to another process until the worker releases it. A pidfd shows that a process has ended, also if the
zygote is killed or stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
import select
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from typing import TypeVar

from pyoco_server.printable import one_line
from pyoco_server.processes.group_guard import GroupGuard
from pyoco_server.worker.slots.edition import Edition, ResolverBroken, SlotDied
from pyoco_server.worker.slots.link import PipeReader
from pyoco_server.worker.slots.zygote_messages import (
    PACKET_BYTES_MAX,
    Exited,
    Fork,
    Forked,
    FromZygote,
    NotForked,
    NotLoaded,
    Prepare,
    Prepared,
    Release,
    ToZygote,
    decode_from_zygote,
    encode,
)
from pyoco_server.worker.slots.zygote_spawn import SpawnedZygote

log = logging.getLogger(__name__)

# A zygote only waits for messages: one that takes longer than this is stopped or broken.
FORK_TIMEOUT_SEC = 5.0
# How long the exit code of a process that has ended is waited for.
EXIT_CODE_TIMEOUT_SEC = 1.0

T = TypeVar("T")


class ZygoteLost(Exception):
    """The zygote has ended, or does not answer. Another one can be started."""


class ZygoteLink:
    """`on_lost` is called once, if it was ready and has ended without having been closed."""

    def __init__(self, spawned: SpawnedZygote, guard: GroupGuard, on_lost: Callable[[], None]) -> None:
        self._spawned = spawned
        self._control = spawned.control
        self.guard = guard
        self._on_lost = on_lost
        pipes = {"stdout": spawned.stdout, "stderr": spawned.stderr}
        self._pipes = [PipeReader(stream, _print_lines, reader) for stream, reader in pipes.items()]
        self._prepared: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._forks: dict[int, asyncio.Future[ForkedProcess]] = {}
        self._numbers = itertools.count(1)
        self._processes: dict[int, ForkedProcess] = {}
        self._is_retired = False
        self._is_ended = False
        self.is_usable = True

    @property
    def pid(self) -> int:
        return self._spawned.process.pid

    async def prepare(
        self, edition: Edition, spec: str, parallelism: int, *, loads_flows: bool
    ) -> str | None:
        """Returns why no slot can be forked from it; None if slots can. Raises ResolverBroken or SlotDied."""
        # Loading flows is user code: what it starts is in the zygote's group.
        self.guard.watch(self.pid)
        for pipe in self._pipes:
            pipe.open()
        asyncio.get_running_loop().add_reader(self._control, self._receive)
        path = str(edition.path or "")
        self._send(Prepare(spec=spec, parallelism=parallelism, path=path, loads_flows=loads_flows))
        return await self._prepared

    async def fork(self, link: socket.socket, outputs: Sequence[int]) -> ForkedProcess:
        """Raises ZygoteLost, OSError if the kernel refuses, or SlotDied if the process has ended already."""
        number = next(self._numbers)
        forked: asyncio.Future[ForkedProcess] = asyncio.get_running_loop().create_future()
        self._forks[number] = forked
        try:
            self._send(Fork(number=number), [link.fileno(), *outputs])
            await asyncio.wait({forked}, timeout=FORK_TIMEOUT_SEC)
            if not forked.done():
                log.warning("the zygote does not answer and is killed", extra={"pid": self.pid})
                self._lose()
                raise ZygoteLost
            return forked.result()
        finally:
            del self._forks[number]
            self._end_if_idle()

    def retire(self) -> None:
        """No further slot is forked; it ends after its last slot."""
        self._is_retired = True
        self._end_if_idle()

    def close(self) -> None:
        """Kill it. Its slots are closed by their owners. Callable twice."""
        self.is_usable = False
        self._end()

    def release(self, pid: int) -> None:
        """The process has ended, and its group."""
        self._processes.pop(pid, None)
        self.guard.forget(pid)
        if self.is_usable:
            self._send(Release(pid=pid))
        self._end_if_idle()

    def _end_if_idle(self) -> None:
        if self._is_retired and not self._processes and not self._forks:
            self.close()

    def _receive(self) -> None:
        while self.is_usable:
            try:
                data = self._control.recv(PACKET_BYTES_MAX)
            except BlockingIOError:
                return
            except ConnectionError:
                data = b""
            if data:
                self._handle(decode_from_zygote(data))
            else:
                self._lose()

    def _handle(self, message: FromZygote) -> None:
        match message:
            case Prepared():
                _settle(self._prepared, message.unsafe)
            case NotLoaded():
                _fail(self._prepared, ResolverBroken(message.error))
            case Forked():
                self._note_fork(message)
            case NotForked():
                waiting = self._forks.get(message.number)
                if waiting is not None:
                    _fail(waiting, OSError(message.errno, message.error))
            case Exited():
                process = self._processes.get(message.pid)
                if process is not None:
                    process.note_exit(message.code)

    def _note_fork(self, message: Forked) -> None:
        waiting = self._forks.get(message.number)
        try:
            process = self._processes[message.pid] = ForkedProcess(message.pid, self)
        except OSError:  # the zygote was killed since, and the process has ended
            if waiting is not None:
                _fail(waiting, SlotDied("its process ended while it was starting"))
            return
        self.guard.watch(message.pid)
        if waiting is None or waiting.done():
            process.signal_group(signal.SIGKILL)  # its start was given up
        else:
            waiting.set_result(process)

    def _send(self, message: ToZygote, descriptors: Sequence[int] = ()) -> None:
        try:
            socket.send_fds(self._control, [encode(message)], list(descriptors))
        except OSError:  # it has ended, or is stopped and its buffer is full
            self._lose()
            if isinstance(message, Fork):
                raise ZygoteLost from None

    def _lose(self) -> None:
        if self.is_usable:
            self.is_usable = False
            was_ready = self._prepared.done() and not self._is_retired
            self._end()
            if was_ready:
                self._on_lost()

    def _end(self) -> None:
        if self._is_ended:
            return
        self._is_ended = True
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._control)
        self._spawned.kill()
        self.guard.forget(self.pid)
        self._control.close()
        for pipe in self._pipes:
            pipe.drain()
            pipe.close()
        _fail(self._prepared, SlotDied("its process ended while it was starting"))
        for waiting in self._forks.values():
            _fail(waiting, ZygoteLost())
        for process in list(self._processes.values()):
            process.note_zygote_lost()
        loop.run_in_executor(None, self._spawned.process.wait)


class ForkedProcess:
    """A slot's process that a zygote has made."""

    def __init__(self, pid: int, zygote: ZygoteLink) -> None:
        self.pid = pid
        self._zygote = zygote
        self._pidfd = os.pidfd_open(pid)
        self._is_over = select.poll()
        self._is_over.register(self._pidfd, select.POLLIN)
        self._loop = asyncio.get_running_loop()
        self._code: asyncio.Future[int | None] = self._loop.create_future()
        self._timer: asyncio.TimerHandle | None = None
        self._loop.add_reader(self._pidfd, self._note_end)

    def is_alive(self) -> bool:
        """Asks the kernel, which reports the end of a process before the event loop does."""
        return not self._code.done() and not self._is_over.poll(0)

    async def wait(self) -> int | None:
        """The exit code, negative for a signal; None if it is not known."""
        return await asyncio.shield(self._code)

    def signal_group(self, sig: signal.Signals) -> None:
        """The process and all that it has started. Does nothing after its end."""
        if self._code.done():
            return
        try:
            os.killpg(self.pid, sig)
        except PermissionError:
            return
        except ProcessLookupError:  # it has no group of its own yet
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, sig)

    def note_exit(self, code: int | None) -> None:
        if self._code.done():
            return
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        if self._timer is not None:
            self._timer.cancel()
        self._code.set_result(code)
        self._zygote.release(self.pid)

    def note_zygote_lost(self) -> None:
        """No exit code is reported from now on."""
        if self._timer is not None:
            self._end_without_code()

    def _note_end(self) -> None:
        """The kernel shows the end; the zygote reports the code, unless it is lost or stopped."""
        self._loop.remove_reader(self._pidfd)
        wait_sec = EXIT_CODE_TIMEOUT_SEC if self._zygote.is_usable else 0.0
        self._timer = self._loop.call_later(wait_sec, self._end_without_code)

    def _end_without_code(self) -> None:
        self.signal_group(signal.SIGKILL)  # what it has started; the zygote would have done it
        self.note_exit(None)


def _print_lines(_stream: str, lines: list[str]) -> None:
    sys.stderr.write("".join(f"{one_line(line)}\n" for line in lines))


def _settle(future: asyncio.Future[T], value: T) -> None:
    if not future.done():
        future.set_result(value)


def _fail(future: asyncio.Future[T], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
        future.exception()  # it may be that nothing awaits it: that is no defect
