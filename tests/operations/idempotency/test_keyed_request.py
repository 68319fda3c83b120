"""One effect for all requests with one key, whoever dies on the way."""

from __future__ import annotations

import asyncio
import logging

import pytest
from msgspec.structs import replace

from pyoco_server.clock import elapsed
from pyoco_server.errors import Conflict, IdempotencyConflict, Internal, Invalid, NotFound, Unavailable
from pyoco_server.operations.idempotency import keyed_request
from pyoco_server.operations.idempotency.key_scope import IdempotencyKey
from pyoco_server.operations.idempotency.keyed_request import KeyedAnswer, RecordedAnswer, Reservation
from pyoco_server.store.idempotency import Record, RecordState
from pyoco_server.store.store import Store
from tests.conftest import until
from tests.operations.idempotency.keyed import Do, once
from tests.store.making import Mishap

KEY = IdempotencyKey(tenant="acme", principal="ci", method="POST", path="/runs", key="order-4711")
BODY = b'{"flow_name":"greet","params":{"n":1},"tag":"gpu"}'


class Effects:
    """Something that must not happen twice, and who made it happen."""

    def __init__(self) -> None:
        self.made: list[Reservation] = []

    async def __call__(self, reservation: Reservation) -> RecordedAnswer:
        self.made.append(reservation)
        body = b'{ "id" : "%s" }' % reservation.resource_id.encode()
        return RecordedAnswer(status=202, body=body, headers={"Location": "/x"}, event_ids=["e1"])


def raising(error: Exception) -> Do:
    async def do(_: Reservation) -> RecordedAnswer:
        raise error

    return do


class Held:
    """An effect that waits until it is let go, as of a gateway that is slow, or dead."""

    def __init__(self, then: Do) -> None:
        self._then = then
        self.begun = asyncio.Event()
        self.go_on = asyncio.Event()

    async def __call__(self, reservation: Reservation) -> RecordedAnswer:
        self.begun.set()
        await self.go_on.wait()
        return await self._then(reservation)


async def record_of(store: Store, key: IdempotencyKey = KEY) -> Record | None:
    return (await store.ledger.get(key.address)).record


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same rules with less waiting."""
    monkeypatch.setattr(keyed_request, "TAKE_OVER_AFTER_SEC", 0.2)
    monkeypatch.setattr(keyed_request, "WAIT_SEC_MAX", 30.0)


async def test_the_first_has_the_effect_and_the_next_its_bytes(store: Store, other_store: Store) -> None:
    effects = Effects()
    first = await once(store, KEY, BODY, effects)
    again = await once(other_store, KEY, BODY, effects)
    (made,) = effects.made
    assert first == KeyedAnswer(
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


async def test_the_same_said_otherwise_is_the_same(store: Store) -> None:
    effects = Effects()
    await once(store, KEY, b'{"a":1,"b":{"x":14}}', effects)
    again = await once(store, KEY, b'{ "b": {"x": 14.0}, "a": 1, "trace_id": "t" }', effects)
    assert again.replayed
    nothing = replace(KEY, path="/none")
    await once(store, nothing, b"", effects)
    assert (await once(store, nothing, b" {} ", effects)).replayed


@pytest.mark.parametrize(
    ("body", "differs", "words"),
    [
        (b'{"flow_name":"greet","params":{"n":2},"tag":"gpu"}', ["params"], "params differs"),
        (b'{"flow_name":"greet","params":{"n":1}}', ["tag"], "tag differs"),
        (b'{"flow_name":"x","params":{"n":1},"tag":"gpu","y":0}', ["flow_name", "y"], "flow_name, y differ"),
        (b"[1]", ["flow_name", "params", "tag"], "flow_name, params, tag differ"),
    ],
)
async def test_another_request_with_the_key_is_told_where_it_differs(
    store: Store, body: bytes, differs: list[str], words: str
) -> None:
    effects = Effects()
    await once(store, KEY, BODY, effects)
    with pytest.raises(IdempotencyConflict, match=words) as refused:
        await once(store, KEY, body, effects)
    assert refused.value.details == {"differs": differs}
    assert len(effects.made) == 1


async def test_another_request_is_refused_while_the_first_is_under_way(store: Store) -> None:
    held = Held(Effects())
    first = asyncio.create_task(once(store, KEY, BODY, held))
    await held.begun.wait()
    with pytest.raises(IdempotencyConflict):
        await once(store, KEY, b"{}", Effects())
    held.go_on.set()
    assert not (await first).replayed


async def test_a_difference_in_what_is_not_remembered_by_name_is_still_one(store: Store) -> None:
    many = b"{" + b",".join(b'"m%03d":%d' % (number, number) for number in range(200)) + b"}"
    await once(store, KEY, many, Effects())
    with pytest.raises(IdempotencyConflict, match="the body differs"):
        await once(store, KEY, many.replace(b'"m199":199', b'"m199":0'), Effects())
    record = await record_of(store)
    assert record is not None
    assert len(record.members) == 64


@pytest.mark.parametrize(
    "change",
    [
        {"tenant": "other"},
        {"tenant": None},
        {"principal": "other"},
        {"principal": None},
        {"method": "PUT"},
        {"path": "/runs/1/cancel"},
        {"key": "order-4712"},
    ],
)
async def test_the_key_has_an_effect_for_each_caller_and_place(
    store: Store, change: dict[str, str | None]
) -> None:
    effects = Effects()
    first = await once(store, KEY, BODY, effects)
    second = await once(store, replace(KEY, **change), BODY, effects)
    assert not second.replayed
    assert first.resource_id != second.resource_id


async def test_who_waits_is_told_by_the_broker(
    store: Store, other_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without that this would take longer than it may."""
    for limit in ("TAKE_OVER_AFTER_SEC", "WAIT_SEC_MAX", "LOOK_AGAIN_SEC"):
        monkeypatch.setattr(keyed_request, limit, 600.0)
    held = Held(Effects())
    first = asyncio.create_task(once(store, KEY, BODY, held))
    await held.begun.wait()
    listening = len(other_store.client._handlers)
    waiting = [asyncio.create_task(once(other_store, KEY, BODY, Effects())) for _ in range(5)]
    await until(lambda: len(other_store.client._handlers) == listening + 5)
    held.go_on.set()
    async with asyncio.timeout(60):
        answers = await asyncio.gather(*waiting)
    assert [answer.replayed for answer in answers] == [True] * 5
    assert not (await first).replayed
    assert len(other_store.client._handlers) == listening


async def test_who_is_not_told_looks_again(
    store: Store, other_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keyed_request, "TAKE_OVER_AFTER_SEC", 600.0)
    monkeypatch.setattr(keyed_request, "WAIT_SEC_MAX", 600.0)
    monkeypatch.setattr(keyed_request, "LOOK_AGAIN_SEC", 0.05)
    monkeypatch.setattr(other_store.ledger, "_live_prefix", "nobody.speaks.here")
    held = Held(Effects())
    first = asyncio.create_task(once(store, KEY, BODY, held))
    await held.begun.wait()
    listening = len(other_store.client._handlers)
    waiting = asyncio.create_task(once(other_store, KEY, BODY, Effects()))
    await until(lambda: len(other_store.client._handlers) > listening)
    held.go_on.set()
    async with asyncio.timeout(60):
        assert (await waiting) == replace(await first, replayed=True)


async def test_a_reservation_whose_holder_is_gone_is_taken_over(
    store: Store, other_store: Store, impatient: None
) -> None:
    held = Held(Effects())
    dying = asyncio.create_task(once(store, KEY, BODY, held))
    await held.begun.wait()
    left = await record_of(store)
    dying.cancel()
    effects = Effects()
    answers = await asyncio.gather(*(once(other_store, KEY, BODY, effects) for _ in range(20)))
    (made,) = effects.made
    assert left is not None
    assert (made.resource_id, made.command_id) == (left.resource_id, left.command_id)
    assert made.redriven
    assert made.may_have_happened
    assert [answer.replayed for answer in answers].count(False) == 1


async def test_a_slow_holder_gives_the_answer_of_who_took_over(
    store: Store, other_store: Store, impatient: None
) -> None:
    seen: list[bool] = []

    async def late(reservation: Reservation) -> RecordedAnswer:
        seen.append(reservation.may_have_happened)
        return RecordedAnswer(status=200, body=b"late")

    held = Held(late)
    slow = asyncio.create_task(once(store, KEY, BODY, held))
    await held.begun.wait()
    effects = Effects()
    taken = await once(other_store, KEY, BODY, effects)
    held.go_on.set()
    assert (await slow) == replace(taken, replayed=True)
    assert seen == [True], "whoever is late must look whether somebody else was there"


async def test_who_was_overtaken_but_is_done_first_ends_it_for_both(
    store: Store, other_store: Store, impatient: None
) -> None:
    slow, taker = Held(Effects()), Held(Effects())
    first = asyncio.create_task(once(store, KEY, BODY, slow))
    await slow.begun.wait()
    second = asyncio.create_task(once(other_store, KEY, BODY, taker))
    await taker.begun.wait()
    slow.go_on.set()
    answer = await first
    taker.go_on.set()
    assert not answer.replayed
    assert (await second) == replace(answer, replayed=True)


@pytest.mark.parametrize("error", [Conflict("no"), NotFound("no")])
async def test_a_refusal_is_not_remembered(store: Store, error: Exception) -> None:
    with pytest.raises(type(error)):
        await once(store, KEY, BODY, raising(error))
    assert await record_of(store) is None
    effects = Effects()
    assert not (await once(store, KEY, b'{"another":"body"}', effects)).replayed
    assert not effects.made[0].redriven


async def test_all_who_wait_for_a_refusal_are_refused(store: Store, other_store: Store) -> None:
    calls = [once(one, KEY, BODY, raising(Conflict("no"))) for one in (store, other_store) for _ in range(10)]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(answer) for answer in answers} == {Conflict}
    assert await record_of(store) is None


@pytest.mark.parametrize("error", [Unavailable("away"), Internal("ours"), ZeroDivisionError()])
async def test_trouble_is_not_remembered_and_the_next_goes_on_at_once(store: Store, error: Exception) -> None:
    with pytest.raises(type(error)):
        await once(store, KEY, BODY, raising(error))
    left = await record_of(store)
    assert left is not None
    assert (left.state, left.held, left.status) == (RecordState.RESERVED, False, 0)
    effects = Effects()
    # Nobody is waited for: the time for that is not over when this is.
    async with asyncio.timeout(keyed_request.TAKE_OVER_AFTER_SEC):
        assert not (await once(store, KEY, BODY, effects)).replayed
    assert (effects.made[0].resource_id, effects.made[0].redriven) == (left.resource_id, True)


async def test_an_answer_that_is_an_error_is_a_mistake_and_not_kept(store: Store) -> None:
    async def do(_: Reservation) -> RecordedAnswer:
        return RecordedAnswer(status=503, body=b"{}")

    with pytest.raises(AssertionError):
        await once(store, KEY, BODY, do)
    left = await record_of(store)
    assert left is not None
    assert left.state is RecordState.RESERVED


async def test_an_answer_that_cannot_be_kept_is_not_given(
    store: Store, other_store: Store, monkeypatch: pytest.MonkeyPatch, impatient: None
) -> None:
    effects = Effects()

    async def do(reservation: Reservation) -> RecordedAnswer:
        Mishap(monkeypatch, store, f"$KV.{store.config.idempotency_kv_bucket}.", times=99, sent=False)
        return await effects(reservation)

    with pytest.raises(Unavailable):
        await once(store, KEY, BODY, do)
    again = await once(other_store, KEY, BODY, effects)
    assert not again.replayed
    assert effects.made[0].resource_id == effects.made[1].resource_id
    assert effects.made[1].may_have_happened


@pytest.mark.parametrize("times", [1, 2])
async def test_a_lost_acknowledgement_is_looked_up(
    store: Store, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    Mishap(monkeypatch, store, f"$KV.{store.config.idempotency_kv_bucket}.", times=times)
    effects = Effects()
    assert not (await once(store, KEY, BODY, effects)).replayed
    assert (await once(store, KEY, BODY, effects)).replayed
    assert len(effects.made) == 1


async def test_whoever_cannot_take_over_in_time_is_told_to_come_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keyed_request, "WAIT_SEC_MAX", -1.0)
    with pytest.raises(Unavailable, match="still under way") as busy:
        await once(store, KEY, BODY, Effects())
    assert busy.value.retry_after_sec == 1.0


async def test_a_large_answer_is_given_again_whole(store: Store, other_store: Store) -> None:
    large = bytes(range(256)) * 16 + b"".join(b"%08x" % (n * 2654435761 % 2**32) for n in range(300_000))

    async def do(_: Reservation) -> RecordedAnswer:
        return RecordedAnswer(status=200, body=large)

    assert (await once(store, KEY, BODY, do)).body == large
    again = await once(other_store, KEY, BODY, do)
    assert again.replayed
    assert again.body == large
    record = await record_of(store)
    assert record is not None
    assert record.parts > 1


async def test_neither_key_nor_values_are_stored_or_logged(
    store: Store, caplog: pytest.LogCaptureFixture, impatient: None
) -> None:
    caplog.set_level(logging.DEBUG)
    secret = replace(KEY, key="hush-hush-4711")
    with pytest.raises(Unavailable):
        await once(store, secret, b'{"note":"very-private"}', raising(Unavailable("x")))
    await once(store, secret, b'{"note":"very-private"}', Effects())
    bucket = store.config.idempotency_kv_bucket
    messages = await store.jetstream.after(f"KV_{bucket}", f"$KV.{bucket}.>", 0)
    assert messages
    said = [repr(messages), repr(secret), *(repr(vars(record)) for record in caplog.records)]
    assert any("idempotency_key_hash" in text for text in said)
    assert [text for text in said if "hush" in text or "very-private" in text] == []


async def test_records_are_kept_for_two_days_by_default(store: Store) -> None:
    await once(store, KEY, BODY, Effects())
    bucket = store.config.idempotency_kv_bucket
    message = await store.jetstream.last_at_leader(f"KV_{bucket}", f"$KV.{bucket}.{KEY.address}")
    record = await record_of(store)
    assert message is not None
    assert record is not None
    assert message.header(b"Nats-TTL") == "172800s"
    assert record.expires_at - record.reserved_at >= 172_800


async def test_a_body_without_a_canonical_form_reserves_nothing(store: Store) -> None:
    for body in (b'{"a":1,"a":2}', b'{"a":NaN}', b"\xff"):
        with pytest.raises(Invalid, match="nothing is said twice"):
            await once(store, KEY, body, Effects())
    assert await record_of(store) is None


async def test_a_gateway_that_was_suspended_knows_that_others_may_have_taken_over(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept_sec, knew = 0.0, []
    monkeypatch.setattr(keyed_request, "elapsed", lambda: elapsed() + slept_sec, raising=False)

    async def sleeps(reservation: Reservation) -> RecordedAnswer:
        nonlocal slept_sec
        knew.append(reservation.may_have_happened)
        slept_sec = 3600.0  # the loop's clock does not count this
        knew.append(reservation.may_have_happened)
        return RecordedAnswer(status=202, body=b"{}")

    await once(store, KEY, BODY, sleeps)
    assert knew == [False, True]
