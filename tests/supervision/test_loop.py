"""Loops continue after every kind of failure, and end only when they are stopped."""

import asyncio
import logging

import pytest

from pyoco_server.errors import Unavailable
from pyoco_server.supervision import Backoff, Loop, contain, failures_by_loop, start_task, wait_for_event
from tests.conftest import until

FAST = Backoff(first_sec=0.001, longest_sec=0.01)
PATIENCE_SEC = 5.0


class Body:
    """Raises what it is given, one after the other, then nothing; counts how often it was executed."""

    def __init__(self, *raised: BaseException) -> None:
        self._raised = list(raised)
        self.executed = 0
        self._moved = asyncio.Event()

    async def __call__(self) -> None:
        self.executed += 1
        self._moved.set()
        if self._raised:
            raise self._raised.pop(0)

    async def reaches(self, count: int) -> None:
        async with asyncio.timeout(PATIENCE_SEC):
            while self.executed < count:
                self._moved.clear()
                await self._moved.wait()


async def test_a_loop_continues_after_expected_and_unexpected_errors() -> None:
    body = Body(Unavailable("away"), ValueError("defect"), AssertionError(), asyncio.CancelledError())
    loop = Loop("test.continues", body, interval_sec=0.001, backoff=FAST)
    loop.start()
    await body.reaches(6)
    assert loop.is_running
    assert failures_by_loop()["test.continues"] == 4
    assert (loop.failures_in_a_row, loop.last_error) == (0, None)
    await loop.stop()


async def test_a_loop_reports_its_name_and_the_traceback_of_a_defect(
    caplog: pytest.LogCaptureFixture,
) -> None:
    body = Body(ValueError("defect"))
    loop = Loop("test.reports", body, interval_sec=0.001, backoff=FAST)
    loop.start()
    await body.reaches(2)
    await loop.stop()
    [record] = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert record.__dict__["loop"] == "test.reports"
    assert record.exc_info is not None
    assert record.exc_info[0] is ValueError


async def test_a_failure_that_lasts_is_a_warning_once(caplog: pytest.LogCaptureFixture) -> None:
    body = Body(*(Unavailable("away") for _ in range(20)))
    loop = Loop("test.lasts", body, interval_sec=0.001, backoff=FAST)
    loop.start()
    await body.reaches(22)
    await loop.stop()
    assert [one.levelname for one in caplog.records if one.levelno >= logging.WARNING] == ["WARNING"]


async def test_a_woken_loop_without_an_interval_executes_its_body_once_for_each_burst() -> None:
    body = Body()
    loop = Loop("test.woken", body)
    loop.start()
    await asyncio.sleep(0.01)
    assert body.executed == 0
    loop.wake()
    loop.wake()
    await body.reaches(1)
    await asyncio.sleep(0.01)
    assert body.executed == 1
    await loop.stop()


async def test_a_wake_up_during_the_body_is_not_lost() -> None:
    executed = 0
    loop: Loop

    async def body() -> None:
        nonlocal executed
        executed += 1
        if executed == 1:
            loop.wake()

    loop = Loop("test.during", body)
    loop.start()
    loop.wake()
    await until(lambda: executed >= 2)
    await loop.stop()


async def test_a_failed_body_is_executed_again_although_its_wake_up_was_consumed() -> None:
    body = Body(Unavailable("away"))
    loop = Loop("test.again", body, backoff=FAST)
    loop.start()
    loop.wake()
    await body.reaches(2)
    await loop.stop()


async def test_wake_ups_do_not_shorten_the_backoff() -> None:
    body = Body(*(ValueError() for _ in range(1000)))
    loop = Loop("test.backoff", body, interval_sec=0.001, backoff=Backoff(first_sec=60.0, longest_sec=60.0))
    loop.start()
    await body.reaches(1)
    for _ in range(10):
        loop.wake()
        await asyncio.sleep(0.002)
    assert body.executed == 1
    async with asyncio.timeout(PATIENCE_SEC):
        await loop.stop()


async def test_a_loop_is_started_once_and_stopped_twice() -> None:
    running = most = 0

    async def body() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.002)
        running -= 1

    loop = Loop("test.once", body, interval_sec=0.001)
    loop.start()
    loop.start()
    await asyncio.sleep(0.02)
    await loop.stop()
    await loop.stop()
    loop.start()
    assert most == 1
    assert not loop.is_running


async def test_a_body_that_does_not_end_is_cancelled_by_stop() -> None:
    async def body() -> None:
        await asyncio.Event().wait()

    loop = Loop("test.hangs", body, interval_sec=1.0)
    loop.start()
    await asyncio.sleep(0)
    async with asyncio.timeout(PATIENCE_SEC):
        await loop.stop(within_sec=0.01)
    assert not loop.is_running


async def test_an_owner_that_cannot_wait_cancels_the_body_and_the_loop_is_not_started_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    entered = asyncio.Event()

    async def body() -> None:
        entered.set()
        await asyncio.Event().wait()

    loop = Loop("test.at_once", body, interval_sec=1.0)
    loop.start()
    await entered.wait()
    loop.stop_at_once()
    await until(lambda: not loop.is_running)
    loop.start()
    assert not loop.is_running
    assert not caplog.records


async def test_a_cancelled_loop_ends_also_if_its_body_fails_meanwhile() -> None:
    entered = asyncio.Event()

    async def body() -> None:
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("the clean-up failed")

    loop = Loop("test.cancelled", body, interval_sec=0.001, backoff=FAST)
    loop.start()
    await entered.wait()
    [task] = [one for one in asyncio.all_tasks() if one.get_name() == "test.cancelled"]
    task.cancel()  # as at the end of `asyncio.run`, which waits for every task
    ended, _ = await asyncio.wait([task], timeout=PATIENCE_SEC)
    loop.stop_at_once()
    assert ended
    assert isinstance(task.exception(), ValueError)


async def test_a_stop_without_a_limit_waits_for_the_body() -> None:
    entered, may_end, ended = asyncio.Event(), asyncio.Event(), False

    async def body() -> None:
        nonlocal ended
        entered.set()
        await may_end.wait()
        ended = True

    loop = Loop("test.waits", body, interval_sec=1.0)
    loop.start()
    await entered.wait()
    asyncio.get_running_loop().call_soon(may_end.set)
    await loop.stop(within_sec=None)
    assert ended


async def test_a_task_that_fails_once_is_counted_and_a_cancelled_one_is_not() -> None:
    async def fail() -> None:
        raise ValueError("defect")

    tasks = [start_task(fail(), "test.task") for _ in range(2)]
    tasks[1].cancel()
    await asyncio.wait(tasks)
    await until(lambda: failures_by_loop().get("test.task"))
    assert failures_by_loop()["test.task"] == 1


async def test_an_event_that_is_set_at_the_moment_of_the_timeout_is_not_missed() -> None:
    event = asyncio.Event()
    waiting = start_task(wait_for_event(event, 0.0), "test.event")
    await asyncio.sleep(0)  # its timeout is due in the next step
    event.set()
    assert await waiting
    assert not await wait_for_event(asyncio.Event(), 0.0)


def test_a_step_that_fails_is_logged_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    with contain("test.step"):
        raise ValueError("defect")
    assert failures_by_loop()["test.step"] == 1
    assert [one.__dict__["loop"] for one in caplog.records] == ["test.step"]


@pytest.mark.parametrize(("failures", "most"), [(0, 0.0), (1, 0.1), (2, 0.2), (5, 1.6), (10_000, 5.0)])
def test_the_backoff_grows_and_is_capped(failures: int, most: float) -> None:
    waits = {Backoff().after(failures) for _ in range(50)}
    assert max(waits) <= most
    assert min(waits) >= most * 0.75
