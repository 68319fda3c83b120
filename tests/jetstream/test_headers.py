"""Header blocks, written and read."""

from __future__ import annotations

from pyoco_server.jetstream.headers import header_block, number_of, status_of, value_of


def test_a_block_is_written_as_the_protocol_has_it() -> None:
    block = header_block(Nats_Msg_Id="r.1", Pyoco_Job=2)
    assert block == b"NATS/1.0\r\nNats-Msg-Id: r.1\r\nPyoco-Job: 2\r\n\r\n"


def test_what_was_written_is_read_again() -> None:
    block = header_block(Nats_Msg_Id="r.1", Pyoco_Job=2, Pyoco_Name="実行")
    assert value_of(block, b"Nats-Msg-Id") == "r.1"
    assert value_of(block, b"Pyoco-Name") == "実行"
    assert number_of(block, b"Pyoco-Job") == 2


def test_a_name_that_ends_like_another_is_not_it() -> None:
    block = header_block(Pyoco_Commit_No=7, Pyoco_Commit="abc", X_Pyoco_Commit="no")
    assert value_of(block, b"Pyoco-Commit") == "abc"
    assert value_of(block, b"Commit") is None


def test_a_missing_header_is_none_and_counts_nothing() -> None:
    assert value_of(b"", b"Pyoco-Job") is None
    assert number_of(b"", b"Pyoco-Job") == 0
    assert number_of(header_block(Pyoco_Job="-1"), b"Pyoco-Job") == 0
    assert number_of(header_block(Pyoco_Job="many"), b"Pyoco-Job") == 0


def test_blanks_around_a_value_are_not_part_of_it() -> None:
    assert value_of(b"NATS/1.0\r\nA:  b \r\n\r\n", b"A") == "b"


def test_control_messages_have_a_status_and_others_have_none() -> None:
    assert status_of(b"NATS/1.0 408 Request Timeout\r\n\r\n") == 408
    assert status_of(b"NATS/1.0 100\r\n\r\n") == 100
    assert status_of(b"NATS/1.0\r\nStatus: 408\r\n\r\n") == 0
    assert status_of(b"NATS/1.0 soon\r\n\r\n") == 0
    assert status_of(b"") == 0
