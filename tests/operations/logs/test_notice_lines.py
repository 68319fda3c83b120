"""Logs made from events: the bytes of a format never change, and events of others add no line."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pyoco_server.lifecycle.events import (
    CancelRequested,
    Event,
    RunCancelled,
    RunClaimed,
    RunCompleted,
    RunFailed,
    RunLost,
    RunSubmitted,
    TagAdded,
    TaskCancelled,
    TaskFailed,
    TasksPlanned,
    TaskStarted,
    TaskSucceeded,
)
from pyoco_server.lifecycle.status import LossCause, OutputKept
from pyoco_server.operations.logs.notice_lines import FORMAT, unwritten_lines
from pyoco_server.store.logs.writer import encode_lines

AT = 1_800_000_000.25
SUBMITTED = RunSubmitted(at=AT, run_id="r", flow_name="f", params={}, tag="t", tags=["t"])
CLAIMED = RunClaimed(at=AT + 1, worker_id="w", instance_id="i", fence=1)


def log_of(*events: Event) -> bytes | None:
    lines = unwritten_lines(events)
    return None if lines is None else encode_lines(lines, 1)[0]


def test_the_bytes_of_a_completed_run_in_format_1() -> None:
    """A run that ended long ago must be shown like this by every later version."""
    assert FORMAT == 1
    written = log_of(
        SUBMITTED,
        TaskSucceeded(at=AT, task="carried", attempt=1, started_at=AT),
        CLAIMED,
        TasksPlanned(at=AT + 1, tasks=["a", "ü"]),
        TagAdded(at=AT + 1, tag="later"),
        TaskStarted(at=AT + 1.5, task="a", attempt=1, worker_id="w"),
        TaskSucceeded(at=AT + 1.5012, task="a", attempt=1, started_at=AT + 1.5, output={"n": 1}),
        TaskStarted(at=AT + 2, task="ü", attempt=2, worker_id="w"),
        TaskSucceeded(at=AT + 4, task="ü", attempt=2, started_at=AT + 2, kept=OutputKept.UNSERIALISABLE),
        TaskCancelled(at=AT + 4, task="never"),
        RunCompleted(at=AT + 5, notices=1),
        TagAdded(at=AT + 6, tag="after"),
    )
    assert written is not None
    assert written.decode().splitlines() == [
        '{"seq":1,"timestamp":"2027-01-15T08:00:01.250000Z","message":"attempt 1 begins on worker w",'
        '"stream":"system","level":"INFO"}',
        '{"seq":2,"timestamp":"2027-01-15T08:00:01.750000Z","message":"task a started","stream":"system",'
        '"task":"a","attempt":1,"level":"INFO"}',
        '{"seq":3,"timestamp":"2027-01-15T08:00:01.751200Z","message":"task a succeeded in 1.2 ms",'
        '"stream":"system","task":"a","attempt":1,"level":"INFO"}',
        '{"seq":4,"timestamp":"2027-01-15T08:00:02.250000Z","message":"task ü started (attempt 2)",'
        '"stream":"system","task":"ü","attempt":2,"level":"INFO"}',
        '{"seq":5,"timestamp":"2027-01-15T08:00:04.250000Z","message":"task ü succeeded in 2.0 s; its result '
        'cannot be kept as JSON, so a resumed run executes it again","stream":"system","task":"ü",'
        '"attempt":2,"level":"WARNING"}',
        '{"seq":6,"timestamp":"2027-01-15T08:00:04.250000Z","message":"task never will not run",'
        '"stream":"system","task":"never","level":"INFO"}',
        '{"seq":7,"timestamp":"2027-01-15T08:00:05.250000Z","message":"run completed","stream":"system",'
        '"level":"INFO"}',
    ]


def test_the_bytes_of_a_failed_run_in_format_1() -> None:
    trace = "Traceback (most recent call last):\n  10 %\r 20 %\nValueError: no\n"
    failed = TaskFailed(at=AT + 2, task="a", attempt=1, started_at=AT, error="no\nmore", traceback=trace)
    written = log_of(
        SUBMITTED, CLAIMED, failed, RunFailed(at=AT + 3, reason="x", error="no\nmore", task="a", notices=1)
    )
    assert written is not None
    of_task = '"stream":"system","task":"a","attempt":1,"level":"ERROR"}'
    at = '"timestamp":"2027-01-15T08:00:02.250000Z"'
    assert written.decode().splitlines()[1:] == [
        f'{{"seq":2,{at},"message":"task a failed: no",{of_task}',
        f'{{"seq":3,{at},"message":"Traceback (most recent call last):",{of_task}',
        f'{{"seq":4,{at},"message":" 20 %",{of_task}',
        f'{{"seq":5,{at},"message":"ValueError: no",{of_task}',
        '{"seq":6,"timestamp":"2027-01-15T08:00:03.250000Z","message":"run failed: no","stream":"system",'
        '"task":"a","level":"ERROR"}',
    ]


@pytest.mark.parametrize(
    "rest",
    [
        (CLAIMED,),
        (CLAIMED, RunCompleted(at=AT)),
        (CLAIMED, RunFailed(at=AT, reason="x", error="x")),
        (CLAIMED, CancelRequested(at=AT), RunCancelled(at=AT)),
        (CLAIMED, RunLost(at=AT, fence=1, cause=LossCause.WORKER_LOST)),
        (CLAIMED, RunCompleted(at=AT, notices=FORMAT + 1)),
    ],
    ids=["claimed", "completed", "failed", "cancelled", "lost", "in a later format"],
)
def test_no_other_run_has_a_log_made_from_events(rest: Sequence[Event]) -> None:
    """Among them are the runs of earlier versions, whose notices are in their chunks."""
    assert log_of(SUBMITTED, *rest) is None
