"""What was printed is read by everybody in the same bytes, whoever is killed meanwhile."""

from __future__ import annotations

import asyncio
import json
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.store.store import Store
from tests.conftest import until
from tests.log_writing import Writer
from tests.promises.stack import Gateway, Processes, processes

LINES = {"Accept": "application/x-ndjson"}
KILLS = 2


@pytest.mark.slow
async def test_readers_survive_gateways_and_have_every_byte(
    config: NatsBackendConfig, tmp_path: Path
) -> None:
    chance = random.Random(11)
    with processes(config, tmp_path) as started:
        gateways = [started.gateway(), started.gateway()]
        for gateway in gateways:
            await gateway.ready()
        job = await _created(gateways[0])
        store = await Store.connect(config, name="test")
        writer = Writer(store, job)
        readers = [
            _Polls(gateways, job, chance),
            _Ranges(gateways, job, chance),
            _Streams(gateways, job, chance),
        ]
        reading = [asyncio.create_task(reader.read()) for reader in readers]
        for _ in range(KILLS):
            await _write(writer, chance, 30)
            victim = chance.choice(gateways)
            victim.kill()
            await _write(writer, chance, 30)
            victim.start()
            await victim.ready()
        await _write(writer, chance, 30)
        async with httpx.AsyncClient(base_url=gateways[0].url, timeout=30) as client:
            assert (await client.delete(f"/jobs/{job}")).status_code == 204
            whole = (await client.get(f"/jobs/{job}/logs", headers=LINES)).content
        assert whole.startswith(writer.written)
        async with asyncio.timeout(60):
            await asyncio.gather(*reading)
        await store.close()
    assert [b"".join(reader.got) == whole for reader in readers] == [True] * len(readers)


@pytest.mark.slow
async def test_a_killed_worker_is_followed_by_a_second_attempt_in_the_same_log(
    config: NatsBackendConfig, tmp_path: Path
) -> None:
    with processes(config, tmp_path) as started:
        gateway = started.gateway()
        await gateway.ready()
        async with httpx.AsyncClient(base_url=gateway.url, timeout=30) as client:
            answer = await client.post("/jobs", json={"parameters": {}, "flow": "five"})
            job = str(answer.json()["id"])
            looking = asyncio.create_task(_look_until_the_end(client, job))
            await _kill_in_the_middle(started, client, job)
            started.worker("second")
            seen = await asyncio.wait_for(looking, 60)
            page = (await client.get(f"/jobs/{job}/logs")).json()
            after_first = (await client.get(f"/jobs/{job}/logs?limit=1")).json()["nextToken"]
            rest = (await client.get(f"/jobs/{job}/logs", params={"sinceToken": after_first})).json()
    said = [entry["message"] for entry in page["entries"]]
    assert page["complete"]
    assert said.index("attempt 1 begins on worker first") < said.index("attempt 2 begins on worker second")
    assert (
        said.index("doing one") < said.index("attempt 2 begins on worker second") < said.index("doing five")
    )
    assert said[-1] == "run completed"
    assert [entry["seq"] for entry in page["entries"]] == list(range(1, len(said) + 1))
    assert rest["entries"] == page["entries"][1:]
    bodies = dict(seen)
    assert len(bodies) == len(set(seen)), "one tag stood for two contents"
    assert len(set(bodies.values())) == len(bodies), "one content had two tags"
    sizes = [body for _, body in seen]
    assert all(later.startswith(earlier) for earlier, later in pairwise(sizes))


async def _created(gateway: Gateway) -> str:
    async with httpx.AsyncClient(base_url=gateway.url, timeout=30) as client:
        return str((await client.post("/jobs", json={"parameters": {}})).json()["id"])


async def _write(writer: Writer, chance: random.Random, chunks: int) -> None:
    for _ in range(chunks):
        await writer.write(*(f"line {writer.end.lines} {n}" for n in range(chance.randint(1, 9))))
        await asyncio.sleep(0.005)


async def _kill_in_the_middle(started: Processes, client: httpx.AsyncClient, job: str) -> None:
    worker = started.worker("first")

    async def has_printed() -> bool:
        page = (await client.get(f"/jobs/{job}/logs", params={"q": "doing"})).json()
        return bool(page["entries"])

    await until(has_printed, within_sec=60)
    worker.kill()
    worker.wait()


async def _look_until_the_end(client: httpx.AsyncClient, job: str) -> list[tuple[str, bytes]]:
    """Tags and contents, as they follow each other."""
    seen: list[tuple[str, bytes]] = []
    while True:
        status = (await client.get(f"/jobs/{job}")).json()["status"]
        answer = await client.get(f"/jobs/{job}/logs", headers=LINES)
        seen.append((answer.headers["etag"], answer.content))
        if status == "completed":
            return seen
        await asyncio.sleep(0.02)


class _Reader:
    """Goes from gateway to gateway, by chance and whenever one is gone, until it was told the end."""

    def __init__(self, gateways: list[Gateway], job: str, chance: random.Random) -> None:
        self._gateways = gateways
        self._chance = chance
        self._path = f"/jobs/{job}/logs"
        self.got: list[bytes] = []

    async def read(self) -> None:
        while True:
            url = self._chance.choice(self._gateways).url
            try:
                async with httpx.AsyncClient(base_url=url, timeout=10) as client:
                    if await self._turn(client):
                        return
            except httpx.TransportError:
                await asyncio.sleep(0.05)

    async def _turn(self, client: httpx.AsyncClient) -> bool:
        raise NotImplementedError

    def _heard(self, entry: dict[str, Any]) -> None:
        self.got.append(json.dumps(entry, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")


class _Polls(_Reader):
    _token: str | None = None

    async def _turn(self, client: httpx.AsyncClient) -> bool:
        since = {"sinceToken": self._token} if self._token else {}
        await asyncio.sleep(0.05)
        limit = str(self._chance.randint(1, 40))
        answer = await client.get(self._path, params={"limit": limit} | since)
        if answer.status_code != 200:
            return False
        page = answer.json()
        for entry in page["entries"]:
            self._heard(entry)
        self._token = page["nextToken"]
        return bool(page["complete"])


class _Ranges(_Reader):
    async def _turn(self, client: httpx.AsyncClient) -> bool:
        await asyncio.sleep(0.05)
        job = await client.get(self._path.removesuffix("/logs"))
        have = sum(map(len, self.got))
        answer = await client.get(self._path, headers=LINES | {"Range": f"bytes={have}-"})
        if answer.status_code == 206:
            self.got.append(answer.content)
        return job.status_code == 200 and job.json()["completedAt"] is not None and answer.status_code == 416


class _Streams(_Reader):
    _token: str | None = None

    async def _turn(self, client: httpx.AsyncClient) -> bool:
        most = self._chance.randint(1, 200)
        headers = {"Last-Event-ID": self._token} if self._token else {}
        async with client.stream("GET", f"{self._path}/stream", headers=headers) as answer:
            if answer.status_code != 200:
                return answer.status_code == 204
            block: dict[str, str] = {}
            async for line in answer.aiter_lines():
                if line:
                    name, _, value = line.partition(": ")
                    block[name] = value
                    continue
                if block.get("event") == "end":
                    return True
                if block.get("event") == "logEntry":
                    self._heard(json.loads(block["data"]))
                    self._token = block["id"]
                    most -= 1
                block = {}
                if not most:
                    return False
        return False
