"""Two gateways, one execution: whatever is asked at once, an accepted cancel never ends otherwise."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import httpx

from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api.faces.executions.state import state_at
from tests.http_api.faces.executions.driving import Driver, expect_rejected
from tests.http_api.serving import serving

ROUNDS = 300
AT_ONCE = 10
CROWD = 200


async def test_an_accepted_cancel_never_ends_otherwise(
    config: NatsBackendConfig, client: httpx.AsyncClient
) -> None:
    async with serving(config) as other:
        here, there = Driver(client), Driver(other)
        await here.graph("a", {"id": "last", "after": ["a"]})
        ends: Counter[str] = Counter()
        for first in range(0, ROUNDS, AT_ONCE):
            rounds = (_race(here, there, random.Random(first + number)) for number in range(AT_ONCE))
            ends.update(await asyncio.gather(*rounds))
    assert sum(ends.values()) == ROUNDS
    assert set(ends) <= {"COMPLETED", "CANCELED"}
    assert min(ends["COMPLETED"], ends["CANCELED"]) > 0, f"only one side ever won: {ends}"


async def _race(here: Driver, there: Driver, chance: random.Random) -> str:
    execution_id = await here.create()
    await here.ok(execution_id, "start")
    await here.do(execution_id, "a")
    await here.take(execution_id, "last")
    # The other gateway knows the execution already, as it was a moment ago.
    await there.ok(execution_id, "last/progress", progress=1)
    cancels, succeeds = (here, there) if chance.random() < 0.5 else (there, here)
    asked = [cancels.on(execution_id, "cancel"), succeeds.on(execution_id, "last/success", {"output": 1})]
    turned = chance.random() < 0.5
    answers = await asyncio.gather(*(reversed(asked) if turned else asked))
    cancelled, succeeded = reversed(answers) if turned else answers
    assert cancelled.status_code == 202, cancelled.text
    shown = await chance.choice((here, there)).get(execution_id)
    events = await here.events(execution_id)
    if succeeded.status_code == 202:
        # It was over before the cancel came: that one had nothing to do.
        assert (shown["status"], shown["cancelRequestedAt"]) == ("COMPLETED", None)
        assert "EXECUTION_CANCEL_REQUESTED" not in {event["type"] for event in events}
    else:
        expect_rejected(succeeded, "EXECUTION_TERMINAL", status="CANCELED", nodeStatus="CANCELED")
        assert shown["status"] == "CANCELED"
        assert shown["nodes"][1]["output"] is None
    assert state_at(events) == shown
    return str(shown["status"])


async def test_of_many_who_take_a_node_one_gets_it(
    config: NatsBackendConfig, client: httpx.AsyncClient
) -> None:
    async with serving(config) as other:
        drivers = (Driver(client), Driver(other))
        execution_id = await drivers[0].started("a")
        taking = (
            drivers[number % 2].on(execution_id, "a/start", {"attempt": 1, "workerId": f"w{number}"})
            for number in range(20)
        )
        answers = await asyncio.gather(*taking)
        assert Counter(answer.status_code for answer in answers) == {202: 1, 409: 19}
        won = next(number for number, answer in enumerate(answers) if answer.status_code == 202)
        assert (await drivers[1].get(execution_id))["nodes"][0]["workerId"] == f"w{won}"


async def test_a_wait_is_answered_once(config: NatsBackendConfig, client: httpx.AsyncClient) -> None:
    async with serving(config) as other:
        drivers = (Driver(client), Driver(other))
        execution_id = await drivers[0].started({"id": "w", "type": "wait"})
        answering = (
            drivers[number % 2].on(execution_id, "w/resume", {"resumeKey": "w", "payload": number})
            for number in range(20)
        )
        answers = await asyncio.gather(*answering)
        assert Counter(answer.status_code for answer in answers) == {202: 1, 409: 19}
        won = next(number for number, answer in enumerate(answers) if answer.status_code == 202)
        assert (await drivers[0].get(execution_id))["nodes"][0]["output"] == won


async def test_a_crowd_on_one_execution_is_served_one_after_the_other(
    config: NatsBackendConfig, client: httpx.AsyncClient
) -> None:
    async with serving(config) as other:
        drivers = (Driver(client), Driver(other))
        execution_id = await drivers[0].started("a")
        await drivers[0].take(execution_id, "a")
        asked = [
            drivers[number % 2].on(execution_id, "a/progress", {"progress": 1, "message": str(number)})
            for number in range(CROWD)
        ]
        answers = await asyncio.gather(*asked)
        assert Counter(answer.status_code for answer in answers) == {202: CROWD}
        assert (await drivers[1].types(execution_id)).count("NODE_PROGRESS_REPORTED a") == CROWD
