"""What a worker and its slots say to each other arrives whole and in order, in whatever pieces it comes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.worker.slots import messages as m


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
