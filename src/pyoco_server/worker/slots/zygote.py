"""The zygote: a process without threads that has loaded what slots need, and forks into each of them.

A forked slot shares the memory of what is loaded and is ready within milliseconds. The flows are loaded here
only if that is safe: a thread, a connection or a child process would not work in the copies. A zygote has no
loop and no connection to the broker. It watches its slots: it ends the process group of one that has ended,
and reports the exit code. If the zygote ends, its slots go on; the worker starts another zygote.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import NoReturn, TextIO

from pyoco_server.engine.tasks.failure import cut, try_call
from pyoco_server.flows import ResolverError
from pyoco_server.processes.lifeline import die_with_parent
from pyoco_server.processes.scheduling import use_normal_scheduling
from pyoco_server.worker.slots.child import LoadedFlows, load_flows, run_slot
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
    decode_to_zygote,
    encode,
)

ERROR_BYTES_MAX = PACKET_BYTES_MAX // 2
OUTPUTS = (1, 2)

# As they are now: libraries of flows may replace them (gevent does).
_fork, _poll = os.fork, select.poll


class Zygote:
    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._events = _poll()
        self._events.register(control, select.POLLIN)
        self._slots: dict[int, int] = {}  # the ids of its processes, by pidfd
        self.prepared = Prepare(spec="", parallelism=1, path="", loads_flows=False)
        self.loaded: LoadedFlows | None = None

    def serve(self) -> int:
        """Returns in forked processes only: the descriptor of the slot's link."""
        while True:
            for descriptor, _ in self._events.poll():
                if descriptor in self._slots:
                    self._report_end(descriptor)
                elif (link := self._receive()) is not None:
                    return link

    def _receive(self) -> int | None:
        data, descriptors, _, _ = socket.recv_fds(self._control, PACKET_BYTES_MAX, 3, socket.MSG_CMSG_CLOEXEC)
        if not data:
            self._end()
        message = decode_to_zygote(data)
        match message:
            case Prepare():
                self._prepare(message)
            case Release():
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(message.pid, 0)
            case Fork():
                return self._fork(message.number, descriptors)
        return None

    def _prepare(self, message: Prepare) -> None:
        known = _open_files()
        self.prepared = message
        if message.path:
            sys.path.insert(0, message.path)
        unsafe = None
        if message.loads_flows:
            try:
                self.loaded = load_flows(message.spec)
            except ResolverError as error:
                self._send(NotLoaded(error=cut(str(error), ERROR_BYTES_MAX)))
                return
            for stream in (sys.stdout, sys.stderr):
                try_call(_flush, stream, on_error=_ignore)  # otherwise every slot would print it too
            unsafe = why_unsafe(known)
        gc.freeze()  # the collector would write to the objects, and so copy the memory that is shared
        self._send(Prepared(unsafe=unsafe))

    def _fork(self, number: int, descriptors: list[int]) -> int | None:
        try:
            pid = _fork()
        except OSError as error:
            self._send(NotForked(number=number, errno=error.errno or 0, error=os.strerror(error.errno or 0)))
        else:
            if pid == 0:
                return self._become_slot(*descriptors)
            pidfd = os.pidfd_open(pid)
            self._slots[pidfd] = pid
            self._events.register(pidfd, select.POLLIN)
            self._send(Forked(number=number, pid=pid))
        for descriptor in descriptors:
            os.close(descriptor)
        return None

    def _become_slot(self, link: int, *outputs: int) -> int:
        os.setsid()
        self._control.close()
        for pidfd in self._slots:
            os.close(pidfd)
        for output, descriptor in zip(outputs, OUTPUTS, strict=True):
            os.dup2(output, descriptor)
            os.close(output)
        reseed()
        return link

    def _report_end(self, pidfd: int) -> None:
        pid = self._slots.pop(pidfd)
        self._events.unregister(pidfd)
        os.close(pidfd)
        _kill_group(pid)  # before it is reaped: until then its id is given to no other process
        self._send(Exited(pid=pid, code=_exit_code(pid)))

    def _send(self, message: FromZygote) -> None:
        try:
            self._control.sendall(encode(message))
        except ConnectionError:
            self._end()

    def _end(self) -> NoReturn:
        """The worker is gone."""
        for pid in self._slots.values():
            _kill_group(pid)
        os._exit(0)


def why_unsafe(known: dict[str, str]) -> str | None:
    """What loading the flows has left in this process that does not work in forked copies of it."""
    if os.fork is not _fork or getattr(select, "poll", None) is not _poll:
        return "os.fork or select.poll is replaced"
    if threading.active_count() > 1 or len(list(Path("/proc/self/task").iterdir())) > 1:
        return "a thread is running"
    if _has_children():
        return "a child process is running"
    if signal.getitimer(signal.ITIMER_REAL) != (0.0, 0.0):
        return "a timer is set"
    opened = sorted(place for number, place in _open_files().items() if known.get(number) != place)
    return f"a file or connection is open: {opened[0]}" if opened else None


def reseed() -> None:
    """`random` does it itself. Generators that belong to the flows are copies, as after any fork."""
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()


def _open_files() -> dict[str, str]:
    found = {}
    for entry in list(Path("/proc/self/fd").iterdir()):
        with contextlib.suppress(OSError):  # the listing's own descriptor
            found[entry.name] = str(entry.readlink())
    return found


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _exit_code(pid: int) -> int | None:
    try:
        ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    except ChildProcessError:
        return None
    assert ended is not None
    return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status


def _kill_group(group: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def _flush(stream: TextIO | None) -> None:
    if stream is not None:
        stream.flush()


def _ignore(_error: BaseException) -> None:
    return None


def main(handle: int, worker_pid: int) -> None:
    die_with_parent(parent=worker_pid)()
    use_normal_scheduling()  # slots inherit it
    control = socket.socket(fileno=handle)
    control.set_inheritable(False)  # processes that flows start must not keep it open
    zygote = Zygote(control)
    link = zygote.serve()
    run_slot(link, zygote.prepared.spec, zygote.prepared.parallelism, zygote.loaded)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
