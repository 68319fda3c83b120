"""WS /jobs/{id}/ws: both ways, and never silent about what is wrong."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import threading
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api.middleware import refusal_log
from pyoco_server.http_api.streaming import sse
from pyoco_server.store.store import Store
from tests.conftest import NatsServer, until
from tests.http_api.faces.jobs.test_jobs import INSTANT, created
from tests.http_api.live import Live, live
from tests.keyring import new_key
from tests.log_writing import Writer
from tests.worker.stage import Flows, config_on, one_task, waiting, working


@pytest.fixture
async def gateway(config: NatsBackendConfig) -> AsyncIterator[Live]:
    async with live(config) as started:
        yield started


@pytest.fixture
async def job(gateway: Live) -> str:
    return str((await created(gateway.client))["id"])


@asynccontextmanager
async def talking(gateway: Live, job: str, **options: Any) -> AsyncIterator[ClientConnection]:
    url = f"ws://127.0.0.1:{gateway.port}/jobs/{job}/ws"
    async with connect(url, **options) as socket:
        yield socket


async def said(socket: ClientConnection) -> dict[str, Any]:
    async with asyncio.timeout(20):
        frame: dict[str, Any] = json.loads(await socket.recv())
    return frame


async def say(socket: ClientConnection, **frame: Any) -> None:
    await socket.send(json.dumps(frame))


async def everything(socket: ClientConnection) -> list[dict[str, Any]]:
    """Until it is closed, by the other side and well."""
    frames = []
    with contextlib.suppress(ConnectionClosed):
        while True:
            frames.append(await said(socket))
    assert socket.close_code == 1000
    return frames


async def closed_with(socket: ClientConnection) -> int:
    async with asyncio.timeout(20):
        await socket.wait_closed()
    assert socket.close_code is not None
    return socket.close_code


async def test_a_job_is_followed_from_its_beginning_to_its_end(
    gateway: Live, config: NatsBackendConfig
) -> None:
    begun, go_on = threading.Event(), threading.Event()
    async with working(config, Flows(main=one_task(waiting(begun, go_on)))) as worker:
        job = (await created(gateway.client))["id"]
        async with talking(gateway, job) as socket:
            first = await said(socket)
            assert (first["type"], first["job"]["id"], first["job"]["status"]) == ("status", job, "pending")
            await say(socket, type="subscribe")
            # Answered after it: else the job may be over before it is subscribed to.
            await say(socket, type="ping")
            assert (await said(socket))["type"] == "heartbeat"
            performing = asyncio.create_task(worker.run_once(timeout=20.0))
            await until(begun.is_set)
            go_on.set()
            await performing
            frames = await everything(socket)
    logs = [frame for frame in frames if frame["type"] == "log"]
    page = (await gateway.client.get(f"/jobs/{job}/logs")).json()
    assert [frame["entry"] for frame in logs] == page["entries"]
    assert list(logs[-1]) == ["type", "token", "entry"]
    assert logs[-1]["token"] == page["nextToken"]
    # The status "running" may come before or after the lines; the last one comes after all of them.
    assert [frame["type"] for frame in frames[-2:]] == ["status", "end"]
    assert frames[-1]["job"] == frames[-2]["job"] == (await gateway.client.get(f"/jobs/{job}")).json()


async def test_nothing_but_the_status_is_told_before_it_is_asked_for(
    gateway: Live, job: str, store: Store
) -> None:
    await Writer(store, job).write("one")
    async with talking(gateway, job) as socket:
        assert (await said(socket))["type"] == "status"
        await gateway.client.delete(f"/jobs/{job}")
        assert (await said(socket))["job"]["status"] == "canceled"
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await socket.recv()
        await say(socket, type="subscribe", logs=False)
        assert [frame["type"] for frame in await everything(socket)] == ["end"]


async def test_a_token_resumes_wherever_it_is_from(gateway: Live, job: str, store: Store) -> None:
    await Writer(store, job).write("one", "two", "three")
    page = (await gateway.client.get(f"/jobs/{job}/logs?limit=1")).json()
    async with talking(gateway, job) as socket:
        await said(socket)
        await say(socket, type="subscribe", sinceToken=page["nextToken"])
        two = await said(socket)
        assert two["entry"]["message"] == "two"
    async with talking(gateway, job) as socket:
        await said(socket)
        await say(socket, type="subscribe", sinceToken=two["token"])
        assert (await said(socket))["entry"]["message"] == "three"
        # Asked again it begins again, on the same socket.
        await say(socket, type="subscribe")
        assert (await said(socket))["entry"]["message"] == "one"


async def test_a_cancel_is_heard(gateway: Live, job: str) -> None:
    async with talking(gateway, job) as socket:
        await said(socket)
        await say(socket, type="subscribe")
        await say(socket, type="cancel")
        frames = await everything(socket)
    assert (frames[-1]["type"], frames[-1]["job"]["status"]) == ("end", "canceled")
    assert (await gateway.client.get(f"/jobs/{job}")).json()["status"] == "canceled"


async def test_a_ping_is_answered_at_any_time(gateway: Live, job: str) -> None:
    async with talking(gateway, job) as socket:
        await said(socket)
        await say(socket, type="ping")
        beat = await said(socket)
    assert list(beat) == ["type", "ts"]
    assert beat["type"] == "heartbeat"
    assert INSTANT.fullmatch(beat["ts"])


async def test_silence_is_filled_with_heartbeats(
    gateway: Live, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "KEEP_ALIVE_SEC", 0.1)
    async with talking(gateway, job) as socket:
        await said(socket)
        await say(socket, type="subscribe")
        assert [(await said(socket))["type"] for _ in range(2)] == ["heartbeat"] * 2


@pytest.mark.parametrize(
    "frame",
    [
        {"type": "dance"},
        {},
        [],
        7,
        {"type": "subscribe", "sinceToken": 7},
        {"type": "subscribe", "logs": "all"},
    ],
)
async def test_what_is_not_understood_is_said_and_nothing_ends(gateway: Live, job: str, frame: Any) -> None:
    async with talking(gateway, job) as socket:
        await said(socket)
        await socket.send(json.dumps(frame))
        refused = await said(socket)
        assert list(refused) == ["type", "error"]
        assert refused["error"]["code"] == "INVALID_REQUEST"
        await say(socket, type="ping")
        assert (await said(socket))["type"] == "heartbeat"


async def test_a_member_that_occurs_twice_is_refused(gateway: Live, job: str) -> None:
    async with talking(gateway, job) as socket:
        await said(socket)
        await socket.send('{"type":"ping","type":"cancel"}')
        refused = await said(socket)
        assert refused["error"]["code"] == "INVALID_REQUEST"
        assert "occurs twice" in refused["error"]["message"]
    assert (await gateway.client.get(f"/jobs/{job}")).json()["status"] == "pending"


async def test_a_bad_token_is_said_and_nothing_ends(gateway: Live, job: str) -> None:
    async with talking(gateway, job) as socket:
        await said(socket)
        await say(socket, type="subscribe", sinceToken="x")
        assert (await said(socket))["error"]["code"] == "INVALID_TOKEN"
        await say(socket, type="ping")
        assert (await said(socket))["type"] == "heartbeat"


@pytest.mark.parametrize("frame", ["{", "", "NaN", b'{"type":"ping"}'])
async def test_what_is_not_json_ends_the_talk(gateway: Live, job: str, frame: str | bytes) -> None:
    async with talking(gateway, job) as socket:
        await said(socket)
        await socket.send(frame)
        assert await closed_with(socket) == 1003


async def test_what_is_too_big_ends_the_talk(gateway: Live, job: str) -> None:
    async with talking(gateway, job) as socket:
        await said(socket)
        await socket.send(json.dumps({"type": "ping", "x": "y" * 65_536}))
        assert await closed_with(socket) == 1009


async def test_an_unknown_job_is_refused_in_the_handshake(gateway: Live) -> None:
    for job in (str(uuid.uuid4()), "no.body"):
        with pytest.raises(InvalidStatus) as refused:
            async with talking(gateway, job):
                pass
        answer = refused.value.response
        assert answer.status_code == 404
        assert answer.body is not None
        assert json.loads(answer.body)["error"]["code"] == "JOB_NOT_FOUND"
        assert answer.headers["x-request-id"]


async def test_an_address_without_a_socket_is_answered_and_logged_like_any_other(
    gateway: Live, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    for path in ("/runs", "/nothing/here"):
        with pytest.raises(InvalidStatus) as refused:
            await connect(f"ws://127.0.0.1:{gateway.port}{path}")
        answer = refused.value.response
        assert answer.status_code == 404
        assert answer.body is not None
        assert "nothing at this address" in json.loads(answer.body)["detail"]
        lines = [vars(one) for one in caplog.records if one.name == refusal_log.__name__]
        assert lines[-1]["x_request_id"] == answer.headers["x-request-id"]
        assert (lines[-1]["method"], lines[-1]["path"]) == ("WEBSOCKET", path)


async def test_pages_of_other_sites_are_refused(gateway: Live, job: str) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with talking(gateway, job, origin="http://evil.example"):
            pass
    assert refused.value.response.status_code == 403
    async with talking(gateway, job, origin=f"http://127.0.0.1:{gateway.port}") as socket:
        assert (await said(socket))["type"] == "status"


async def test_a_socket_ends_with_its_gateway(config: NatsBackendConfig) -> None:
    async with live(config) as gateway:
        job = (await created(gateway.client))["id"]
        socket = await connect(f"ws://127.0.0.1:{gateway.port}/jobs/{job}/ws")
        await said(socket)
    assert await closed_with(socket) in (1001, 1012)
    assert len(gateway.gateway.log_views) == 0


async def test_a_socket_needs_a_key_where_everything_does_and_more_to_cancel(nats_server: NatsServer) -> None:
    config = config_on(nats_server, http_auth_mode="api_key")
    async with live(config) as gateway:
        store = await Store.connect(config, name="test")
        key = await new_key(store, "one")
        reader = await new_key(store, "one", scopes=("runs:read",))
        other = await new_key(store, "two")
        await until(
            lambda: (gateway.gateway.keys and gateway.gateway.keys.table.find(other.split(".")[0])) or True
        )
        headers = {"X-API-Key": key}

        async def made() -> str | None:
            answer = await gateway.client.post("/jobs", json={"parameters": {}}, headers=headers)
            return str(answer.json()["id"]) if answer.status_code == 201 else None

        job = str(await until(made))
        for given, status in (({}, 401), ({"X-API-Key": "nonsense"}, 403), ({"X-API-Key": other}, 404)):

            async def is_refused(given: dict[str, str] = given, status: int = status) -> bool:
                try:
                    async with talking(gateway, job, additional_headers=given):
                        return False
                except InvalidStatus as refused:
                    return refused.response.status_code == status

            await until(is_refused)
        async with talking(gateway, job, additional_headers={"X-API-Key": reader}) as socket:
            await said(socket)
            await say(socket, type="cancel")
            assert (await said(socket))["error"]["code"] == "FORBIDDEN"
        await store.close()
