"""Thousands of commands by chance, over two gateways: nothing breaks, and everything that is kept agrees."""

from __future__ import annotations

import random
from typing import Any

import httpx

from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api.faces.executions.state import state_at
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.store.store import Store
from tests.http_api.faces.executions.driving import Driver
from tests.http_api.serving import serving
from tests.worker.stage import lawful

SEED = 20_260
COMMANDS = 3_000
GRAPHS: tuple[tuple[Any, ...], ...] = (
    ("a", {"id": "b", "after": ["a"]}, {"id": "c", "after": ["b"]}),
    ({"id": "a", "retry": {"max_attempts": 3}}, "b", {"id": "c", "after": ["a", "b"], "join": "any_success"}),
    ("a", {"id": "b", "type": "wait", "after": ["a"]}, {"id": "c", "after": ["a", "b"], "join": "all_done"}),
    (
        {"id": "a", "type": "wait", "wait_key": "k"},
        {"id": "b", "after": ["a"]},
        {"id": "c", "timeout_sec": 60},
    ),
)
ALLOWED = frozenset({200, 202, 404, 409, 422})


async def test_a_walk_by_chance_leaves_everything_in_agreement(
    config: NatsBackendConfig, client: httpx.AsyncClient, store: Store, read_model: ReadModel
) -> None:
    async with serving(config) as other:
        walk = _Walk(random.Random(SEED), (Driver(client), Driver(other)))
        for number, nodes in enumerate(GRAPHS):
            await walk.drivers[0].graph(*nodes, graph_id=f"g{number}")
        for _ in range(COMMANDS):
            await walk.step()
        assert set(walk.ended.values()) == {"COMPLETED", "FAILED", "CANCELED"}
        for execution_id in walk.executions:
            await _agrees(walk, execution_id, store)
    await read_model.catch_up()
    for execution_id in walk.executions:
        stored = await store.runs.load(execution_id, at_leader=True)
        listed = read_model.find(execution_id)
        assert stored is not None
        assert listed is not None
        assert (listed.status, listed.updated_at, listed.archived) == (
            stored.run.status,
            stored.run.updated_at,
            stored.run.archived,
        )


class _Walk:
    def __init__(self, chance: random.Random, drivers: tuple[Driver, Driver]) -> None:
        self._chance = chance
        self.drivers = drivers
        self.executions: list[str] = []
        self.ended: dict[str, str] = {}
        self._keys: list[str] = []

    async def step(self) -> None:
        chance = self._chance
        drive = chance.choice(self.drivers)
        if not self.executions or chance.random() < 0.04:
            self.executions.append(await drive.create(f"g{chance.randrange(len(GRAPHS))}"))
            return
        execution_id = chance.choice(self.executions[-12:])
        shown = await drive.get(execution_id)
        self._terminal_stays(execution_id, shown["status"])
        what, body = self._command(shown)
        answer = await drive.on(execution_id, what, body, self._key())
        assert answer.status_code in ALLOWED, (what, body, answer.text)

    def _terminal_stays(self, execution_id: str, status: str) -> None:
        known = self.ended.get(execution_id)
        assert known in (None, status)
        if status != "ACTIVE":
            self.ended[execution_id] = status

    def _key(self) -> str:
        """Sometimes one that was used before, for whatever it was."""
        if self._keys and self._chance.random() < 0.05:
            return self._chance.choice(self._keys)
        self._keys.append(f"key-{self._chance.random()}")
        return self._keys[-1]

    def _command(self, shown: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """Mostly something that fits; sometimes anything at all."""
        chance = self._chance
        if shown["startedAt"] is None and chance.random() < 0.9:
            return "start", {}
        if chance.random() < 0.03:
            return chance.choice(("cancel", "archive", "start")), {}
        node = chance.choice(shown["nodes"])
        verb = chance.choice(_FITTING[node["status"]] if chance.random() < 0.85 else _ALL)
        return f"{node['nodeId']}/{verb}", self._body(verb, node)

    def _body(self, verb: str, node: dict[str, Any]) -> dict[str, Any]:
        chance = self._chance
        match verb:
            case "start":
                return {"attempt": node["attempt"] + chance.choice((1, 1, 1, 1, 2, 0)), "workerId": "w"}
            case "progress":
                return {
                    "progress": chance.choice((0, 33.3, 100, 101)),
                    "message": chance.choice(("m", "あ", None)),
                }
            case "wait":
                return {
                    "waitKey": chance.choice(("k", "l")),
                    "prompt": chance.choice(({"q": [1.5, "é"]}, None)),
                }
            case "resume":
                decision = chance.choice(("approve", "approve", "reject"))
                key = node["waitKey"] if chance.random() < 0.8 and node["waitKey"] else "other"
                return {"resumeKey": key, "payload": {"n": 1.0}, "decision": decision}
            case "fail":
                return {"error": {"code": "E", "message": "x" * chance.choice((0, 5, 300))}}
            case _:
                return {"output": chance.choice((None, 1, "s", {"a": [1, {"b": 2.5}]}))}


_ALL = ("start", "progress", "wait", "resume", "success", "fail")
_FITTING = {
    "IDLE": _ALL,
    "READY": ("start",),
    "RUNNING": ("progress", "wait", "success", "success", "fail"),
    "WAITING": ("resume", "resume", "success", "fail"),
    "SUCCEEDED": _ALL,
    "FAILED": _ALL,
    "CANCELED": _ALL,
}


async def _agrees(walk: _Walk, execution_id: str, store: Store) -> None:
    """The list, the answer on both gateways, the log and the stored snapshot tell the same."""
    here, there = walk.drivers
    events = await here.events(execution_id)
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    shown = await there.get(execution_id)
    assert state_at(events) == shown == await here.get(execution_id)
    assert walk.ended.get(execution_id, shown["status"]) == shown["status"]
    verified = await here.get(execution_id, "/verify")
    assert verified == {"ok": True, "events": len(events), "head": events[-1]["hash"], "problems": []}
    await lawful(store, execution_id)
