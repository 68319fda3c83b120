"""A gateway is killed in the middle of commands: sent again with its key, each has had its effect once."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import httpx

from pyoco_server.store.store import Store
from tests.conftest import NatsServer, config_for, until
from tests.http_api.faces.executions.driving import Driver
from tests.promises.stack import Gateway, processes
from tests.worker.stage import lawful

COMMANDS = 60
KILLS = 2


async def test_no_command_is_lost_or_doubled_by_a_killed_gateway(
    nats_server: NatsServer, tmp_path: Path
) -> None:
    config = config_for(nats_server)
    with processes(config, tmp_path) as started:
        gateway = started.gateway()
        await gateway.ready()
        async with httpx.AsyncClient(base_url=gateway.url, timeout=10) as client:
            drive = Driver(client)
            execution_id = await drive.started("a")
            await drive.take(execution_id, "a")
        first = await _sent_while_killed(gateway, execution_id)
        async with httpx.AsyncClient(base_url=gateway.url, timeout=30) as client:
            drive = Driver(client)
            # At once: what the dead gateway had begun is taken over after some seconds of patience.
            sending = (_report(drive, execution_id, number) for number in range(COMMANDS))
            for number, again in enumerate(await asyncio.gather(*sending)):
                assert again.status_code in (200, 202), again.text
                known = first.get(number)
                assert known is None or (again.status_code, again.content) == (200, known)
            await drive.ok(execution_id, "a/success")
            events = await drive.events(execution_id)
            assert (await drive.get(execution_id, "/verify"))["ok"] is True
    reports = Counter(one["payload"]["message"] for one in events if one["type"] == "NODE_PROGRESS_REPORTED")
    assert reports == {f"report {number}": 1 for number in range(COMMANDS)}
    store = await Store.connect(config, name="test")
    await lawful(store, execution_id)
    await store.close()


async def _sent_while_killed(gateway: Gateway, execution_id: str) -> dict[int, bytes]:
    """Answers that arrived. The gateway dies with several commands on their way, and comes back."""
    arrived: dict[int, bytes] = {}
    each = COMMANDS // (KILLS + 1)
    for kill in range(KILLS + 1):
        numbers = range(kill * each, (kill + 1) * each)
        async with httpx.AsyncClient(base_url=gateway.url, timeout=10) as client:
            sending = [asyncio.create_task(_try(Driver(client), execution_id, number)) for number in numbers]
            if kill < KILLS:
                await until(lambda sending=sending: sum(one.done() for one in sending) >= each // 3)  # type: ignore[misc]
                gateway.kill()
            answers = await asyncio.gather(*sending)
        arrived |= {number: body for number, body in zip(numbers, answers, strict=True) if body is not None}
        if kill < KILLS:
            gateway.start()
            await gateway.ready()
    return arrived


async def _try(drive: Driver, execution_id: str, number: int) -> bytes | None:
    try:
        answer = await _report(drive, execution_id, number)
    except httpx.HTTPError:
        return None
    assert answer.status_code in (200, 202, 503), answer.text
    return answer.content if answer.status_code != 503 else None


async def _report(drive: Driver, execution_id: str, number: int) -> httpx.Response:
    body = {"progress": number, "message": f"report {number}"}
    return await drive.on(execution_id, "a/progress", body, f"key {number}")
