"""The server's lines in our log."""

import asyncio
import logging

import pytest

from pyoco_server.broker.server_log import LAST_LINES_MAX, ServerLog, parse_line


@pytest.mark.parametrize(
    ("line", "parsed"),
    [
        ("[7] 2026/11/16 00:56:40.067731 [INF] Server is ready", (logging.DEBUG, "Server is ready")),
        ("[7] 2026/11/16 00:56:40.067731 [WRN] slow", (logging.WARNING, "slow")),
        ("[7] 2026/11/16 00:56:40.067731 [ERR] bad", (logging.ERROR, "bad")),
        ("[7] [FTL] worse", (logging.CRITICAL, "worse")),
        ("[7] 2026/11/16 00:56:40.067731 [INF]", (logging.DEBUG, "")),
        ("[7] [INF]   Version:  2.15.1", (logging.DEBUG, "  Version:  2.15.1")),
        (
            "[7] [WRN] Filestore [PYOCO_LOGS] TTL state is outdated; attempting to recover using linear scan",
            (
                logging.DEBUG,
                "Filestore [PYOCO_LOGS] TTL state is outdated; attempting to recover using linear scan",
            ),
        ),
        ("[7] [WRN] Filestore [PYOCO_LOGS] is full", (logging.WARNING, "Filestore [PYOCO_LOGS] is full")),
        ("panic: runtime error", (logging.WARNING, "panic: runtime error")),
    ],
)
def test_its_levels_become_ours(line: str, parsed: tuple[int, str]) -> None:
    assert parse_line(line) == parsed


async def followed(*lines: bytes) -> ServerLog:
    stream = asyncio.StreamReader(limit=1000)
    for line in lines:
        stream.feed_data(line + b"\n")
    stream.feed_eof()
    server_log = ServerLog(pid=7)
    await server_log.follow(stream)
    return server_log


async def test_complaints_explain_an_exit_better_than_small_talk() -> None:
    server_log = await followed(b"[7] [INF] hello", b"[7] [FTL] no disk", b"[7] [INF] bye")
    assert server_log.explanation() == "no disk"


async def test_without_complaints_the_last_lines_are_told() -> None:
    server_log = await followed(*(b"[7] [INF] line %d" % n for n in range(100)))
    assert server_log.explanation().splitlines() == [f"line {n}" for n in range(100 - LAST_LINES_MAX, 100)]


async def test_a_server_that_said_nothing_is_said_to_have_said_nothing() -> None:
    assert (await followed()).explanation() == "(it said nothing)"


async def test_an_overlong_line_does_not_stop_the_reading() -> None:
    server_log = await followed(b"x" * 5000, b"[7] [ERR] after it")
    assert "after it" in server_log.explanation()
