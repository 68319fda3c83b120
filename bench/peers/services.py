"""Processes of a system under measurement: start, stop, kill -9; and the brokers and databases it needs.

Everything listens on loopback at a free port and stores its data in a folder that is removed.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bench.processes import tree

STOP_SEC = 8.0
START_SEC = 60.0
POLL_SEC = 0.005


class Service:
    """A process and everything below it."""

    def __init__(
        self,
        name: str,
        command: Sequence[object],
        env: Mapping[str, str],
        folder: Path,
        user: str | None = None,
    ) -> None:
        self.name = name
        with (folder / f"{name}.log").open("ab") as log:
            self.process = subprocess.Popen(
                [str(part) for part in command],
                env=dict(env),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                user=user,
                group=pwd.getpwnam(user).pw_gid if user else None,
                extra_groups=[] if user else None,
                start_new_session=True,
            )

    def pids(self) -> list[int]:
        return tree(self.process.pid) if self.process.poll() is None else []

    def kill(self) -> None:
        """kill -9 of the whole tree. The parent is first, so that it starts nothing again."""
        _signal(self.pids(), signal.SIGKILL)
        self.process.wait(STOP_SEC)

    def stop(self) -> None:
        pids = self.pids()
        _signal(pids[:1], signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(STOP_SEC)
        _signal(pids, signal.SIGKILL)
        self.process.wait(STOP_SEC)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(condition: Callable[[], bool], seconds: float, poll_sec: float = POLL_SEC) -> bool:
    """Whether the condition became true in this time."""
    until = time.monotonic() + seconds
    while not (is_true := condition()) and time.monotonic() < until:
        time.sleep(poll_sec)
    return is_true


def wait_for_port(port: int) -> None:
    if not wait_until(lambda: _answers(port), START_SEC):
        raise TimeoutError(f"nothing listens on port {port} after {START_SEC:.0f} s")


def redis_command(folder: Path, port: int) -> list[object]:
    """Redis with its log on disk, flushed every second: the durability that is comparable with ours."""
    command = [shutil.which("redis-server") or "redis-server", "--port", port, "--bind", "127.0.0.1"]
    return [*command, "--dir", folder, "--appendonly", "yes", "--appendfsync", "everysec", "--save", ""]


def postgres_programs() -> Path | None:
    """Debian keeps them outside of PATH, in a folder for each version."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    on_path = shutil.which("postgres")
    return found[-1].parent if found else Path(on_path).parent if on_path else None


def postgres_user() -> str | None:
    """Postgres refuses to run as root."""
    return "postgres" if os.geteuid() == 0 else None


def create_postgres(programs: Path, data: Path) -> None:
    """Its defaults, which include fsync."""
    data.mkdir()
    user = postgres_user()
    if user:
        shutil.chown(data, user, user)
    options = ["-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-instructions"]
    command = [str(programs / "initdb"), "-D", str(data), *options]
    groups: list[str] | None = [] if user else None
    subprocess.run(
        command, check=True, stdout=subprocess.DEVNULL, cwd=data, user=user, group=user, extra_groups=groups
    )


def postgres_command(programs: Path, data: Path, port: int) -> list[object]:
    return [programs / "postgres", "-D", data, "-p", port, "-k", data, "-h", "127.0.0.1"]


def create_database(programs: Path, port: int) -> None:
    server = ["-h", "127.0.0.1", "-p", str(port)]
    if not wait_until(lambda: _succeeds([programs / "pg_isready", "-q", *server]), START_SEC):
        raise TimeoutError("Postgres is not ready")
    subprocess.run([programs / "createdb", *server, "-U", "postgres", "bench"], check=True)


def _succeeds(command: Sequence[object]) -> bool:
    return subprocess.run([str(part) for part in command], check=False).returncode == 0


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 0.5).close()
    except OSError:
        return False
    return True


def _signal(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
