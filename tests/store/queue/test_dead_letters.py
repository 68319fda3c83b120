"""Dead letters: the members of appendix E, one letter an attempt, and never a reason to fail."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
import pytest

from pyoco_server.store.queue import dead_letters
from pyoco_server.store.queue.dead_letters import PAYLOAD_BYTES_MAX, DeadLetter, payload_text
from pyoco_server.store.store import Store
from tests.conftest import until
from tests.store.making import Mishap

LETTER = DeadLetter(
    timestamp=5.0,
    reason="execution_error",
    error="ValueError: boom",
    run_id="r",
    flow_name="greet",
    tag="gpu",
    tags=["gpu"],
    worker_id="w1",
    num_delivered=2,
    subject="pyoco.work.gpu",
)


async def letters(store: Store, tag: str) -> list[dict[str, Any]]:
    subject = f"{store.config.dlq_subject_prefix}.{tag}"
    found = await store.jetstream.after(store.config.dlq_stream, subject, 0)
    return [msgspec.json.decode(message.data) for message in found]


async def test_a_letter_has_the_members_of_the_contract(store: Store) -> None:
    assert await store.dead_letters.publish(LETTER, letter_id="r.1")
    (letter,) = await letters(store, "gpu")
    assert letter == {
        "timestamp": 5.0,
        "reason": "execution_error",
        "error": "ValueError: boom",
        "run_id": "r",
        "flow_name": "greet",
        "tag": "gpu",
        "tags": ["gpu"],
        "worker_id": "w1",
        "num_delivered": 2,
        "subject": "pyoco.work.gpu",
        "payload": None,
    }


async def test_a_letter_sent_twice_is_there_once(store: Store) -> None:
    for _ in range(2):
        assert await store.dead_letters.publish(LETTER, letter_id="r.1")
    assert await store.dead_letters.publish(LETTER, letter_id="r.2")
    assert len(await letters(store, "gpu")) == 2


async def test_a_letter_about_nobody_knows_what_has_a_place_too(store: Store) -> None:
    assert await store.dead_letters.publish(DeadLetter(timestamp=1.0, reason="invalid_job"), letter_id="7")
    (letter,) = await letters(store, "unknown")
    assert (letter["reason"], letter["run_id"], letter["tag"]) == ("invalid_job", None, None)


async def test_a_letter_that_cannot_be_sent_is_logged_and_harms_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    Mishap(monkeypatch, store, store.config.dlq_subject_prefix, sent=False)
    with caplog.at_level(logging.ERROR):
        assert not await store.dead_letters.publish(LETTER, letter_id="r.1")
    (record,) = [record for record in caplog.records if record.message == "dead letter not published"]
    assert record.__dict__["err_id"] == "ERR-PYOCO-0011"
    assert record.__dict__["run_id"] == "r"


def test_as_much_of_a_message_is_kept_as_a_letter_may_carry() -> None:
    assert payload_text(b'{"a": 1}') == '{"a": 1}'
    assert payload_text(b"\xff") == "�"
    assert len(payload_text(b"x" * (PAYLOAD_BYTES_MAX + 9))) == PAYLOAD_BYTES_MAX


async def reasons(store: Store, before: int | None = None) -> list[str]:
    return [kept.letter.reason async for kept in store.dead_letters.newest_first(before)]


async def test_letters_are_read_newest_first_in_stretches(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "READ_AT_ONCE", 4)
    assert await reasons(store) == []
    for number in range(10):
        letter = DeadLetter(timestamp=1.0, reason=str(number), tag=f"t{number % 3}")
        await store.dead_letters.publish(letter, letter_id=str(number))
    assert await store.dead_letters.count() == 10
    assert await reasons(store) == list("9876543210")
    assert await reasons(store, before=4) == list("210")
    assert await reasons(store, before=99) == list("9876543210")
    stream = store.config.dlq_stream
    for seq in (3, 4, 5, 6, 7, 10):
        await store.jetstream.api(f"STREAM.MSG.DELETE.{stream}", {"seq": seq})
    assert await reasons(store) == list("8710")
    kept = await store.dead_letters.get(9)
    assert kept is not None
    assert (kept.seq, kept.letter.reason) == (9, "8")
    assert await store.dead_letters.get(7) is None
    assert await store.dead_letters.get(1000) is None


async def test_whoever_follows_hears_the_reasons(store: Store) -> None:
    heard: list[str] = []
    await store.dead_letters.follow(heard.append)
    await store.dead_letters.publish(LETTER, letter_id="r.1")
    await store.jetstream.publish(f"{store.config.dlq_subject_prefix}.x", b"no letter")
    await until(lambda: len(heard) == 2)
    assert heard == ["execution_error", "unreadable"]
