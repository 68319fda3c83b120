"""Three nats-servers on loopback that form a cluster, each of which can be killed and started again."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nats

from pyoco_server.broker import find_nats_server
from tests.conftest import free_port, until

SIZE = 3


class Member:
    def __init__(self, name: str, folder: Path, port: int) -> None:
        self.name = name
        self.url = f"nats://127.0.0.1:{port}"
        self._conf = folder / f"{name}.conf"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen([str(find_nats_server()), "-c", str(self._conf)])

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def _end(self, sig: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(sig)
            self._process.wait(15)
            self._process = None


class Cluster:
    def __init__(self, folder: Path) -> None:
        ports = [free_port() for _ in range(2 * SIZE)]
        routes = ", ".join(f"nats://127.0.0.1:{port}" for port in ports[SIZE:])
        self.members = []
        for number in range(SIZE):
            name = f"n{number + 1}"
            member = Member(name, folder, ports[number])
            (folder / f"{name}.conf").write_text(
                f"""
                server_name: {name}
                listen: 127.0.0.1:{ports[number]}
                log_file: "{folder / name}.log"
                jetstream {{ store_dir: "{folder / name}" }}
                cluster {{ name: test, listen: 127.0.0.1:{ports[SIZE + number]}, routes: [{routes}] }}
                """
            )
            self.members.append(member)

    @property
    def url(self) -> str:
        return ",".join(member.url for member in self.members)

    async def ready(self) -> None:
        """A leader was chosen and sees all members."""
        await until(self._has_all_members, within_sec=60, every_sec=0.2)

    async def leader_of(self, stream: str) -> Member:
        info = await self._asked(f"STREAM.INFO.{stream}")
        return next(member for member in self.members if member.name == info["cluster"]["leader"])

    async def _has_all_members(self) -> bool:
        try:
            # Only a server with a meta leader accepts a stream of three copies.
            await self._asked(
                "STREAM.CREATE.probe", {"name": "probe", "subjects": ["p"], "num_replicas": SIZE}
            )
            await self._asked("STREAM.DELETE.probe")
        except Exception:  # not yet: whatever it is, it is asked again
            return False
        return True

    async def _asked(self, subject: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        import msgspec

        client = await nats.connect(
            [m.url for m in self.members], connect_timeout=1, max_reconnect_attempts=1
        )
        try:
            payload = msgspec.json.encode(body) if body else b""
            answer: dict[str, Any] = msgspec.json.decode(
                (await client.request(f"$JS.API.{subject}", payload, timeout=2)).data
            )
        finally:
            await client.close()
        if "error" in answer:
            raise RuntimeError(str(answer["error"]))
        return answer


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    folder.mkdir()
    started = Cluster(folder)
    for member in started.members:
        member.start()
    try:
        yield started
    finally:
        for member in started.members:
            member.stop()
