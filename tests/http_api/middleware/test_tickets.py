"""POST /tickets: one connection to one address within a minute, at any gateway, for those without headers."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from typing import NamedTuple

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from pyoco_server.http_api.middleware.access_log import redact_server_logs
from pyoco_server.operations.identity import tickets
from pyoco_server.operations.identity.api_keys import revoke_key
from pyoco_server.operations.identity.callers import Caller
from pyoco_server.store.store import Store
from tests.conftest import NatsServer, until
from tests.http_api.faces.jobs.test_jobs import refused
from tests.http_api.live import Live, live
from tests.keyring import id_of, new_key
from tests.worker.stage import config_on


class Two(NamedTuple):
    """Two gateways of one environment, a key, and a job of its tenant that is over."""

    one: Live
    other: Live
    store: Store
    key: str
    job: str

    @property
    def stream(self) -> str:
        return f"/jobs/{self.job}/logs/stream"

    async def ticket(self, path: str) -> str:
        answer = await self.one.client.post("/tickets", json={"path": path}, headers={"X-API-Key": self.key})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["ticket"])


@pytest.fixture
async def two(nats_server: NatsServer) -> AsyncIterator[Two]:
    config = config_on(nats_server, http_auth_mode="api_key")
    async with live(config) as one, live(config) as other:
        store = await Store.connect(config, name="test")
        key = await new_key(store)
        headers = {"X-API-Key": key}

        async def made(client: httpx.AsyncClient) -> str | None:
            answer = await client.post("/jobs", json={"parameters": {}}, headers=headers)
            return str(answer.json()["id"]) if answer.status_code == 201 else None

        await until(lambda: made(other.client))
        job = str(await until(lambda: made(one.client)))
        await one.client.delete(f"/jobs/{job}", headers=headers)
        yield Two(one, other, store, key, job)
        await store.close()


async def test_a_ticket_opens_one_stream_at_whatever_gateway(two: Two) -> None:
    ticket = await two.ticket(two.stream)
    first = await two.other.client.get(two.stream, params={"ticket": ticket})
    assert first.status_code == 200
    assert first.text.count("event: end") == 1
    for gateway in (two.one, two.other):
        refused(await gateway.client.get(two.stream, params={"ticket": ticket}), 403, "FORBIDDEN")


async def test_of_many_who_come_at_once_one_gets_in(two: Two) -> None:
    ticket = await two.ticket(two.stream)
    answers = await asyncio.gather(
        *(gateway.client.get(two.stream, params={"ticket": ticket}) for gateway in (two.one, two.other) * 5)
    )
    assert sorted(answer.status_code for answer in answers) == [200, *[403] * 9]


async def test_a_ticket_opens_a_socket(two: Two) -> None:
    path = f"/jobs/{two.job}/ws"
    url = f"ws://127.0.0.1:{two.other.port}{path}?ticket={await two.ticket(path)}"
    async with connect(url) as socket:
        assert json.loads(await socket.recv())["type"] == "status"
    with pytest.raises(InvalidStatus) as again:
        async with connect(url):
            pass
    assert again.value.response.status_code == 403


async def test_a_ticket_is_for_its_own_address_and_for_looking_only(two: Two) -> None:
    ticket = await two.ticket(f"/jobs/{two.job}/logs")
    query = {"ticket": ticket}
    refused(await two.one.client.get(two.stream, params=query), 403, "FORBIDDEN")
    refused(await two.one.client.delete(f"/jobs/{two.job}/logs", params=query), 401, "UNAUTHENTICATED")
    assert (await two.one.client.get(f"/jobs/{two.job}/logs", params=query)).status_code == 200
    for nonsense in ("", "x", "\u00e9"):
        answer = await two.one.client.get(two.stream, params={"ticket": nonsense})
        assert answer.status_code == (403 if nonsense else 401)


async def test_a_ticket_is_good_for_a_minute(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tickets, "GOOD_FOR_SEC", -1.0)
    ticket = await two.ticket(two.stream)
    refused(await two.one.client.get(two.stream, params={"ticket": ticket}), 403, "FORBIDDEN")


async def test_a_ticket_ends_with_the_key_it_was_given_for(two: Two) -> None:
    ticket = await two.ticket(two.stream)
    await revoke_key(two.store, id_of(two.key))
    headers = {"X-API-Key": two.key}

    async def is_revoked() -> bool:
        return (await two.one.client.get("/jobs", headers=headers)).status_code == 403

    await until(is_revoked)
    refused(await two.one.client.get(two.stream, params={"ticket": ticket}), 403, "FORBIDDEN")


async def test_a_socket_ends_with_the_key_it_was_opened_with(two: Two) -> None:
    job = (await two.one.client.post("/jobs", json={"parameters": {}}, headers={"X-API-Key": two.key})).json()
    url = f"ws://127.0.0.1:{two.one.port}/jobs/{job['id']}/ws"
    async with connect(url, additional_headers={"X-API-Key": two.key}) as socket:
        assert json.loads(await socket.recv())["type"] == "status"
        await revoke_key(two.store, id_of(two.key))
        keys = two.one.gateway.keys
        assert keys is not None
        await until(lambda: not keys.still_good(Caller(id=id_of(two.key))))
        await socket.send('{"type":"ping"}')
        await socket.wait_closed()
        assert socket.close_code == 1008


async def test_tickets_do_not_stand_in_the_server_s_log(two: Two, caplog: pytest.LogCaptureFixture) -> None:
    redact_server_logs()
    with caplog.at_level(logging.INFO, "uvicorn.access"):
        line = '%s - "%s %s HTTP/%s" %d'
        logging.getLogger("uvicorn.access").info(line, "x", "GET", "/jobs/1/ws?a=1&ticket=secret", "1.1", 200)
    assert "secret" not in caplog.text
    assert "ticket=hidden" in caplog.text


async def test_who_may_not_look_gets_no_ticket(two: Two) -> None:
    key = await new_key(two.store, scopes=("runs:read",))
    headers = {"X-API-Key": key}

    async def is_known() -> bool:
        return (await two.one.client.get("/jobs", headers=headers)).status_code == 200

    await until(is_known)
    for path, status in ((two.stream, 201), ("/workers", 403)):
        answer = await two.one.client.post("/tickets", json={"path": path}, headers=headers)
        assert answer.status_code == status
    assert (await two.one.client.post("/tickets", json={"path": two.stream})).status_code == 401


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b'{"path":7}', b'{"path":"jobs"}', b'{"path":"/a?b"}'])
async def test_what_names_no_address(two: Two, body: bytes) -> None:
    answer = await two.one.client.post("/tickets", content=body, headers={"X-API-Key": two.key})
    assert answer.status_code == (422 if body != b'{"path":"jobs"}' else answer.status_code)
    assert answer.status_code in (403, 422)
