"""What a worker and its slots say to each other arrives whole and in order, in whatever pieces it comes."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.lifecycle.commands import FailTask, StartTask, SucceedTask
from pyoco_server.lifecycle.status import OutputKept
from pyoco_server.worker.slots import messages as m
from pyoco_server.worker.slots.child_link import LinkWriter
from pyoco_server.worker.slots.link import Link

READ_BYTES = 64 * 1024


@given(st.lists(st.integers(0, 50_000), max_size=8), st.lists(st.integers(1, 9_000), min_size=1, max_size=30))
def test_messages_are_whole_however_they_are_cut(sizes: list[int], cuts: list[int]) -> None:
    said = [m.UsePage(path="x" * size) for size in sizes]
    data = b"".join(map(m.frame, said))
    reader = m.slot_reader()
    heard = []
    at = turn = 0
    while at < len(data):
        step = cuts[turn % len(cuts)]
        heard += reader.read(data[at : at + step])
        at, turn = at + step, turn + 1
    assert heard == said


def test_a_large_message_costs_its_size() -> None:
    large = m.RunFlow(
        number=1,
        lane=0,
        run_id="r",
        fence=1,
        attempts={},
        flow_name="f",
        params=b"{}",
        recorded=b"x" * 40_000_000,
        metadata={},
        result_bytes_max=1,
        timeout_sec=None,
    )
    data = m.frame(large)
    reader = m.slot_reader()
    looked_at = 0
    for at in range(0, len(data), 1_000):  # 40 000 pieces: to copy all of it each time would take minutes
        looked_at += len(reader.read(data[at : at + 1_000]))
    assert looked_at == 1


class Wire(asyncio.Transport):
    """Keeps each write."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.is_closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writes.append(bytes(data))

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True


async def test_messages_of_one_step_leave_in_one_write() -> None:
    wire, link = Wire(), Link(lambda _: None, lambda: None)
    link.connection_made(wire)
    said: list[m.ToSlot] = [m.Stop(run=1), m.Stop(run=2), m.AcknowledgeMessage(run=3, number=4)]
    for message in said[:2]:
        link.send(message)
    assert wire.writes == []
    await asyncio.sleep(0)
    link.send(said[2])
    await asyncio.sleep(0)
    assert [m.slot_reader().read(data) for data in wire.writes] == [said[:2], said[2:]]


async def test_nothing_is_written_to_a_link_that_was_closed_meanwhile() -> None:
    wire, link = Wire(), Link(lambda _: None, lambda: None)
    link.connection_made(wire)
    link.send(m.Stop(run=1))
    link.close()
    await asyncio.sleep(0)
    assert wire.writes == []


class Stage:
    def __init__(self, slot: socket.socket, worker: socket.socket) -> None:
        self._worker = worker
        self._reader = m.worker_reader()
        self.writer = LinkWriter(slot)

    def read(self) -> list[Any]:
        """What has been written by now."""
        self._worker.setblocking(False)
        try:
            return self._reader.read(self._worker.recv(READ_BYTES))
        except BlockingIOError:
            return []


@pytest.fixture
def stage() -> Iterator[Stage]:
    slot, worker = socket.socketpair()
    with slot, worker:
        yield Stage(slot, worker)


def start(task: str = "a") -> StartTask:
    return StartTask(fence=1, task=task, attempt=1, started_at=1.0)


def success(task: str = "a") -> SucceedTask:
    return SucceedTask(fence=1, task=task, attempt=1, started_at=1.0, ended_at=2.0, kept=OutputKept.STORED)


def failure(task: str = "a") -> FailTask:
    return FailTask(fence=1, task=task, attempt=1, started_at=1.0, ended_at=2.0, error="no", will_retry=False)


def reported(run: int, command: Any, values: bytes | None = None) -> m.Reported:
    return m.Reported(run=run, command=command, values=values)


def test_start_and_success_are_one_message(stage: Stage) -> None:
    stage.writer.report(1, start(), b"{}")
    stage.writer.report(1, success(), b"7", 3)
    assert stage.read() == []
    stage.writer.flush_awaited()
    [both] = stage.read()
    assert both == m.Executed(
        run=1, started=start(), inputs=b"{}", succeeded=success(), output=b"7", number=3
    )


def test_a_start_is_written_with_what_follows_it(stage: Stage) -> None:
    stage.writer.report(1, start(), b"{}")
    stage.writer.report(1, failure(), None)
    stage.writer.report(1, start("b"), b"{}")
    stage.writer.report(2, success("b"), b"7")  # of another run
    stage.writer.report(1, start("c"), b"{}")
    ended = m.EndedMessage(run=1, status="COMPLETED", reason="")
    stage.writer.send_awaited(ended)
    stage.writer.flush_awaited()
    assert stage.read() == [
        reported(1, start(), b"{}"),
        reported(1, failure()),
        reported(1, start("b"), b"{}"),
        reported(2, success("b"), b"7"),
        reported(1, start("c"), b"{}"),
        ended,
    ]


def test_lines_stay_between_the_start_and_the_success_of_their_task(stage: Stage) -> None:
    stage.writer.report(1, start(), b"{}")
    stage.writer.print(1.5, (1, "stdout", "a", 1, None), ["one"])
    stage.writer.report(1, success(), b"7")
    stage.writer.tick()
    first, lines, last = stage.read()
    assert (first, last) == (reported(1, start(), b"{}"), reported(1, success(), b"7"))
    assert lines.lines == ["one"]


def test_a_start_does_not_wait_for_its_success_longer_than_a_tick(stage: Stage) -> None:
    stage.writer.report(1, start(), b"{}")
    stage.writer.tick()
    assert stage.read() == [reported(1, start(), b"{}")]
    stage.writer.report(1, success(), b"7", patience_sec=0.0)
    assert stage.read() == [reported(1, success(), b"7")]
