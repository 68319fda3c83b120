"""Dead letters: the members of appendix E, one letter an attempt, and never a reason to fail."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
import pytest

from pyoco_server.store.dlq import PAYLOAD_BYTES_MAX, DeadLetter, payload_text
from pyoco_server.store.store import Store
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
