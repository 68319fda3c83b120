"""Console scripts that start at once: forked from a process that has imported them.

Most of what a command costs is the import of its modules, and the tests run hundreds of commands, gateways
and workers. Each is still a process with arguments, environment, folder and streams of its own, which ends
with its own exit code. What only a new interpreter can show (`--help` as installed, another locale) is not
started here.

It ends as a process of `multiprocessing` does: after its threads and `atexit`, and without taking apart every
module, which would copy all the memory that it shares with the process it was forked from.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import gc
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import NamedTuple, NoReturn, Protocol

from pyoco_server.cli.entry import build

SCRIPTS = ("pyoco-client", "pyoco-server-admin", "pyoco-server", "pyoco-worker", "uvicorn")
# Each has an `app` of many commands, which takes longer to build than most of the commands run.
PROGRAMS = tuple(f"pyoco_server.cli.{name}.main" for name in ("admin", "client", "server", "worker"))
# Imported by commands when they need them.
LOADED_LATE = (
    "asyncio",
    "certifi",
    "encodings.idna",
    "httpcore",
    "httpx",
    "nats",
    "pyoco_server.cli.client.gateway",
    "pyoco_server.cli.server.gateway",
    "pyoco_server.cli.server.up",
    "pyoco_server.cli.worker.process",
    "pyoco_server.http_api",
    "pyoco_server.http_api.server.protocol",
    "rich.console",
    "rich.live",
    "rich.table",
    "uvicorn.protocols.websockets.auto",
    "uvloop",
)
REQUEST_BYTES_MAX = 1024 * 1024
_NUMBER = struct.Struct("i")


class Process(Protocol):
    """What the tests do with a program: a `subprocess.Popen`, or one from here."""

    @property
    def pid(self) -> int: ...
    @property
    def returncode(self) -> int | None: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, sig: int) -> None: ...
    def kill(self) -> None: ...


class Forked:
    """The nursery is its parent: it tells the process id first, and how it ended when it has."""

    def __init__(self, told: int) -> None:
        self._told = told
        self.pid: int = self._next()
        self.returncode: int | None = None

    def poll(self) -> int | None:
        return self._ended(0.0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
        return code

    def send_signal(self, sig: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, sig)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _ended(self, within_sec: float | None) -> int | None:
        if self.returncode is None and select.select([self._told], [], [], within_sec)[0]:
            self.returncode = self._next()
            os.close(self._told)
        return self.returncode

    def _next(self) -> int:
        (number,) = _NUMBER.unpack(os.read(self._told, _NUMBER.size))
        return int(number)


class _UnderWay(NamedTuple):
    """In the nursery. `tells`: the pipe that gets the exit code."""

    pid: int
    tells: int


class Nursery:
    def __init__(self, environment: Mapping[str, str]) -> None:
        self._link, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [sys.executable, "-m", "tests.cli.nursery", str(theirs.fileno())]
            # It ends when this end of the link is closed, at the latest with this process.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                env=dict(environment),
                cwd=Path(__file__).parents[2],
                pass_fds=[theirs.fileno()],
            )

    def start(
        self,
        command: Sequence[str],
        *,
        folder: Path,
        environment: Mapping[str, str],
        stdout: int,
        stderr: int,
        is_terminal: bool = False,
    ) -> Forked:
        """`is_terminal`: the process reads from `stdout`, too, and it is its controlling terminal."""
        told, tells = os.pipe()
        try:
            asked = json.dumps([list(command), str(folder), dict(environment), is_terminal]).encode()
            socket.send_fds(self._link, [asked], [stdout, stderr, tells])
        finally:
            os.close(tells)
        return Forked(told)


def can_start(name: str, arguments: Sequence[str], settings: Mapping[str, str]) -> bool:
    """Not what shows how a script is installed, nor what an interpreter reads when it starts."""
    if name not in SCRIPTS or "--help" in arguments:
        return False
    # Only the worker that `pyoco-server` starts, in an interpreter of its own, needs this one.
    harmless = {"PYTHONPATH"} if name == "pyoco-server" else set()
    return all(setting.startswith("PYOCO_") for setting in settings.keys() - harmless)


@cache
def the_nursery() -> Nursery:
    """One for all tests of this process. Its locale is theirs."""
    from tests.cli.programs import clean_environment

    return Nursery(clean_environment())


def _serve(link: socket.socket) -> str | None:
    """In the nursery: forks until the tests have gone. In what it has forked: which script that is to be."""
    # By a file descriptor of the process, which can be read when the process has ended.
    under_way: dict[int, _UnderWay] = {}
    while True:
        readable = set(select.select([link.fileno(), *under_way], [], [])[0])
        for ended in readable & set(under_way):
            _tell_end(ended, under_way.pop(ended))
        if link.fileno() in readable:
            asked, handles, _, _ = socket.recv_fds(link, REQUEST_BYTES_MAX, 3)
            if not asked:
                return None
            command, folder, environment, is_terminal = json.loads(asked)
            stdout, stderr, tells = handles
            pid = os.fork()
            if pid == 0:
                os.dup2(stdout, 1)
                os.dup2(stderr, 2)
                for other, process in under_way.items():
                    os.close(other)
                    os.close(process.tells)
                for handle in (*handles, link.detach()):
                    os.close(handle)
                if is_terminal:
                    take_terminal()
                _become(command, folder, environment)
                return str(Path(command[0]).name)
            os.write(tells, _NUMBER.pack(pid))
            under_way[os.pidfd_open(pid)] = _UnderWay(pid, tells)
            os.close(stdout)
            os.close(stderr)


def take_terminal() -> None:
    """In a new process. Shells need their terminal as the controlling one."""
    os.setsid()
    os.dup2(1, 0)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _become(command: list[str], folder: str, environment: dict[str, str]) -> None:
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = command
    # As an installed script has it: neither this module's folder nor the repository.
    sys.path[0] = str(Path(command[0]).parent)


def _tell_end(descriptor: int, process: _UnderWay) -> None:
    _, status = os.waitpid(process.pid, 0)
    with contextlib.suppress(BrokenPipeError):  # nobody asks any more
        os.write(process.tells, _NUMBER.pack(os.waitstatus_to_exitcode(status)))
    os.close(process.tells)
    os.close(descriptor)


def _main() -> None:
    mains = {name: entry_points(group="console_scripts", name=name)[name].load() for name in SCRIPTS}
    for module in LOADED_LATE:
        import_module(module)
    for program in PROGRAMS:
        build(import_module(program).app)
    # What is there by now is never garbage. A process that looks for garbage in it, at the latest when it
    # ends, copies all of it: that took two thirds of the processor time of a short command.
    gc.collect()
    gc.freeze()
    script = _serve(socket.socket(fileno=int(sys.argv[1])))
    if script is not None:
        _end(_exit_code(mains[script]))


def _exit_code(main: Callable[[], object]) -> int:
    """An exception other than this one is the interpreter's to print."""
    try:
        main()
        return 0
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        sys.stderr.write(f"{end.code}\n")
        return 1


def _end(code: int) -> NoReturn:
    vars(threading)["_shutdown"]()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code & 0xFF)


if __name__ == "__main__":
    _main()
