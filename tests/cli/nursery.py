"""Console scripts that start at once: forked from a process that has imported them.

Most of what a command costs is the import of its modules, and the tests run hundreds of commands, gateways
and workers. Each is still a process with arguments, environment, folder and streams of its own, which ends
with its own exit code. What only a new interpreter can show (`--help` as installed, another locale) is not
started here.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import IO, NamedTuple, Protocol

SCRIPTS = ("pyoco-client", "pyoco-server-admin", "pyoco-server", "pyoco-worker", "uvicorn")
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
        stdout: IO[bytes],
        stderr: IO[bytes],
    ) -> Forked:
        told, tells = os.pipe()
        try:
            asked = json.dumps([list(command), str(folder), dict(environment)]).encode()
            socket.send_fds(self._link, [asked], [stdout.fileno(), stderr.fileno(), tells])
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
            command, folder, environment = json.loads(asked)
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
                _become(command, folder, environment)
                return str(Path(command[0]).name)
            os.write(tells, _NUMBER.pack(pid))
            under_way[os.pidfd_open(pid)] = _UnderWay(pid, tells)
            os.close(stdout)
            os.close(stderr)


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
        __import__(module)
    # What is there by now is never garbage. A process that looks for garbage in it, at the latest when it
    # ends, copies all of it: that took two thirds of the processor time of a short command.
    gc.collect()
    gc.freeze()
    script = _serve(socket.socket(fileno=int(sys.argv[1])))
    if script is not None:
        sys.exit(mains[script]())


if __name__ == "__main__":
    _main()
