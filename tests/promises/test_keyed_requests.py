"""Gateways are killed under requests with keys; everybody asks again until answered: one run for each key."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from itertools import cycle
from pathlib import Path

import httpx
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.store.store import Store
from tests.conftest import until
from tests.promises.stack import Gateway, processes

ASKERS = 12
KEYS_EACH = 40
KILL_AT = (60, 150)


@pytest.mark.slow
async def test_every_key_has_one_run_whatever_is_killed(
    config: NatsBackendConfig, store: Store, tmp_path: Path
) -> None:
    answers: dict[str, set[bytes]] = {}
    with processes(config, tmp_path) as started:
        gateways = [started.gateway(), started.gateway()]
        for gateway in gateways:
            await gateway.ready()
        asking = [asyncio.create_task(_ask(gateways, answers, asker)) for asker in range(ASKERS)]
        for goal, gateway in zip(KILL_AT, gateways, strict=True):
            await until(partial(_are_answered, answers, goal), within_sec=60)
            gateway.kill()
            gateway.start()
        async with asyncio.timeout(120):
            await asyncio.gather(*asking)
        # Once more, now that all is quiet: the same bytes.
        await gateways[0].ready()
        for asker in range(ASKERS):
            await _ask(gateways[:1], answers, asker)
    assert len(answers) == ASKERS * KEYS_EACH
    assert {len(bodies) for bodies in answers.values()} == {1}
    info = await store.jetstream.api(
        f"STREAM.INFO.{config.events_stream}", {"subjects_filter": f"{config.events_subject_prefix}.*"}
    )
    assert len(info["state"]["subjects"]) == ASKERS * KEYS_EACH
    assert set(info["state"]["subjects"].values()) == {1}


def _are_answered(answers: dict[str, set[bytes]], goal: int) -> bool:
    return len(answers) >= goal


async def _ask(gateways: list[Gateway], answers: dict[str, set[bytes]], asker: int) -> None:
    async with httpx.AsyncClient(timeout=30) as client:
        for number in range(KEYS_EACH):
            in_turn = cycle(gateways[asker % len(gateways) :] + gateways)
            await until(partial(_is_answered, client, in_turn, f"{asker}-{number}", answers), within_sec=60)


async def _is_answered(
    client: httpx.AsyncClient, in_turn: Iterator[Gateway], key: str, answers: dict[str, set[bytes]]
) -> bool:
    wanted, named = {"flow_name": "two", "params": {"key": key}}, {"Idempotency-Key": key}
    try:
        answer = await client.post(f"{next(in_turn).url}/runs", json=wanted, headers=named)
    except httpx.HTTPError:
        return False
    if answer.status_code != 200:
        assert answer.status_code == 503, answer.text
        return False
    answers.setdefault(key, set()).add(answer.content)
    return True
