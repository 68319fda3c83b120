"""Three nats-servers on loopback that form a cluster, each of which can be killed and started again."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator
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
        self.port = port
        self.url = f"nats://127.0.0.1:{port}"
        self._folder = folder
        self._conf = folder / f"{name}.conf"
        self._process: subprocess.Popen[bytes] | None = None

    def configure(self, routes: str) -> None:
        self._conf.write_text(
            f"""
            server_name: {self.name}
            listen: 127.0.0.1:{self.port}
            log_file: "{self._folder / self.name}.log"
            jetstream {{ store_dir: "{self._folder / self.name}" }}
            cluster {{ name: test, no_advertise: true, {routes} }}
            """
        )

    def start(self) -> None:
        self._process = subprocess.Popen([str(find_nats_server()), "-c", str(self._conf)])

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def pause(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)

    def _end(self, sig: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)  # one that is paused would never hear of its end
            self._process.send_signal(sig)
            self._process.wait(15)
            self._process = None


class Cluster:
    """`no_advertise`: clients know the members that they were told of, and no others."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        ports = [free_port() for _ in range(2 * SIZE)]
        self.members = [Member(f"n{number + 1}", folder, ports[number]) for number in range(SIZE)]
        self.route_ports = dict(zip(self.members, ports[SIZE:], strict=True))

    def configure(self, reached_at: Callable[[Member, Member], int] | None = None) -> None:
        """`reached_at`: the port at which the first of two members reaches the routes of the second."""
        for member in self.members:
            others = [other for other in self.members if other is not member]
            ports = [reached_at(member, one) if reached_at else self.route_ports[one] for one in others]
            routes = ", ".join(f"nats://127.0.0.1:{port}" for port in ports)
            # Members tell each other where they are: with proxies in between, that must lead nowhere.
            nowhere = f', advertise: "127.0.0.1:{free_port()}"' if reached_at else ""
            member.configure(f"listen: 127.0.0.1:{self.route_ports[member]}, routes: [{routes}]{nowhere}")

    @property
    def url(self) -> str:
        return ",".join(member.url for member in self.members)

    @contextmanager
    def running(self) -> Iterator[None]:
        for member in self.members:
            member.start()
        try:
            yield
        finally:
            for member in self.members:
                member.stop()

    async def ready(self) -> None:
        """A leader was chosen and sees all members."""
        await until(self._has_all_members, within_sec=60, every_sec=0.2)

    async def leader_of(self, stream: str) -> Member:
        info = await self._asked(f"STREAM.INFO.{stream}")
        return next(member for member in self.members if member.name == info["cluster"]["leader"])

    async def lead(self, stream: str, member: Member) -> None:
        """This member becomes the leader of the stream."""

        async def leads() -> bool:
            if await self.leader_of(stream) is member:
                return True
            preferred = {"placement": {"preferred": member.name}}
            await self._asked(f"STREAM.LEADER.STEPDOWN.{stream}", preferred)
            return False

        await until(leads, within_sec=30, every_sec=0.5)

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
            [m.url for m in self.members],
            connect_timeout=1,
            max_reconnect_attempts=1,
            error_cb=_unheard,
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


async def _unheard(error: Exception) -> None:
    """One member may be away; nats-py would write a traceback for it."""


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    folder.mkdir()
    started = Cluster(folder)
    started.configure()
    with started.running():
        yield started
