"""Requests that wait for the end of a run that the feed delivers. They fold nothing until it has ended.

A wait ends with the commit that ends the run, at its timeout, or when the connection to the broker was lost:
then the run has to be read.
"""

from __future__ import annotations

import asyncio

from pyoco_server.read_model.runs import ReadModel


class EndWaits:
    def __init__(self, read_model: ReadModel) -> None:
        self._notifications = read_model.notifications
        self._waiting: set[asyncio.Future[bool]] = set()

    def __len__(self) -> int:
        return len(self._waiting)

    async def has_ended(self, run_id: str, timeout_sec: float) -> bool:
        """True with the end of the run. False at the timeout, and if the wait was interrupted."""
        loop = asyncio.get_running_loop()
        over: asyncio.Future[bool] = loop.create_future()

        def end() -> None:
            _finish(over, True)

        timer = loop.call_later(timeout_sec, _finish, over, False)
        self._waiting.add(over)
        self._notifications.follow_end(run_id, end)
        try:
            return await over
        finally:
            timer.cancel()
            self._notifications.unfollow_end(run_id, end)
            self._waiting.discard(over)

    def interrupt(self) -> None:
        """The connection was lost. What the feed delivers from now on may continue another log."""
        for over in tuple(self._waiting):
            _finish(over, False)


def _finish(over: asyncio.Future[bool], has_ended: bool) -> None:
    if not over.done():
        over.set_result(has_ended)
