"""Who listens to a slot's link: the thread that waits for what comes, or one that stands in for it."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from queue import Empty, SimpleQueue
from typing import Any

import pytest

from pyoco_server.worker.slots import messages as m
from pyoco_server.worker.slots.child_link import (
    LISTEN_AFTER_SEC,
    REST_SEC_MAX,
    TICK_SEC,
    LinkReader,
    next_rest_sec,
)

DEADLINE_SEC = 20.0


class Stage:
    def __init__(self, worker: socket.socket, slot: socket.socket) -> None:
        self._worker = worker
        self.mailbox: SimpleQueue[Any] = SimpleQueue()
        self.readers: list[str] = []
        self.ticks = 0
        self.ears = LinkReader(slot, self._hear, self._tick)
        self.ears.open()

    def send(self, message: m.ToSlot) -> None:
        self._worker.sendall(m.frame(message))

    def begin(self) -> None:
        """A run, heard by whoever waits for one."""
        self.send(RUN)
        assert self.ears.wait_for(self.mailbox, DEADLINE_SEC) == RUN

    def _hear(self, message: m.ToSlot) -> None:
        self.readers.append(threading.current_thread().name)
        self.mailbox.put(message)

    def _tick(self) -> None:
        self.ticks += 1


RUN = m.RunFlow(
    number=1,
    lane=0,
    run_id="r",
    fence=1,
    attempts={},
    flow_name="f",
    params=b"{}",
    recorded=b"{}",
    metadata={},
    result_bytes_max=1,
    timeout_sec=None,
)
STOP = m.Stop(run=1)
ME = threading.main_thread().name


@pytest.fixture
def stage() -> Iterator[Stage]:
    """Its second thread stays, as in a slot: the end of the link would end the process, so it has none."""
    worker, slot = socket.socketpair()
    yield Stage(worker, slot)
    for end in (worker, slot):
        end.detach()


def test_whoever_waits_for_a_run_hears_of_it_itself(stage: Stage) -> None:
    stage.begin()
    assert stage.readers == [ME]


def test_an_acknowledgement_is_heard_by_the_thread_that_waits_for_it(stage: Stage) -> None:
    stage.begin()
    for number in range(1, 4):
        stage.send(m.AcknowledgeMessage(run=1, number=number))
        assert stage.ears.wait_for(stage.mailbox, DEADLINE_SEC) == m.AcknowledgeMessage(run=1, number=number)
    assert stage.mailbox.empty()


def test_a_cancel_is_heard_while_user_code_runs_in_the_main_thread(stage: Stage) -> None:
    stage.begin()
    stage.ears.note_code(is_called=True)
    stage.send(STOP)
    assert stage.mailbox.get(timeout=DEADLINE_SEC) == STOP  # we do not read: somebody has to
    assert stage.readers[-1] != ME


def test_a_cancel_is_heard_in_code_that_follows_many_quick_calls(stage: Stage) -> None:
    stage.begin()
    until = time.monotonic() + 10 * REST_SEC_MAX
    while time.monotonic() < until:
        stage.ears.note_code(is_called=True)
        stage.ears.note_code(is_called=False)
    stage.ears.note_code(is_called=True)
    stage.send(STOP)
    assert stage.mailbox.get(timeout=DEADLINE_SEC) == STOP
    assert stage.readers[-1] != ME


def test_the_second_thread_checks_less_often_only_outside_of_code() -> None:
    rest_sec = LISTEN_AFTER_SEC
    for calls in range(0, 10, 2):
        rest_sec = next_rest_sec(rest_sec, calls)
    assert rest_sec == REST_SEC_MAX
    assert next_rest_sec(rest_sec, 11) == LISTEN_AFTER_SEC


def test_somebody_else_listens_at_once_where_tasks_run_beside_the_main_thread(stage: Stage) -> None:
    stage.begin()
    stage.send(STOP)
    assert stage.ears.wait_beside_others(stage.mailbox, DEADLINE_SEC) == STOP
    assert stage.readers[-1] != ME


def test_what_the_second_thread_hears_reaches_whoever_waits(stage: Stage) -> None:
    stage.begin()
    stage.send(STOP)
    stage.ears.wait_beside_others(stage.mailbox, DEADLINE_SEC)
    stage.send(m.AcknowledgeMessage(run=1, number=1))
    assert stage.ears.wait_for(stage.mailbox, DEADLINE_SEC) == m.AcknowledgeMessage(run=1, number=1)
    stage.ears.note_idle()
    stage.begin()
    stage.begin()  # and the next run is the main thread's again, or the second one's: it comes


def test_waiting_ends_with_its_time(stage: Stage) -> None:
    with pytest.raises(Empty):
        stage.ears.wait_for(stage.mailbox, 0.01)
    stage.begin()
    with pytest.raises(Empty):
        stage.ears.wait_beside_others(stage.mailbox, 0.01)


def test_the_clock_ticks_while_a_run_is_executed_and_stands_still_between_runs(stage: Stage) -> None:
    stage.begin()
    deadline = time.monotonic() + DEADLINE_SEC
    while stage.ticks < 3 and time.monotonic() < deadline:
        time.sleep(TICK_SEC / 4)
    assert stage.ticks >= 3
    stage.ears.note_idle()
    stage.send(STOP)
    stage.ears.wait_for(stage.mailbox, DEADLINE_SEC)
    last = -1
    while last != stage.ticks and time.monotonic() < deadline:  # it may be in the middle of its last ones
        last = stage.ticks
        time.sleep(5 * TICK_SEC)
    assert last == stage.ticks
