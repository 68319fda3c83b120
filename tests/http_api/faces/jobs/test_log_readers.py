"""However a log is read (pages, ranges, streams, sockets, here and there): exactly the same bytes."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from websockets.asyncio.client import connect

from pyoco_server.config import NatsBackendConfig
from pyoco_server.store.store import Store
from tests.http_api.faces.jobs.test_jobs import created
from tests.http_api.live import Live, events, live
from tests.log_writing import Writer

LINES = {"Accept": "application/x-ndjson"}

# So many lines at once, or a reader's turn: how, at which gateway, and how much of it.
step = st.one_of(
    st.tuples(st.just("write"), st.just(0), st.integers(1, 7)),
    st.tuples(st.sampled_from(["page", "range", "stream", "socket"]), st.integers(0, 1), st.integers(1, 9)),
)


@pytest.fixture
async def gateways(config: NatsBackendConfig) -> AsyncIterator[list[Live]]:
    async with live(config) as one, live(config) as other:
        yield [one, other]


class Readers:
    """One reader by tokens, who changes its way at every turn, and one by bytes; both at either gateway."""

    def __init__(self, gateways: list[Live], job: str) -> None:
        self._gateways = gateways
        self._path = f"/jobs/{job}/logs"
        self._socket = f"/jobs/{job}/ws"
        self._token: str | None = None
        self.by_token: list[bytes] = []
        self.by_range = b""

    async def turn(self, way: str, where: int, much: int) -> None:
        gateway = self._gateways[where]
        match way:
            case "page":
                await self.page(gateway, much)
            case "range":
                await self.range(gateway)
            case "stream":
                await self.stream(gateway, much)
            case "socket":
                await self.socket(gateway, much)

    async def page(self, gateway: Live, limit: int) -> bool:
        """Whether there was anything."""
        since = {"sinceToken": self._token} if self._token else {}
        page = (await gateway.client.get(self._path, params={"limit": str(limit)} | since)).json()
        for entry in page["entries"]:
            self._heard(page["nextToken"], entry)
        self._token = page["nextToken"]
        return bool(page["entries"])

    async def range(self, gateway: Live) -> None:
        answer = await gateway.client.get(
            self._path, headers=LINES | {"Range": f"bytes={len(self.by_range)}-"}
        )
        assert answer.status_code in (206, 416)
        if answer.status_code == 206:
            assert answer.content.endswith(b"\n")
            self.by_range += answer.content

    async def stream(self, gateway: Live, most: int) -> None:
        """Hang up after so many lines, or when nothing comes."""
        headers = {"Last-Event-ID": self._token} if self._token else {}
        async with gateway.client.stream("GET", f"{self._path}/stream", headers=headers) as answer:
            coming = events(answer)
            while most and (event := await _soon(anext(coming))) is not None:
                if event.name == "logEntry":
                    self._heard(event.id, event.data)
                    most -= 1

    async def socket(self, gateway: Live, most: int) -> None:
        async with connect(f"ws://127.0.0.1:{gateway.port}{self._socket}") as socket:
            await socket.send(json.dumps({"type": "subscribe", "sinceToken": self._token}))
            while most and (frame := await _soon(socket.recv())) is not None:
                said = json.loads(frame)
                if said["type"] == "log":
                    self._heard(said["token"], said["entry"])
                    most -= 1

    def _heard(self, token: str | None, entry: dict[str, Any]) -> None:
        self._token = token
        line = json.dumps(entry, ensure_ascii=False, separators=(",", ":")).encode()
        self.by_token.append(line + b"\n")


async def _soon(coming: Any) -> Any:
    """None when it does not come: there is nothing more for now."""
    try:
        async with asyncio.timeout(0.15):
            return await coming
    except TimeoutError:
        return None


@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)
@given(st.lists(step, min_size=3, max_size=14))
async def test_any_mix_of_readers_gets_exactly_the_same_bytes(
    gateways: list[Live], store: Store, steps: list[tuple[str, int, int]]
) -> None:
    job = str((await created(gateways[0].client))["id"])
    writer, readers = Writer(store, job), Readers(gateways, job)
    for way, where, much in steps:
        if way == "write":
            await writer.write(*(f"{writer.end.lines} ü {n}" for n in range(much)))
        else:
            await readers.turn(way, where, much)
    while await readers.page(gateways[1], 5):
        pass
    await readers.range(gateways[1])
    assert b"".join(readers.by_token) == writer.written
    assert readers.by_range == writer.written
    whole = [await gateway.client.get(f"/jobs/{job}/logs", headers=LINES) for gateway in gateways]
    assert {answer.content for answer in whole} == {writer.written}
    assert len({answer.headers["etag"] for answer in whole}) == 1


async def test_a_stream_goes_on_at_the_other_gateway(gateways: list[Live], store: Store) -> None:
    job = str((await created(gateways[0].client))["id"])
    writer, readers = Writer(store, job), Readers(gateways, job)
    for number in range(6):
        await writer.write(f"{number}.1", f"{number}.2", f"{number}.3")
        await readers.stream(gateways[number % 2], 2)
    await readers.stream(gateways[0], 100)
    assert b"".join(readers.by_token) == writer.written


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed: apt-get install curl")
async def test_curl_tails_a_log_by_resuming_a_download(
    gateways: list[Live], store: Store, tmp_path: Path
) -> None:
    job = str((await created(gateways[0].client))["id"])
    writer, kept = Writer(store, job), tmp_path / "log"
    for number in range(4):
        await writer.write(*(f"{number}.{n} é" for n in range(number + 1)))
        port = gateways[number % 2].port
        process = await asyncio.create_subprocess_exec(
            "curl", "-sS", "-f", "-C", "-", "-o", str(kept), "-H", "Accept: application/x-ndjson",
            f"http://127.0.0.1:{port}/jobs/{job}/logs",
        )  # fmt: skip
        assert await process.wait() == 0
        assert kept.read_bytes() == writer.written


async def test_a_reader_that_hangs_up_in_the_middle_leaves_nothing_behind(
    gateways: list[Live], store: Store
) -> None:
    job = str((await created(gateways[0].client))["id"])
    writer = Writer(store, job)
    for _ in range(30):
        await writer.write(*("x" * 5_000 for _ in range(20)))
    async with gateways[0].client.stream("GET", f"/jobs/{job}/logs", headers=LINES) as answer:
        got = await anext(answer.aiter_bytes())
    assert writer.written.startswith(got)
    assert (await gateways[0].client.get(f"/jobs/{job}/logs", headers=LINES)).content == writer.written
