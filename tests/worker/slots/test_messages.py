"""What a worker and its slots say to each other arrives whole and in order, in whatever pieces it comes."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.worker.slots import messages as m
from pyoco_server.worker.slots.link import Link


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
