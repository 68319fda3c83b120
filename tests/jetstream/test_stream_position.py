"""Which messages a reader of a stream remembers."""

from __future__ import annotations

from pyoco_server.jetstream.stream_position import RECENT_STEPS_MAX, STEPS_MAX, Step, StreamPosition


def test_the_last_messages_are_known_by_sequence_and_time() -> None:
    position = StreamPosition()
    for seq in range(1, RECENT_STEPS_MAX + 2):
        position.advance(Step(seq, "a.b", f"{seq}000", False))
    assert position.has(RECENT_STEPS_MAX, f"{RECENT_STEPS_MAX}000")
    assert not position.has(RECENT_STEPS_MAX, "1000")
    assert not position.has(RECENT_STEPS_MAX, None)
    assert position.has(2, "2000")
    assert not position.has(1, "1000")


def test_fewer_are_kept_beyond_a_restart() -> None:
    position = StreamPosition(created="then")
    for seq in range(1, RECENT_STEPS_MAX + 2):
        position.advance(Step(seq, "a.b", f"{seq}000", False))
    loaded = StreamPosition.load(position.dump())
    last = position.position
    assert (loaded.position, loaded.created, loaded.stored_at) == (last, "then", f"{last}000")
    assert loaded.has(last - STEPS_MAX + 1, f"{last - STEPS_MAX + 1}000")
    assert not loaded.has(last - STEPS_MAX, f"{last - STEPS_MAX}000")
