"""What is listed of a history folds into what is shown of the run, at every commit, whatever happened."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.canonical_json import canonical_bytes
from pyoco_server.http_api.faces.executions import wire
from pyoco_server.http_api.faces.executions.event_history import EventHistory, event_ids
from pyoco_server.http_api.faces.executions.event_mapping import EventType
from pyoco_server.http_api.faces.executions.state import state_at
from pyoco_server.lifecycle import events as e
from pyoco_server.lifecycle.run import Run
from pyoco_server.store.runs.codec import Commit
from tests.lifecycle.support.alphabet import AT, EVENTS, submitted
from tests.lifecycle.support.random_graphs import client_histories
from tests.lifecycle.support.random_runs import QUICK, THOROUGH, Intent, play, wishes
from tests.lifecycle.support.random_runs import Commit as Made


def commit(number: int, events: Sequence[e.Event]) -> Commit:
    return Commit(number=number, log_seq=number, commit_id=f"c{number}", at=AT, events=list(events))


def shown(run: Run) -> Any:
    """As it goes over the wire."""
    return msgspec.json.decode(msgspec.json.encode(wire.execution(run)))


def lawful(commits: Sequence[Sequence[e.Event]]) -> EventHistory:
    """After every commit: the listed events fold into the body of GET, and a terminal status stays."""
    chronicle = EventHistory()
    ended = None
    for number, events in enumerate(commits, start=1):
        ids, listed = event_ids(chronicle.run, events, f"c{number}"), len(chronicle.events)
        chronicle.add(commit(number, events))
        assert [json.loads(one)["eventId"] for one in chronicle.events[listed:]] == ids
        if chronicle.run is None or chronicle.run.gone:
            continue
        body = shown(chronicle.run)
        assert state_at([json.loads(one) for one in chronicle.events]) == body
        assert ended in (None, body["status"])
        ended = body["status"] if body["status"] != "ACTIVE" else None
    _chained(chronicle)
    return chronicle


def _chained(chronicle: EventHistory) -> None:
    """As anybody can check who has only the list."""
    before = ""
    for number, encoded in enumerate(chronicle.events, start=1):
        event = json.loads(encoded)
        said = event.pop("hash")
        assert event["seq"] == number
        assert event["type"] in set(EventType)
        before = hashlib.sha256(before.encode() + canonical_bytes(event)).hexdigest()
        assert said == before
    assert chronicle.head == before


@THOROUGH
@given(wishes)
def test_histories_of_workers_are_listed_as_they_are_shown(asked: list[list[Intent]]) -> None:
    lawful([made.events for made in play(asked)])


@THOROUGH
@given(client_histories)
def test_histories_of_clients_are_listed_as_they_are_shown(commits: list[Made]) -> None:
    lawful([made.events for made in commits])


@THOROUGH
@given(st.lists(st.lists(st.sampled_from(EVENTS), min_size=1, max_size=3), max_size=14))
def test_even_a_log_without_sense_is_listed_as_it_is_shown(commits: list[list[e.Event]]) -> None:
    lawful([[submitted()], *commits])


@QUICK
@given(st.lists(st.sampled_from(EVENTS), max_size=12))
def test_after_a_cancel_request_nothing_but_cancelled_ends_are_listed(events: list[e.Event]) -> None:
    chronicle = lawful([[submitted()], [e.CancelRequested(at=AT)], events])
    types = [json.loads(one)["type"] for one in chronicle.events]
    later = set(types[types.index("EXECUTION_CANCEL_REQUESTED") :])
    assert later <= {
        "EXECUTION_CANCEL_REQUESTED",
        "EXECUTION_CANCELED",
        "EXECUTION_ARCHIVED",
        "NODE_CANCELED",
    }


def test_a_result_without_a_canonical_form_is_chained_all_the_same() -> None:
    deep: Any = 1
    for _ in range(80):
        deep = [deep]
    chronicle = EventHistory()
    chronicle.add(commit(1, [submitted()]))
    ended = e.TaskSucceeded(at=AT, task="a", attempt=1, started_at=AT, output=deep)
    chronicle.add(commit(2, [ended]))
    again = EventHistory()
    again.add(commit(1, [submitted()]))
    again.add(commit(2, [ended]))
    assert len(chronicle.head) == 64
    assert chronicle.head == again.head


def test_instants_that_no_calendar_has_are_shown_at_its_edge() -> None:
    assert wire.instant(0.0) == "1970-01-01T00:00:00.000000Z"
    assert wire.instant(1e300) == wire.instant(float("inf")) == "9999-12-31T00:00:00.000000Z"
    assert wire.instant(-1e300) == wire.instant(float("nan")) == "1970-01-01T00:00:00.000000Z"
