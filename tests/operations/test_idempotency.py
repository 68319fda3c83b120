"""One effect for all requests with one key, whoever dies on the way."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from pyoco_server.operations import idempotency
from pyoco_server.operations.idempotency import Answer, Do, Once, Reservation, once
from pyoco_server.operations.idempotency_key import IdempotencyKey
from pyoco_server.store.ledger import Record
from pyoco_server.store.store import Store

KEY = IdempotencyKey(tenant="acme", principal="ci", method="POST", path="/runs", key="order-4711")
BODY = b'{"flow_name":"greet","params":{"n":1},"tag":"gpu"}'


class Effects:
    """Something that must not happen twice, and who made it happen."""

    def __init__(self) -> None:
        self.made: list[Reservation] = []

    async def __call__(self, reservation: Reservation) -> Answer:
        self.made.append(reservation)
        body = b'{ "id" : "%s" }' % reservation.resource_id.encode()
        return Answer(status=202, body=body, headers={"Location": "/x"}, event_ids=["e1"])


def raising(error: Exception) -> Do:
    async def do(_: Reservation) -> Answer:
        raise error

    return do


class Held:
    """An effect that waits until it is let go, as of a gateway that is slow, or dead."""

    def __init__(self, then: Do) -> None:
        self._then = then
        self.begun = asyncio.Event()
        self.go_on = asyncio.Event()

    async def __call__(self, reservation: Reservation) -> Answer:
        self.begun.set()
        await self.go_on.wait()
        return await self._then(reservation)


async def record_of(store: Store, key: IdempotencyKey = KEY) -> Record | None:
    return (await store.ledger.get(key.address)).record


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same rules with less waiting."""
    monkeypatch.setattr(idempotency, "TAKE_OVER_AFTER_SEC", 0.2)
    monkeypatch.setattr(idempotency, "ATTEND_SEC_MAX", 30.0)


async def test_the_first_has_the_effect_and_the_next_its_bytes(store: Store, other_store: Store) -> None:
    effects = Effects()
    first = await once(store, KEY, BODY, effects)
    again = await once(other_store, KEY, BODY, effects)
    (made,) = effects.made
    assert first == Once(
        status=202,
        body=b'{ "id" : "%s" }' % made.resource_id.encode(),
        headers={"Location": "/x"},
        replayed=False,
        resource_id=made.resource_id,
        event_ids=["e1"],
    )
    assert again == replace(first, replayed=True)
    assert not made.redriven
    assert not made.may_have_happened


async def test_of_fifty_at_two_gateways_one_has_the_effect(store: Store, other_store: Store) -> None:
    effects = Effects()
    calls = [once(one, KEY, BODY, effects) for one in (store, other_store) for _ in range(25)]
    answers = await asyncio.gather(*calls)
    assert len(effects.made) == 1
    assert sorted(answer.replayed for answer in answers) == [False] + [True] * 49
    assert {answer.body for answer in answers} == {answers[0].body}
