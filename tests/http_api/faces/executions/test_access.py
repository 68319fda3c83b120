"""Who is let in, and what is said while the broker is away: in this face's words."""

from __future__ import annotations

import httpx

from tests.conftest import NatsServer, config_for, until
from tests.http_api.faces.executions.driving import Driver, expect_refusal
from tests.http_api.serving import is_ready, serving
from tests.http_api.tenants import as_tenants
from tests.worker.stage import config_on


async def test_a_missing_key_is_401_and_a_wrong_one_403(nats_server: NatsServer) -> None:
    async with serving(config_on(nats_server, http_auth_mode="api_key")) as client:
        missing = await client.post("/executions", json={})
        expect_refusal(missing, 401, "UNAUTHENTICATED")
        assert "ApiKey" in missing.headers["www-authenticate"]
        wrong = await client.get("/executions", headers={"X-API-Key": "pyoco_nobody.x"})
        expect_refusal(wrong, 403, "FORBIDDEN")
        expect_refusal(await client.get("/graphs"), 401, "UNAUTHENTICATED")


async def test_looking_and_doing_are_two_scopes(nats_server: NatsServer) -> None:
    async with as_tenants(nats_server, "red", scopes=("runs:read",)) as (_, (reader,)):
        assert (await reader.get("/executions")).status_code == 200
        expect_refusal(await Driver(reader).post("/executions", {"graphId": "g"}), 403, "FORBIDDEN")
    async with as_tenants(nats_server, "red", scopes=("runs:write",)) as (_, (writer,)):
        drive = Driver(writer)
        await drive.graph("a")
        execution_id = await drive.create()
        await drive.ok(execution_id, "cancel")
        expect_refusal(await writer.get(f"/executions/{execution_id}"), 403, "FORBIDDEN")


async def test_other_hosts_are_refused_in_the_same_words(nats_server: NatsServer) -> None:
    async with serving(config_for(nats_server)) as client:
        foreign = await client.get("/executions", headers={"Host": "evil.example"})
        expect_refusal(foreign, 403, "FORBIDDEN")
        crossed = await client.post("/executions", json={}, headers={"Origin": "https://evil.example"})
        expect_refusal(crossed, 403, "FORBIDDEN")


async def test_a_command_that_met_no_broker_is_sent_again_with_its_key(own_nats_server: NatsServer) -> None:
    config = config_for(own_nats_server, broker_timeout_sec=1.0)
    async with serving(config) as client:
        drive = Driver(client)
        execution_id = await drive.started("a")
        own_nats_server.kill()

        async def is_away() -> bool:
            return not await is_ready(client)

        body = {"attempt": 1, "workerId": "w"}
        expect_refusal(await drive.on(execution_id, "a/start", body, "again"), 503, "UNAVAILABLE")
        await until(is_away)
        expect_refusal(await client.get(f"/executions/{execution_id}/events"), 503, "UNAVAILABLE")
        own_nats_server.start()
        await until(lambda: is_ready(client))
        answer = await _until_accepted(drive, execution_id, body)
        assert answer.status_code in (200, 202)
        assert (await drive.types(execution_id)).count("NODE_STARTED a") == 1
        assert (await drive.get(execution_id, "/verify"))["ok"] is True


async def _until_accepted(drive: Driver, execution_id: str, body: dict[str, object]) -> httpx.Response:
    async def accepted() -> httpx.Response | None:
        answer = await drive.on(execution_id, "a/start", body, "again")
        return None if answer.status_code == 503 else answer

    found = await until(accepted)
    assert isinstance(found, httpx.Response)
    return found
