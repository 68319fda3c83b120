"""Start the process of a zygote. Imports little: it is done while the rest of a worker is being imported."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from pyoco_server.config import NatsBackendConfig, environment_for_children
from pyoco_server.processes.lifeline import HAS_PDEATHSIG

MODULE = "pyoco_server.worker.slots.zygote"
# A setting of pyoco: it searches for plug-ins in the modules that the variable names.
FOR_PLUGINS = ("PYOCO_DISCOVERY_MODULES",)


def forks_slots(config: NatsBackendConfig) -> bool:
    """On Linux only: system libraries of macOS do not work in a forked process."""
    return config.slot_start != "fresh" and HAS_PDEATHSIG and _has_pidfd() and Path("/proc/self/fd").is_dir()


def _has_pidfd() -> bool:
    """Old kernels have none, and a container may forbid it."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError):
        return False
    return True


@dataclass(frozen=True, slots=True)
class SpawnedZygote:
    """`stdout` and `stderr`: the reading ends of its pipes."""

    process: subprocess.Popen[bytes]
    control: socket.socket
    stdout: int
    stderr: int

    def kill(self) -> None:
        """With all that loading the flows has started. Callable twice."""
        if self.process.returncode is None:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                self.process.kill()


def spawn_zygote() -> SpawnedZygote:
    """It waits for its first message. Call it in the thread of the event loop, with which the zygote ends."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    out, err = os.pipe(), os.pipe()
    try:
        with theirs:
            process = subprocess.Popen(
                [*(sys.executable, "-P", "-m", MODULE), str(theirs.fileno()), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=out[1],
                stderr=err[1],
                pass_fds=[theirs.fileno()],
                # /proc/self/environ of every slot shows it, so secrets must not be in it.
                env=environment_for_children(also=FOR_PLUGINS),
                start_new_session=True,
            )
    except OSError:
        ours.close()
        for reader in (out[0], err[0]):
            os.close(reader)
        raise
    finally:
        for writer in (out[1], err[1]):
            os.close(writer)
    ours.setblocking(False)
    return SpawnedZygote(process, ours, out[0], err[0])
