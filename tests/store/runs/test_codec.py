"""Bytes to values and back, and what becomes of bytes that we did not write."""

from __future__ import annotations

import msgspec
import pytest

from pyoco_server.lifecycle.events import (
    CancelRequested,
    Event,
    RunCancelled,
    RunErased,
    RunLost,
    TagAdded,
    TaskFailed,
    TaskStarted,
    TaskSucceeded,
    TaskWaiting,
    UnknownEvent,
)
from pyoco_server.lifecycle.reduce import fold
from pyoco_server.lifecycle.snapshot import snapshot_of
from pyoco_server.lifecycle.status import LossCause, OutputKept
from pyoco_server.store.runs.codec import decode_commit, decode_snapshot, encode_commit, encode_snapshot
from tests.store.making import START, claimed, submission, task_done

DEEP = b"[" * 5_000 + b"]" * 5_000

EVENTS: list[Event] = [
    submission(tenant_id="t", api_key_id="k", workflow_yaml="a: 1", correlation_id="c", traceparent="p"),
    claimed(),
    RunLost(at=2.5, fence=1, cause=LossCause.SLOT_CRASHED, detail="signal 9"),
    TaskStarted(at=3.0, task="名前", attempt=1, inputs={"a": [1, None, {"b": 0.1}]}),
    TaskSucceeded(at=4.0, task="a", attempt=2, started_at=3.5, output=[1], kept=OutputKept.REFERENCED),
    TaskFailed(at=4.0, task="b", attempt=1, started_at=3.0, error="boom", traceback="…", will_retry=True),
    TaskWaiting(at=5.0, task="c", attempt=1, wait_key="k", prompt={"q": "ok?"}, deadline_at=9.0),
    CancelRequested(at=6.0, by="me", reason="why not"),
    RunCancelled(at=6.0),
    TagAdded(at=7.0, tag="x"),
    RunErased(at=8.0, by="op"),
    UnknownEvent(at=1.0, name="RunFrozen"),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_an_event_survives_the_way_into_the_log_and_back(event: Event) -> None:
    assert decode_commit(encode_commit([event])) == [event]


def test_a_commit_keeps_the_order_of_its_events() -> None:
    assert decode_commit(encode_commit(EVENTS)) == EVENTS


def test_a_commit_says_which_version_wrote_it() -> None:
    assert msgspec.json.decode(encode_commit([RunCancelled(at=1.0)])) == {
        "v": 1,
        "events": [{"type": "RunCancelled", "at": 1.0}],
    }


def test_a_newer_version_is_read_as_far_as_it_is_understood() -> None:
    data = (
        b'{"v": 9, "signed": true, "events": ['
        b'{"type": "RunFrozen", "at": 3.5, "by": {"deep": [1]}},'
        b'{"type": "TagAdded", "at": 4, "tag": "x", "colour": "red"}]}'
    )
    assert decode_commit(data) == [UnknownEvent(at=3.5, name="RunFrozen"), TagAdded(at=4.0, tag="x")]


@pytest.mark.parametrize(
    ("event", "name"),
    [
        (b'{"type": "RunClaimed", "at": 1, "worker_id": 7, "instance_id": "i", "fence": 1}', "RunClaimed"),
        (b'{"type": "RunClaimed", "at": 1}', "RunClaimed"),
        (b'{"type": "RunLost", "at": 1, "fence": 1, "cause": "eaten"}', "RunLost"),
        (b'{"type": "RunCompleted", "at": "noon"}', "?"),
        (b'{"type": 5, "at": 1}', "?"),
        (b'{"at": 1}', "?"),
        (b"[]", "?"),
        (b"null", "?"),
        (b'{"type": "TagAdded", "at": 1, "tag": "\xff"}', "TagAdded"),
        (b'{"type": "\xff", "at": 1}', "?"),
    ],
)
def test_an_event_that_is_not_understood_stands_between_its_neighbours_as_unknown(
    event: bytes, name: str
) -> None:
    before, unknown, after = decode_commit(
        b'{"v": 1, "events": [{"type": "TagAdded", "at": 1, "tag": "x"}, %s,'
        b'{"type": "TagAdded", "at": 2, "tag": "y"}]}' % event
    )
    assert (before, after) == (TagAdded(at=1.0, tag="x"), TagAdded(at=2.0, tag="y"))
    assert isinstance(unknown, UnknownEvent)
    assert unknown.name == name or name == "?"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00\x01\x02",
        b"\xff\xfe",
        b"{",
        b"[]",
        b'"x"',
        b"{}",
        b'{"events": 3}',
        b'{"v": 9, "events": {"a": 1}}',
        DEEP,
        b'{"events": ' + DEEP,
    ],
)
def test_garbage_is_one_unknown_event(data: bytes) -> None:
    (event,) = decode_commit(data)
    assert isinstance(event, UnknownEvent)


def test_a_fold_goes_on_over_what_it_does_not_understand() -> None:
    run = fold(None, decode_commit(encode_commit([submission()])))
    for data in (b"garbage", b'{"v": 9, "events": [{"type": "RunFrozen"}]}', encode_commit([claimed()])):
        run = fold(run, decode_commit(data))
    assert run is not None
    assert run.claim is not None


def test_a_snapshot_survives_the_way_into_the_bucket_and_back() -> None:
    run = fold(None, [submission(), claimed(), *task_done("a", START + 2)])
    assert run is not None
    snapshot = snapshot_of(run, max_bytes=10_000, commits=3, log_seq=77)
    assert decode_snapshot(encode_snapshot(snapshot)) == snapshot


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b"[]", b'{"run_id": "a"}', b'{"run_id": "\xff"}', DEEP])
def test_a_snapshot_that_we_cannot_have_written_is_none(data: bytes) -> None:
    assert decode_snapshot(data) is None
