"""Work for a request ends with its client, and a cancelled request is not taken for a client that left."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message

from pyoco_server.http_api.requests import connected
from pyoco_server.http_api.requests.connected import while_connected


def request_with(receive: Callable[[], Awaitable[Any]]) -> Request:
    return Request({"type": "http", "headers": []}, receive)


async def stays() -> dict[str, Any]:
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


async def test_the_result_of_the_work_is_returned() -> None:
    async def work() -> int:
        await asyncio.sleep(0)
        return 7

    before = asyncio.all_tasks()
    assert await while_connected(request_with(stays), work()) == 7
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before


async def test_a_client_that_leaves_cancels_the_work() -> None:
    ended = asyncio.Event()

    async def leaves() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)  # what the work does at its end is awaited
            ended.set()

    with pytest.raises(ClientDisconnect):
        await while_connected(request_with(leaves), work())
    assert ended.is_set()
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_a_receiver_that_fails_is_a_client_that_left() -> None:
    async def fails() -> dict[str, Any]:
        raise RuntimeError("gone")

    with pytest.raises(ClientDisconnect):
        await while_connected(request_with(fails), asyncio.Event().wait())


async def test_an_error_of_the_work_is_raised() -> None:
    async def work() -> None:
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        await while_connected(request_with(stays), work())


async def test_a_cancelled_request_is_cancelled() -> None:
    serving = asyncio.create_task(while_connected(request_with(stays), asyncio.Event().wait()))
    await asyncio.sleep(0)
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving


async def test_work_that_is_over_soon_does_not_watch_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connected, "WATCH_AFTER_SEC", 3600.0)
    asked: list[str] = []

    async def receive() -> Message:
        asked.append("receive")
        return {"type": "http.disconnect"}

    async def work() -> int:
        await asyncio.sleep(0)
        return 7

    assert await while_connected(request_with(receive), work()) == 7
    assert asked == []
